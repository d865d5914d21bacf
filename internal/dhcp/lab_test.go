package dhcp

import (
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/netns"
)

// lan is a DHCP server, Debian's dnsmasq, and two nodes on one switch.
type lan struct {
	server *netns.NS
	nodes  [2]*netns.NS
	dir    string
}

func newLAN(t *testing.T) *lan {
	t.Helper()
	l := &lan{server: netns.New(t, "server"), dir: t.TempDir()}
	l.server.Run("ip", "link", "add", "br0", "type", "bridge")
	l.server.Run("ip", "link", "set", "br0", "up")
	l.server.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "br0")
	l.server.Run("ip", "addr", "add", "2001:db8::1/64", "dev", "br0", "nodad")
	for i := range l.nodes {
		l.nodes[i] = netns.New(t, "node"+strconv.Itoa(i))
		port := "port" + strconv.Itoa(i)
		netns.Cable(netns.Plug{NS: l.server, Interface: port}, netns.Plug{NS: l.nodes[i], Interface: "eth0"})
		l.server.Run("ip", "link", "set", port, "master", "br0", "up")
		l.nodes[i].Run("ip", "addr", "del", "fe80::2/64", "dev", "eth0")
		l.nodes[i].Run("ip", "addr", "add", "fe80::1"+strconv.Itoa(i)+"/64", "dev", "eth0", "nodad")
	}
	return l
}

// serve starts the server; stop ends it.
func (l *lan) serve(t *testing.T) (stop func()) {
	t.Helper()
	return l.serveIn(t, l.server, "br0", "100", "120")
}

// serveIn starts a server elsewhere that gives other addresses.
func (l *lan) serveIn(t *testing.T, ns *netns.NS, nic, first, last string) (stop func()) {
	t.Helper()
	args := []string{"--no-daemon", "--conf-file=/dev/null", "--port=0", "--interface=" + nic, "--bind-interfaces", "--leasefile-ro",
		"--dhcp-range=192.0.2." + first + ",192.0.2." + last + ",120s", "--dhcp-range=2001:db8::" + first + ",2001:db8::" + last + ",120s", "--dhcp-authoritative",
		"--dhcp-option=option:T1,2", "--dhcp-option=option:T2,4", "--pid-file=" + filepath.Join(l.dir, nic+".pid"), "--log-dhcp"}
	ns.Run("dnsmasq", "--version") // installs it where it is missing
	cmd := exec.Command("dnsmasq", args...)
	cmd.Stderr = testLog{t}
	ns.Do(func() {
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	t.Cleanup(stop)
	return stop
}

type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Logf("dnsmasq: %s", b)
	return len(b), nil
}

// watcher runs a client and keeps what it says.
type watcher struct {
	*Client
	leases chan *Lease
	end    func()
}

func (l *lan) client(t *testing.T, node int, f lb.Family, name string, had netip.Addr, server string) *watcher {
	t.Helper()
	var port *Port
	l.nodes[node].Do(func() {
		var err error
		if port, err = Open("eth0"); err != nil {
			t.Fatal(err)
		}
	})
	w := &watcher{leases: make(chan *Lease, 100)}
	w.Client = New(Config{Family: f, Identity: IdentityOf(name), Transport: port, Had: had, HadServer: server,
		Changed: func(l *Lease, err error) { w.leases <- l }})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	w.end = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(func() {
		w.end()
		_ = port.Close()
	})
	return w
}

func (w *watcher) next(t *testing.T) *Lease {
	t.Helper()
	for {
		select {
		case l := <-w.leases:
			if l != nil {
				return l
			}
		case <-time.After(2 * time.Minute):
			t.Fatal("no lease")
		}
	}
}

// A Service gets an address from the server, the same one on another node, and
// the server has it again after its release.
func TestRealServer(t *testing.T) {
	l := newLAN(t)
	l.serve(t)
	for _, f := range lb.Families {
		t.Run(f.String(), func(t *testing.T) {
			first := l.client(t, 0, f, "shop/web", netip.Addr{}, "")
			lease := first.next(t)
			if lb.FamilyOf(lease.Addr) != f || lease.Until.Before(time.Now().Add(time.Minute)) {
				t.Fatalf("lease %+v", lease)
			}
			if other := l.client(t, 0, f, "shop/other", netip.Addr{}, "").next(t); other.Addr == lease.Addr {
				t.Fatalf("two have %s", other.Addr)
			}
			first.end() // the node dies
			second := l.client(t, 1, f, "shop/web", netip.Addr{}, "")
			if again := second.next(t); again.Addr != lease.Addr {
				t.Fatalf("had %s, has %s on another node", lease.Addr, again.Addr)
			}
			second.end()
			third := l.client(t, 1, f, "shop/web", lease.Addr, "")
			if kept := third.next(t); kept.Addr != lease.Addr || !kept.Until.IsZero() {
				t.Fatalf("kept %+v", kept)
			}
			if confirmed := third.next(t); confirmed.Addr != lease.Addr || confirmed.Until.IsZero() {
				t.Fatalf("confirmed %+v", confirmed)
			}
			third.end()
			if err := third.Release(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A lease is renewed also while the address is on no interface, because nothing
// serves there: the server cannot answer to the address itself.
func TestRenewedWithoutTheAddress(t *testing.T) {
	l := newLAN(t)
	l.serve(t)
	w := l.client(t, 0, lb.IPv4, "shop/web", netip.Addr{}, "")
	first := w.next(t)
	if again := w.next(t); again.Addr != first.Addr || !again.Until.After(first.Until) {
		t.Fatalf("had %+v, has %+v", first, again)
	}
}

// Two servers on one LAN that know nothing of each other: a Service has one
// address, also on the next node, whichever server is faster; and when its server
// is gone for good, one of the other's.
func TestTwoRealServers(t *testing.T) {
	l := newLAN(t)
	second := netns.New(t, "second")
	netns.Cable(netns.Plug{NS: l.server, Interface: "port9"}, netns.Plug{NS: second, Interface: "eth9"})
	l.server.Run("ip", "link", "set", "port9", "master", "br0", "up")
	second.Run("ip", "addr", "add", "192.0.2.2/24", "dev", "eth9")
	second.Run("ip", "addr", "add", "2001:db8::2/64", "dev", "eth9", "nodad")
	stops := map[byte]func(){1: l.serve(t), 2: l.serveIn(t, second, "eth9", "130", "150")}
	first := l.client(t, 0, lb.IPv4, "shop/web", netip.Addr{}, "")
	lease := first.next(t)
	for range 3 { // from node to node
		first.end()
		first = l.client(t, 1, lb.IPv4, "shop/web", lease.Addr, lease.Server)
		if kept := first.next(t); kept.Addr != lease.Addr {
			t.Fatalf("had %s, and %s on another node", lease.Addr, kept.Addr)
		}
		if confirmed := first.next(t); confirmed.Addr != lease.Addr || confirmed.Server != lease.Server {
			t.Fatalf("had %+v, and %+v on another node", lease, confirmed)
		}
	}
	stops[netip.MustParseAddr(lease.Server).As4()[3]]()
	for {
		if next := first.next(t); next.Addr != lease.Addr {
			break // of the other
		}
	}
}
