package conntrack_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/conntrack"
	"fairlead.io/test/kit/leak"
	"fairlead.io/test/kit/netns"
)

func TestMain(m *testing.M) { leak.Main(m) }

// long is how long anything may take on a busy machine.
const long = 20 * time.Second

// Addresses of the node: a Service's, and another one, of both families.
var (
	service = []netip.Addr{netip.MustParseAddr("192.0.2.100"), netip.MustParseAddr("2001:db8::100")}
	other   = []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")}
)

func isService(a netip.Addr) bool { return slices.Contains(service, a) }

const (
	echo    = 80 // answers
	zoned   = 81 // answers, in another zone
	halting = 82 // answers, which the client does not hear
	silent  = 83 // takes and does not answer
)

// lab is a client and a node that tracks connections.
type lab struct {
	*testing.T
	client, node *netns.NS
	close        chan struct{} // the node closes its ends when this is closed
}

func newLab(t *testing.T) *lab {
	l := &lab{T: t, client: netns.New(t, "client"), node: netns.New(t, "node"), close: make(chan struct{})}
	netns.Cable(
		netns.Plug{NS: l.client, Interface: "c0", Addresses: []string{"192.0.2.1/24", "2001:db8::1/64"}},
		netns.Plug{NS: l.node, Interface: "eth0", Addresses: []string{"192.0.2.10/24", "2001:db8::10/64", "192.0.2.100/32", "2001:db8::100/128"}})
	l.node.Run("nft", fmt.Sprintf(`table inet track {
		chain raw { type filter hook prerouting priority -300; th dport %[1]d ct zone set 7; }
		chain rawout { type filter hook output priority -300; th sport %[1]d ct zone set 7; }
		chain input { type filter hook input priority 0; ct state new counter; }
	}`, zoned))
	l.client.Run("nft", fmt.Sprintf("table inet deaf { chain input { type filter hook input priority 0; th sport %d drop; }; }", halting))
	for _, port := range []int{echo, zoned, halting, silent} {
		l.serve(port)
	}
	t.Cleanup(func() {
		select {
		case <-l.close:
		default:
			close(l.close)
		}
	})
	return l
}

// serve echoes what it is told, until the client has nothing more to say and closes.
func (l *lab) serve(port int) {
	var running sync.WaitGroup
	l.node.Do(func() {
		tcp, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			l.Fatal(err)
		}
		running.Go(func() {
			for {
				c, err := tcp.Accept()
				if err != nil {
					return
				}
				running.Go(func() {
					defer c.Close()
					stop := context.AfterFunc(l.Context(), func() { _ = c.Close() })
					defer stop()
					_, _ = io.Copy(c, c)
					<-l.close
				})
			}
		})
		l.Cleanup(func() {
			_ = tcp.Close()
			running.Wait()
		})
		// Answers come from the address that was asked.
		for _, a := range slices.Concat(service, other) {
			udp, err := net.ListenPacket("udp", netip.AddrPortFrom(a, uint16(port)).String())
			if err != nil {
				l.Fatal(err)
			}
			running.Go(func() {
				buf := make([]byte, 64)
				for {
					n, from, err := udp.ReadFrom(buf)
					if err != nil {
						return
					}
					if port != silent {
						_, _ = udp.WriteTo(buf[:n], from)
					}
				}
			})
			l.Cleanup(func() { _ = udp.Close() })
		}
	})
}

// dial opens a connection; the node has answered, unless it is not to.
func (l *lab) dial(network string, to netip.Addr, port uint16) (net.Conn, conntrack.Conn) {
	l.Helper()
	var c net.Conn
	var err error
	l.client.Do(func() { c, err = net.DialTimeout(network, netip.AddrPortFrom(to, port).String(), long) })
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write([]byte("x")); err != nil {
		l.Fatal(err)
	}
	if port == echo || port == zoned {
		_ = c.SetReadDeadline(time.Now().Add(long))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			l.Fatal(err)
		}
	}
	protocol := uint8(unix.IPPROTO_TCP)
	if network == "udp" {
		protocol = unix.IPPROTO_UDP
	}
	return c, conntrack.Conn{Protocol: protocol, Client: netip.MustParseAddrPort(c.LocalAddr().String()), Service: netip.AddrPortFrom(to, port)}
}

func (l *lab) list() []conntrack.Conn {
	l.Helper()
	got, err := conntrack.ListIn(l.node.FD(), isService, nil)
	if err != nil {
		l.Fatal(err)
	}
	return sorted(conns(got))
}

func conns(all []conntrack.Tracked) (out []conntrack.Conn) {
	for _, c := range all {
		out = append(out, c.Conn)
	}
	return out
}

func sorted(all []conntrack.Conn) []conntrack.Conn {
	return slices.SortedFunc(slices.Values(all), func(a, b conntrack.Conn) int {
		if c := a.Client.Compare(b.Client); c != 0 {
			return c
		}
		return int(a.Protocol) - int(b.Protocol)
	})
}

// Connections are listed from their first answer to their last acknowledgement.
func TestList(t *testing.T) {
	l := newLab(t)
	var want []conntrack.Conn
	var open []net.Conn
	for i := range service {
		for _, network := range []string{"tcp", "udp"} {
			for range 10 {
				c, conn := l.dial(network, service[i], echo)
				open, want = append(open, c), append(want, conn)
			}
			l.dial(network, other[i], echo)
			l.dial(network, service[i], zoned)
		}
		l.dial("udp", service[i], silent)
	}
	if got := l.list(); !slices.Equal(got, sorted(want)) {
		t.Fatalf("listed are %v\nwant %v", got, sorted(want))
	}
	// One end is closed: it still goes on. The UDP ones cannot be closed.
	for _, c := range open {
		if tcp, ok := c.(*net.TCPConn); ok {
			if err := tcp.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := l.list(); !slices.Equal(got, sorted(want)) {
		t.Errorf("listed are %v\nwant %v", got, sorted(want))
	}
	close(l.close)
	for _, c := range open {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.Close()
		}
	}
	want = slices.DeleteFunc(want, func(c conntrack.Conn) bool { return c.Protocol == unix.IPPROTO_TCP })
	netns.Eventually(t, long, "TCP connections are gone", func() bool { return slices.Equal(l.list(), sorted(want)) })
}

// A connection whose opening the client has not acknowledged is listed and told, too: the
// acknowledgement may arrive at another node.
func TestConnectionsThatAreBeingOpened(t *testing.T) {
	l := newLab(t)
	var mu sync.Mutex
	told := map[conntrack.Conn]bool{}
	l.watch(func(some []conntrack.Change) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range some {
			if c.Opening {
				told[c.Conn] = true
			}
		}
	})
	var want []conntrack.Conn
	for i, to := range service {
		from := netip.AddrPortFrom([]netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}[i], 40000)
		want = append(want, conntrack.Conn{Protocol: unix.IPPROTO_TCP, Client: from, Service: netip.AddrPortFrom(to, halting)})
		l.client.Do(func() { // the node's answers do not arrive
			d := net.Dialer{Timeout: 200 * time.Millisecond, LocalAddr: net.TCPAddrFromAddrPort(from)}
			if c, err := d.Dial("tcp", netip.AddrPortFrom(to, halting).String()); err == nil {
				t.Errorf("%v is open", c.RemoteAddr())
			}
			if c, err := d.Dial("tcp", netip.AddrPortFrom(to, 84).String()); err == nil {
				t.Errorf("%v is open", c.RemoteAddr()) // refused: nobody listens there
			}
		})
	}
	got, err := conntrack.ListIn(l.node.FD(), isService, nil)
	if err != nil || !slices.Equal(sorted(conns(got)), sorted(want)) {
		t.Fatalf("listed are %v (%v)\nwant %v", got, err, sorted(want))
	}
	if slices.ContainsFunc(got, func(c conntrack.Tracked) bool { return !c.Opening }) {
		t.Errorf("some are open: %v", got)
	}
	netns.Eventually(t, long, "all are told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Equal(sorted(slices.Collect(maps.Keys(told))), sorted(want))
	})
}

func TestListIsLimited(t *testing.T) {
	l := newLab(t)
	for range 10 {
		l.dial("udp", service[0], echo)
	}
	t.Cleanup(conntrack.SetLimit(10))
	if got := l.list(); len(got) != 10 {
		t.Errorf("%d are listed", len(got))
	}
	l.dial("udp", service[0], echo)
	got, err := conntrack.ListIn(l.node.FD(), isService, nil)
	if !errors.Is(err, conntrack.ErrTooMany) || len(got) != 10 {
		t.Errorf("%d are listed, %v", len(got), err)
	}
	// Those that are known are listed besides.
	known := conns(got[:5])
	got, err = conntrack.ListIn(l.node.FD(), isService, func(c conntrack.Conn) conntrack.Rank {
		if slices.Contains(known, c) {
			return conntrack.Known
		}
		return conntrack.Other
	})
	if err != nil || len(got) != 11 {
		t.Errorf("%d are listed, %v", len(got), err)
	}
}

// watch follows until the test ends.
func (l *lab) watch(changes func([]conntrack.Change)) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	listening := make(chan struct{})
	var once sync.Once
	go func() {
		done <- conntrack.WatchIn(ctx, l.node.FD(), isService, func(some []conntrack.Change) {
			once.Do(func() {
				if len(some) != 1 || !some[0].Lost {
					l.Errorf("the first change is %v", some)
				}
				close(listening)
			})
			changes(some)
		})
	}()
	l.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			l.Error(err)
		}
	})
	select {
	case <-listening:
	case err := <-done:
		done <- err
		l.Fatal(err)
	}
}

// What is told adds up to what is listed.
func TestWatch(t *testing.T) {
	l := newLab(t)
	var mu sync.Mutex
	have := map[conntrack.Conn]bool{}
	l.watch(func(some []conntrack.Change) {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range some {
			switch {
			case c.Lost:
			case c.Gone:
				delete(have, c.Conn)
			default:
				have[c.Conn] = true
			}
		}
	})
	told := func() []conntrack.Conn {
		mu.Lock()
		defer mu.Unlock()
		var all []conntrack.Conn
		for c := range have {
			all = append(all, c)
		}
		return sorted(all)
	}
	var want []conntrack.Conn
	var tcp []net.Conn
	for i := range service {
		for range 10 {
			c, conn := l.dial("tcp", service[i], echo)
			tcp, want = append(tcp, c), append(want, conn)
			_, conn = l.dial("udp", service[i], echo)
			want = append(want, conn)
		}
		l.dial("udp", service[i], silent)
		l.dial("tcp", other[i], echo)
		l.dial("tcp", service[i], zoned)
	}
	netns.Eventually(t, long, "all are told", func() bool { return slices.Equal(told(), sorted(want)) })
	close(l.close)
	for _, c := range tcp {
		_ = c.Close()
	}
	want = slices.DeleteFunc(want, func(c conntrack.Conn) bool { return c.Protocol == unix.IPPROTO_TCP })
	netns.Eventually(t, long, "their end is told", func() bool { return slices.Equal(told(), sorted(want)) })
	if got := l.list(); !slices.Equal(got, told()) {
		t.Errorf("listed are %v, told %v", got, told())
	}
}

// A reader that is too slow learns that it has missed something.
func TestWatchTellsOfLostChanges(t *testing.T) {
	t.Cleanup(conntrack.SetReceiveBuffer(4096))
	l := newLab(t)
	lost, busy := make(chan struct{}), make(chan struct{})
	calls := 0
	l.watch(func(some []conntrack.Change) {
		if calls++; calls == 1 {
			return
		}
		if calls == 2 {
			<-busy
		}
		if slices.ContainsFunc(some, func(c conntrack.Change) bool { return c.Lost }) {
			select {
			case <-lost:
			default:
				close(lost)
			}
		}
	})
	for range 200 {
		l.dial("udp", service[0], echo)
	}
	close(busy)
	select {
	case <-lost:
	case <-time.After(long):
		t.Error("nothing was told to be lost")
	}
}
