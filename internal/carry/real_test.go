package carry_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	vnetns "github.com/vishvananda/netns"
	"go.uber.org/goleak"

	"fairlead.io/internal/carry"
	"fairlead.io/internal/link"
	"fairlead.io/internal/wire"
	"fairlead.io/test/kit/netns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is how long anything may take on a busy machine.
const long = 30 * time.Second

// lines is a log that may be read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) has(words ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

// lab is a node whose default route leads out of eth0 to a client. Another interface
// of the node has a lower index.
type lab struct {
	t            *testing.T
	client, node *netns.NS
	addr         netip.Addr
	log          *lines
}

func newLab(t *testing.T, addr string) *lab {
	l := &lab{t: t, client: netns.New(t, "client"), node: netns.New(t, "node"), addr: netip.MustParseAddr(addr), log: &lines{}}
	l.node.Run("ip", "link", "add", "aaa", "type", "bridge")
	l.node.Run("ip", "link", "set", "aaa", "up")
	netns.Cable(
		netns.Plug{NS: l.client, Interface: "c0", Addresses: []string{"192.0.2.1/24", "2001:db8:1::1/64"}},
		netns.Plug{NS: l.node, Interface: "eth0", Addresses: []string{"192.0.2.10/24", "2001:db8:1::10/64"}})
	l.node.Run("ip", "route", "add", "default", "via", "192.0.2.1")
	l.node.Run("ip", "-6", "route", "add", "default", "via", "2001:db8:1::1")
	l.client.Run("ip", "route", "add", "203.0.113.0/24", "dev", "c0")
	l.client.Run("ip", "-6", "route", "add", "2001:db8:2::/64", "dev", "c0")
	return l
}

// start carries the address until the test or stop ends it.
func (l *lab) start() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	kernelCtx, closeKernel := context.WithCancel(context.Background())
	kernel, err := link.WatchIn(kernelCtx, vnetns.NsHandle(l.node.FD()))
	if err != nil {
		l.t.Fatal(err)
	}
	done := make(chan error, 1)
	go l.node.Do(func() {
		done <- carry.Run(ctx, carry.Options{Address: l.addr, Log: slog.New(slog.NewTextHandler(l.log, nil)), Kernel: kernel, Open: carry.Open})
	})
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
		closeKernel()
		<-kernel.Done()
	})
	l.t.Cleanup(stop)
	return stop
}

// port is the client's.
func (l *lab) port() *wire.Port {
	l.t.Helper()
	var p *wire.Port
	var err error
	l.client.Do(func() { p, err = wire.Open("c0") })
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = p.Close() })
	return p
}

func (l *lab) shown(iface string) string {
	return l.node.Run("ip", "-o", "addr", "show", "dev", iface, "to", l.addr.String())
}

func (l *lab) eventually(what string, cond func() bool) {
	l.t.Helper()
	netns.Eventually(l.t, long, what, cond)
}

// send sends a packet to the address.
func (l *lab) send() {
	l.t.Helper()
	l.client.Do(func() {
		c, err := net.Dial("udp", netip.AddrPortFrom(l.addr, 80).String())
		if err != nil {
			l.t.Error(err)
			return
		}
		defer c.Close()
		_, _ = c.Write([]byte("x"))
	})
}

func TestCarry(t *testing.T) {
	for _, addr := range []string{"203.0.113.7", "2001:db8:2::7"} {
		t.Run(addr, func(t *testing.T) {
			l := newLab(t, addr)
			client := l.port()
			client.Watch([]netip.Addr{l.addr})
			stop := l.start()
			select {
			case <-client.Heard():
			case <-time.After(long):
				t.Fatal("the address is not announced")
			}
			l.eventually("the address is on the primary interface, as ours", func() bool {
				return strings.Contains(l.shown("eth0"), "deprecated") && strings.Contains(l.shown("eth0"), netip.PrefixFrom(l.addr, l.addr.BitLen()).String())
			})
			if l.shown("aaa") != "" {
				t.Error("it is on another interface as well")
			}
			asker := l.client.Asker("c0", netip.MustParseAddr("192.0.2.1"))
			own := netip.MustParseAddr("192.0.2.10")
			if l.addr.Is6() {
				own = netip.MustParseAddr("2001:db8:1::10")
			}
			l.eventually("the node answers for it", func() bool { return asker.Answers(l.addr, own) })
			if l.log.has("first packets") {
				t.Error("packets before the first")
			}
			l.send()
			l.eventually("the log tells the first packet", func() bool { return l.log.has("first packets", "interface=eth0", "packets=1", "address="+addr) })

			l.node.Run("ip", "addr", "del", netip.PrefixFrom(l.addr, l.addr.BitLen()).String(), "dev", "eth0")
			l.eventually("it is put back", func() bool { return l.shown("eth0") != "" && l.log.has("removed the address", "added it again") })
			stop()
			if l.shown("eth0") != "" {
				t.Error("it is still there after the end")
			}
		})
	}
}

func TestYields(t *testing.T) {
	l := newLab(t, "203.0.113.7")
	l.start()
	l.eventually("it is there", func() bool { return l.shown("eth0") != "" })
	client := l.port()
	l.client.Run("ip", "addr", "add", "203.0.113.7/32", "dev", "c0")
	if err := client.Announce(l.addr); err != nil {
		t.Fatal(err)
	}
	l.eventually("the node yields", func() bool { return l.shown("eth0") == "" && l.log.has("yielding", "mac=") })
	l.client.Run("ip", "addr", "del", "203.0.113.7/32", "dev", "c0")
	l.eventually("the node takes it back", func() bool { return l.shown("eth0") != "" && l.log.has("taking it back") })
}

func TestOccupied(t *testing.T) {
	l := newLab(t, "203.0.113.7")
	l.node.Run("ip", "addr", "add", "203.0.113.7/32", "dev", "eth0")
	client := l.port()
	client.Watch([]netip.Addr{l.addr})
	stop := l.start()
	select {
	case <-client.Heard():
	case <-time.After(long):
		t.Fatal("the address is not announced")
	}
	l.eventually("the log says so", func() bool { return l.log.has("another program already added", "interface=eth0") })
	l.node.Run("ip", "addr", "del", "203.0.113.7/32", "dev", "eth0")
	l.eventually("ours replaces it", func() bool { return strings.Contains(l.shown("eth0"), "deprecated") })
	stop()
	if l.shown("eth0") != "" {
		t.Error("it is still there after the end")
	}
	l.node.Run("ip", "addr", "add", "203.0.113.7/32", "dev", "eth0")
	stop = l.start()
	l.eventually("carried", func() bool { return l.log.has("another program already added") })
	stop()
	if l.shown("eth0") == "" {
		t.Error("what another program added was removed")
	}
}
