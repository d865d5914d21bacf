package failover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/site"
)

// dhcpServer is one beside the cluster.
type dhcpServer struct {
	t      *testing.T
	leases string // file
	cmd    *exec.Cmd
	log    process.Log
}

func newDHCPServer(t *testing.T) *dhcpServer {
	t.Helper()
	d := &dhcpServer{t: t, leases: filepath.Join(t.TempDir(), "leases")}
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("DHCP server:\n%s", d.log.String())
		}
	})
	return d
}

// start starts Debian's dnsmasq with these addresses to give. Leases last two
// minutes, its least; those of IPv4 are to be renewed every three seconds.
func (d *dhcpServer) start(v4, v6 string, more ...string) {
	d.t.Helper()
	d.run("dnsmasq", append(more, "--no-daemon", "--conf-file=/dev/null", "--port=0",
		"--interface=eth0", "--except-interface=lo", "--bind-interfaces", "--no-ping", "--user=root", "--log-dhcp", "--dhcp-authoritative",
		"--pid-file=", "--dhcp-leasefile="+d.leases, "--dhcp-range="+v4+",120s", "--dhcp-range="+v6+",64,120s",
		"--dhcp-option=option:T1,3", "--dhcp-option=option:T2,5")...)
}

// startShort starts ISC's server, whose leases may be as short as one likes.
func (d *dhcpServer) startShort(v4 string, life int) {
	d.t.Helper()
	config := filepath.Join(filepath.Dir(d.leases), "dhcpd.conf")
	text := fmt.Sprintf("authoritative; default-lease-time %d; min-lease-time %[1]d; max-lease-time %[1]d; subnet 10.77.0.0 netmask 255.255.255.0 { range %s; }",
		life, strings.ReplaceAll(v4, ",", " "))
	file, err := os.OpenFile(d.leases, os.O_CREATE, 0o644) // it does not make it itself
	if err == nil {
		err = file.Close()
	}
	if err == nil {
		err = os.WriteFile(config, []byte(text), 0o644)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.run("dhcpd", "-4", "-f", "-d", "--no-pid", "-cf", config, "-lf", d.leases, "eth0")
}

func (d *dhcpServer) run(program string, args ...string) {
	d.t.Helper()
	netns.Need(d.t, program)
	cmd, err := cluster.ExecCommand(context.Background(), sandbox.ControlHost, append([]string{program}, args...)...)
	if err != nil {
		d.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = &d.log, &d.log
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.cmd = cmd
}

func (d *dhcpServer) stop() {
	if d.cmd != nil {
		_, _ = d.cmd.Process.Kill(), d.cmd.Wait()
		d.cmd = nil
	}
}

// forget has the server know nothing of leases any more.
func (d *dhcpServer) forget() {
	d.t.Helper()
	d.stop()
	if err := os.Remove(d.leases); err != nil {
		d.t.Fatal(err)
	}
}

// has returns the addresses that are leased, as the server says.
func (d *dhcpServer) has() (out []netip.Addr) {
	for _, line := range d.lines() {
		for _, field := range line {
			if a, err := lb.ParseAddr(field); err == nil && strings.ContainsAny(field, ".:") && slices.ContainsFunc(leasable, func(p netip.Prefix) bool { return p.Contains(a) }) {
				out = append(out, a)
			}
		}
	}
	return out
}

// holder returns who has a lease: of IPv4 the hardware address, the name and the
// client identifier, of IPv6 the last two.
func (d *dhcpServer) holder(addr netip.Addr) string {
	for _, line := range d.lines() {
		if i := slices.Index(line, addr.String()); i > 0 {
			return strings.Join(slices.Delete(line[1:], i-1, i), " ")
		}
	}
	return ""
}

// lines of the server's file, which it empties and writes anew for each lease: one that has
// just changed is read again. On a busy machine it may be empty for longer.
func (d *dhcpServer) lines() (out [][]string) {
	var text []byte
	if err := await(context.WithoutCancel(d.t.Context()), site.Long, func() error {
		before, err := os.Stat(d.leases)
		if errors.Is(err, fs.ErrNotExist) { // there is none yet
			return nil
		}
		if err != nil {
			return err
		}
		if text, err = os.ReadFile(d.leases); err != nil {
			return err
		}
		settled := 50 * time.Millisecond
		if len(text) == 0 {
			settled = 2 * time.Second
		}
		now, err := os.Stat(d.leases)
		if err == nil && (now.ModTime() != before.ModTime() || time.Since(now.ModTime()) < settled) {
			err = errors.New("the server still writes its leases")
		}
		return err
	}); err != nil {
		d.t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		out = append(out, strings.Fields(line))
	}
	return out
}

// heard says how often the server has heard a message about an address since its
// log was that long.
func (d *dhcpServer) heard(message string, addr netip.Addr, since int) (times int) {
	for line := range strings.Lines(d.log.From(since)) {
		if strings.Contains(line, message+"(") && slices.Contains(strings.Fields(line), addr.String()) {
			times++
		}
	}
	return times
}

var leasable = []netip.Prefix{netip.MustParsePrefix("10.77.0.224/27"), netip.MustParsePrefix("fd77::2:0/112")}

const (
	leased4, leased6 = "10.77.0.230,10.77.0.239", "fd77::2:30,fd77::2:39"
	other4           = "10.77.0.240,10.77.0.249"
)
