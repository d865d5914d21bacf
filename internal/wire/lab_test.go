package wire

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/leak"
	kit "fairlead.io/test/kit/netns"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Tests have hosts on a LAN of their own: a network namespace each, and one for
// the bridge between them. Names begin with this and the id of the process.
const labPrefix = "fairlead-wire-"

func TestMain(m *testing.M) {
	sweep()
	leak.Main(m)
}

// sweep removes what tests left that were killed.
func sweep() {
	entries, _ := os.ReadDir("/run/netns")
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), labPrefix)
		pid, err := strconv.Atoi(strings.Split(rest, "-")[0])
		if ours && err == nil && unix.Kill(pid, 0) == unix.ESRCH {
			exec.Command("ip", "netns", "del", e.Name()).Run()
		}
	}
}

// ip runs iproute2.
func ip(t *testing.T, args ...string) string {
	t.Helper()
	kit.Need(t, "ip")
	out, err := exec.Command("ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// host is one on the LAN, with an interface eth0.
type host struct{ ns string }

var labs int

// lan makes hosts without any address. They are removed with the test.
func lan(t *testing.T, n int) []*host {
	t.Helper()
	labs++
	prefix := fmt.Sprintf("%s%d-%d-", labPrefix, os.Getpid(), labs)
	add := func(name string) string {
		ip(t, "netns", "add", prefix+name)
		t.Cleanup(func() { ip(t, "netns", "del", prefix+name) })
		return prefix + name
	}
	bridge := add("lan")
	ip(t, "-n", bridge, "link", "add", "name", "br0", "type", "bridge", "mcast_snooping", "0")
	ip(t, "-n", bridge, "link", "set", "br0", "up")
	var hosts []*host
	for i := range n {
		h, port := &host{add(fmt.Sprintf("host%d", i))}, fmt.Sprintf("port%d", i)
		ip(t, "-n", bridge, "link", "add", "name", port, "type", "veth", "peer", "name", "eth0", "netns", h.ns)
		ip(t, "-n", bridge, "link", "set", port, "master", "br0", "up")
		h.ip(t, "link", "set", "eth0", "addrgenmode", "none")
		h.ip(t, "link", "set", "eth0", "up")
		hosts = append(hosts, h)
	}
	eventually(t, "the bridge to forward", func() bool {
		return strings.Count(ip(t, "-n", bridge, "-d", "link", "show", "master", "br0"), "state forwarding") == n
	})
	for _, h := range hosts {
		eventually(t, "carrier", func() bool { return strings.Contains(h.ip(t, "link", "show", "eth0"), "LOWER_UP") })
	}
	return hosts
}

func (h *host) ip(t *testing.T, args ...string) string {
	t.Helper()
	return ip(t, append([]string{"-n", h.ns}, args...)...)
}

// do runs f on a thread in the host's namespace, which ends with it.
func (h *host) do(t *testing.T, f func() error) {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		ns, err := netns.GetFromName(h.ns)
		if err == nil {
			defer ns.Close()
			if err = netns.Set(ns); err == nil {
				err = f()
			}
		}
		result <- err
	}()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}

// open opens a port on the host's eth0.
func (h *host) open(t *testing.T) *Port {
	t.Helper()
	var p *Port
	h.do(t, func() (err error) { p, err = Open("eth0"); return err })
	t.Cleanup(func() { p.Close() })
	return p
}

func (h *host) add(t *testing.T, prefix string) {
	t.Helper()
	args := []string{"addr", "add", prefix, "dev", "eth0"}
	if strings.Contains(prefix, ":") {
		args = append(args, "nodad")
	}
	h.ip(t, args...)
}

// poke sends a packet to addr, before which the kernel must learn its MAC.
func (h *host) poke(t *testing.T, addr netip.Addr) {
	t.Helper()
	h.do(t, func() error {
		c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("anybody there?"))
		return err
	})
}

var lladdr = regexp.MustCompile(`lladdr (\S+)`)

// neighbour returns the MAC that the kernel of the host has for addr.
func (h *host) neighbour(t *testing.T, addr netip.Addr) string {
	t.Helper()
	if m := lladdr.FindStringSubmatch(h.ip(t, "neigh", "show", addr.String(), "dev", "eth0")); m != nil {
		return m[1]
	}
	return ""
}

func own(t *testing.T, p *Port) string {
	t.Helper()
	m, err := p.MAC()
	if err != nil {
		t.Fatal(err)
	}
	return m.String()
}

// eventually polls, because others change what is looked at.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(time.Minute)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-tick.C
	}
}
