// Package netns makes network namespaces for tests with real packets. They have
// no names, so nothing is left behind whatever becomes of the test, and traffic
// never leaves them.
package netns

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// NS is a network namespace.
type NS struct {
	Name string
	t    testing.TB
	file *os.File
}

// New makes a namespace, with its loopback up, that ends with the test.
func New(t testing.TB, name string) *NS {
	t.Helper()
	n := &NS{Name: name, t: t}
	locked(t, func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("new network namespace (tests need root): %w", err)
		}
		var err error
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	t.Cleanup(func() { _ = n.file.Close() })
	n.Run("ip", "link", "set", "lo", "up")
	return n
}

// FD is a descriptor of the namespace; it is open until the test ends.
func (n *NS) FD() int { return int(n.file.Fd()) }

// Do calls f in the namespace. Sockets that f opens itself, not in goroutines it
// starts, belong there from then on.
func (n *NS) Do(f func()) {
	n.t.Helper()
	locked(n.t, func() error {
		if err := unix.Setns(n.FD(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace %s: %w", n.Name, err)
		}
		f()
		return nil
	})
}

// locked calls f on a thread that may change its namespace, and restores it. A
// thread that cannot be restored is lost: it ends with its goroutine.
func locked(t testing.TB, f func() error) {
	t.Helper()
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); err != nil {
			t.Errorf("return from namespace: %v", err)
			return
		}
		_ = home.Close()
		runtime.UnlockOSThread()
	}()
	if err := f(); err != nil {
		t.Fatal(err)
	}
}

// packages that programs are in.
var packages = map[string]string{"ip": "iproute2", "nft": "nftables", "ping": "iputils-ping", "dnsmasq": "dnsmasq-base", "dhcpd": "isc-dhcp-server", "ovn-northd": "ovn-central",
	"ovn-controller": "ovn-host", "ovs-vswitchd": "openvswitch-switch", "ethtool": "ethtool", "vtysh": "frr", "bird": "bird2", "chromium": "chromium", "jq": "jq", "openssl": "openssl"}

// forbidServices keeps packages from starting their services while they are installed,
// in the way that Debian has for it, unless the administrator has decided.
const forbidServices = `P=/usr/sbin/policy-rc.d; [ -e $P ] || { trap "rm -f $P" EXIT; printf '#!/bin/sh\nexit 101\n' >$P; chmod 755 $P; }`

// Need installs a program if it is missing.
func Need(t testing.TB, program string) {
	t.Helper()
	if err := Install(t.Context(), program); err != nil {
		t.Fatal(err)
	}
}

// Install installs a program if it is missing. Tests of several packages may run at once,
// and apt-get does not wait for another one to end: they take turns.
func Install(ctx context.Context, program string) error {
	if _, err := exec.LookPath(program); err == nil {
		return nil
	}
	install := "command -v " + program + " || { " + forbidServices + "; apt-get -q update && apt-get -q -o DPkg::Lock::Timeout=300 install -y --no-install-recommends " + packages[program] + "; }"
	if out, err := exec.CommandContext(ctx, "flock", filepath.Join(os.TempDir(), "fairlead-apt.lock"), "sh", "-c", install).CombinedOutput(); err != nil {
		return fmt.Errorf("install %s: %w\n%s", program, err, out)
	}
	return nil
}

// Run runs a program in the namespace and returns what it prints. It is
// installed if it is missing.
func (n *NS) Run(program string, args ...string) string {
	n.t.Helper()
	out, err := n.Try(program, args...)
	if err != nil {
		n.t.Fatalf("%s: %s %s: %v\n%s", n.Name, program, strings.Join(args, " "), err, out)
	}
	return out
}

// Try is Run for what may fail.
func (n *NS) Try(program string, args ...string) (string, error) {
	n.t.Helper()
	Need(n.t, program)
	var out []byte
	var err error
	n.Do(func() { out, err = exec.CommandContext(n.t.Context(), program, args...).CombinedOutput() })
	return string(out), err
}

// Plug is one end of a cable.
type Plug struct {
	NS        *NS
	Interface string
	Addresses []string // with prefix lengths
}

// Cable connects two interfaces, makes them and sets them up. Addresses are
// usable at once: there is no duplicate address detection. The link-local
// address is made of the number of the end, fe80::1 and fe80::2.
func Cable(ends ...Plug) {
	a, b := ends[0], ends[1]
	a.NS.t.Helper()
	a.NS.Run("ip", "link", "add", a.Interface, "type", "veth", "peer", "name", b.Interface, "netns", b.NS.path())
	for i, end := range ends {
		end.NS.Run("ip", "link", "set", end.Interface, "addrgenmode", "none")
		end.NS.Run("ip", "link", "set", end.Interface, "up")
		for _, addr := range append(end.Addresses, fmt.Sprintf("fe80::%d/64", i+1)) {
			args := []string{"addr", "add", addr, "dev", end.Interface}
			if netip.MustParsePrefix(addr).Addr().Is6() {
				args = append(args, "nodad")
			}
			end.NS.Run("ip", args...)
		}
	}
	for _, end := range ends {
		Eventually(end.NS.t, time.Minute, end.Interface+" is up", func() bool {
			return strings.Contains(end.NS.Run("ip", "link", "show", end.Interface), "state UP")
		})
	}
}

func (n *NS) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.FD()) }

// Eventually waits until cond holds.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %v: %s", within, what)
		case <-tick.C:
		}
	}
}
