package carrying

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/moves"
	"fairlead.io/internal/nft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	vip     = netip.MustParseAddr("192.0.2.7")
	vip6    = netip.MustParseAddr("2001:db8::7")
	visitor = net.HardwareAddr{2, 0, 0, 0, 9, 9}
)

// fakeNode is a node with a kernel of its own.
type fakeNode struct {
	*Carrying
	name    string
	lan     *fakeLAN
	carrier *nft.FakeCarrier
	end     context.CancelFunc

	mu      sync.Mutex
	conns   map[conntrack.Conn]bool
	watcher func([]conntrack.Change)
	letters []member.Letter
	mail    chan struct{}
	deaf    bool // letters to it get lost
	reads   int  // of its connections
	unread  error
}

// fakeLAN is what connects nodes.
type fakeLAN struct {
	mu    sync.Mutex
	nodes map[string]*fakeNode
	dead  map[string]bool
}

func mac(name string) net.HardwareAddr { return net.HardwareAddr{2, 0, 0, 0, 0, name[0]} }
func addrOf(name string) netip.Addr    { return netip.AddrFrom4([4]byte{192, 0, 2, 100 + name[0] - 'a'}) }
func addr6Of(name string) netip.Addr   { return netip.MustParseAddr("fe80::" + name) }

func conn(to netip.Addr, i int) conntrack.Conn {
	client := netip.MustParseAddr("198.51.100.1")
	if to.Is6() {
		client = netip.MustParseAddr("2001:db8:1::1")
	}
	return conntrack.Conn{Protocol: 6, Client: netip.AddrPortFrom(client, uint16(1024+i)), Service: netip.AddrPortFrom(to, 80)}
}

// start starts an agent on a node, or the next one.
func (l *fakeLAN) start(t *testing.T, name string) *fakeNode {
	n := &fakeNode{name: name, lan: l, carrier: &nft.FakeCarrier{}, conns: map[conntrack.Conn]bool{}, mail: make(chan struct{}, 1)}
	l.mu.Lock()
	if was := l.nodes[name]; was != nil {
		n.carrier, n.conns = was.carrier.Reopen(), was.conns
	}
	l.nodes[name] = n
	l.mu.Unlock()
	n.Carrying = New(Options{Log: slog.New(slog.DiscardHandler), Carrier: n.carrier, Connections: n, LAN: n})
	eth0 := link.Link{Name: "eth0", Index: 2, Up: true, MAC: mac(name), Prefixes: []netip.Prefix{netip.PrefixFrom(addrOf(name), 24), netip.PrefixFrom(addr6Of(name), 64)}}
	n.Follow([]link.Link{eth0}, func(netip.Addr) bool { return false })
	ctx, end := context.WithCancel(context.Background())
	n.end = sync.OnceFunc(func() {
		end()
		<-n.Ended()
		n.Wait()
		n.Carrying.Close()
	})
	t.Cleanup(n.end)
	go n.Run(ctx, n)
	return n
}

// members tells all nodes who is there.
func (l *fakeLAN) members() {
	for name, n := range l.nodes {
		macs, members := map[string][]net.HardwareAddr{}, map[string]bool{}
		for other := range l.nodes {
			macs[other] = []net.HardwareAddr{mac(other)}
			if other != name && !l.dead[other] {
				members[other] = true
			}
		}
		n.Members(macs, members)
	}
}

func newLAN(t *testing.T, names ...string) *fakeLAN {
	l := &fakeLAN{nodes: map[string]*fakeNode{}, dead: map[string]bool{}}
	for _, name := range names {
		l.start(t, name)
	}
	l.members()
	return l
}

func (l *fakeLAN) isDead(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead[name]
}

func (l *fakeLAN) setDead(name string, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead[name] = dead
}

// Ask is of LAN.
func (n *fakeNode) Ask(ctx context.Context, _ string, addr, _ netip.Addr, at net.HardwareAddr) net.HardwareAddr {
	for _, name := range []string{"a", "b", "c"} {
		if (addr == addrOf(name) || addr == addr6Of(name)) && (at == nil || at.String() == mac(name).String()) && !n.lan.isDead(name) {
			return mac(name)
		}
	}
	select {
	case <-time.After(askTime):
	case <-ctx.Done():
	}
	return nil
}

// Close is of LAN.
func (n *fakeNode) Close() {}

// List and Watch are of Connections.
func (n *fakeNode) List(of func(netip.Addr) bool, _ func(conntrack.Conn) conntrack.Rank) (out []conntrack.Tracked, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reads++; n.unread != nil {
		return nil, n.unread
	}
	for c := range n.conns {
		if of(c.Service.Addr()) {
			out = append(out, conntrack.Tracked{Conn: c})
		}
	}
	return out, nil
}

func (n *fakeNode) Watch(ctx context.Context, of func(netip.Addr) bool, changes func([]conntrack.Change)) error {
	n.mu.Lock()
	n.watcher = func(all []conntrack.Change) {
		if of(all[0].Conn.Service.Addr()) {
			changes(all)
		}
	}
	n.mu.Unlock()
	changes([]conntrack.Change{{Lost: true}})
	<-ctx.Done()
	return nil
}

// open opens connections, or ends them.
func (n *fakeNode) change(gone bool, to netip.Addr, from, count int) {
	for i := range count {
		c := conn(to, from+i)
		n.mu.Lock()
		if n.conns[c] = true; gone {
			delete(n.conns, c)
		}
		watcher := n.watcher
		n.mu.Unlock()
		if watcher != nil {
			go watcher([]conntrack.Change{{Conn: c, Gone: gone}})
		}
	}
}

// Post, Mail and Letters are of Mail.
func (n *fakeNode) Post(to string, body []byte) error {
	n.lan.mu.Lock()
	other := n.lan.nodes[to]
	n.lan.mu.Unlock()
	if n.lan.isDead(to) || n.lan.isDead(n.name) {
		return errors.New("it does not answer")
	}
	other.mu.Lock()
	defer other.mu.Unlock()
	if other.deaf {
		return nil
	}
	other.letters = append(other.letters, member.Letter{From: n.name, Body: body})
	signal(other.mail)
	return nil
}

func (n *fakeNode) Mail() <-chan struct{} { return n.mail }

func (n *fakeNode) Letters() []member.Letter {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.letters
	n.letters = nil
	return out
}

func claim(epoch uint64, from string, up bool) Claim {
	return Claim{Up: up, Claim: moves.Claim{Epoch: epoch, Interfaces: []string{"eth0"}, From: from, Limit: 15 * time.Minute}}
}

// move moves an address as agents do.
func (l *fakeLAN) move(t *testing.T, addr netip.Addr, epoch uint64, from, to string) {
	t.Helper()
	n := l.nodes[to]
	n.Take(addr, claim(epoch, from, false))
	after(50 * time.Millisecond)
	if !n.Ready(addr, epoch) {
		t.Errorf("%s is not ready for %s", to, addr)
	}
	if from != "" && !n.carrier.Settling(addr) {
		t.Errorf("%s does not wait for lists", to)
	}
	n.Take(addr, claim(epoch, from, true))
	if from != "" {
		l.nodes[from].Drop(addr)
	}
	after(100 * time.Millisecond)
	if n.carrier.Settling(addr) {
		t.Errorf("%s still waits for lists", to)
	}
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// sends says to which nodes a node sends packets of connections.
func (n *fakeNode) sends(to netip.Addr, from, count int) string {
	got := map[string]int{}
	for i := range count {
		via, _ := n.carrier.Receive("eth0", visitor, conn(to, from+i))
		for _, name := range []string{"a", "b", "c"} {
			if via == addrOf(name) || via == addr6Of(name) {
				got[name]++
			}
		}
	}
	return strings.TrimPrefix(fmt.Sprint(got), "map")
}

func (n *fakeNode) expect(t *testing.T, what string, to netip.Addr, from, count int, want string) {
	t.Helper()
	if got := n.sends(to, from, count); got != want {
		t.Errorf("%s: %s sends %s, not %s", what, n.name, got, want)
	}
}

// kept is what is known about the last claim.
func (n *fakeNode) kept(addr netip.Addr) Kept {
	n.Carrying.mu.Lock()
	defer n.Carrying.mu.Unlock()
	return n.state[addr].kept
}

func TestCarrying(t *testing.T) {
	for name, addr := range map[string]netip.Addr{"IPv4": vip, "IPv6": vip6} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLAN(t, "a", "b", "c")
				a, b, c := l.nodes["a"], l.nodes["b"], l.nodes["c"]
				a.Take(addr, claim(1, "", true))
				a.change(false, addr, 0, 10)
				after(time.Second)
				l.move(t, addr, 2, "a", "b")
				b.expect(t, "moved", addr, 0, 10, "[a:10]")
				if _, isCarried := b.carrier.Receive("eth0", mac("a"), conn(addr, 0)); isCarried {
					t.Error("a packet of a node is sent on")
				}
				if got := b.kept(addr); got.Connections != 10 || got.Unlisted || got.Unreachable {
					t.Errorf("kept: %+v", got)
				}
				if n := a.Listed(); n != 10 {
					t.Errorf("a lists %d", n)
				}
				a.change(false, addr, 10, 1)
				a.change(true, addr, 0, 1)
				b.change(false, addr, 100, 4)
				after(time.Second)
				b.expect(t, "one came, one went", addr, 0, 11, "[a:10]")
				l.move(t, addr, 3, "b", "c")
				b.expect(t, "a late packet", addr, 0, 11, "[a:10]")
				c.expect(t, "moved twice", addr, 0, 11, "[a:10]")
				c.expect(t, "moved twice", addr, 100, 4, "[b:4]")
				after(5 * time.Minute) // elements are renewed
				c.expect(t, "five minutes later", addr, 0, 11, "[a:10]")
				b.expect(t, "five minutes later", addr, 0, 11, "[]")
				if carried, total := c.Carried(); total != 14 || len(carried) != 2 || carried[0].Node != "a" || carried[0].Connections != 10 {
					t.Errorf("carried: %+v", carried)
				}

				// The agent of the owner is followed by another.
				c.end()
				c = l.start(t, "c")
				c.Take(addr, claim(3, "", true))
				c.expect(t, "before the next agent knows anything", addr, 0, 11, "[a:10]")
				l.members()
				for range 50 {
					after(10 * time.Millisecond)
					c.expect(t, "the next agent", addr, 0, 11, "[a:10]")
				}
				// That of a former owner is away. The next one of the owner finds the node's name.
				c.end()
				c = l.start(t, "c")
				c.Take(addr, claim(3, "", true))
				c.Members(map[string][]net.HardwareAddr{"a": {mac("a")}, "b": {mac("b")}, "c": {mac("c")}}, map[string]bool{})
				after(time.Second)
				if carried, total := c.Carried(); total != 14 || len(carried) != 2 || carried[0].Node != "a" || carried[1].Node != "b" {
					t.Errorf("carried by the next agent: %+v", carried)
				}
				c.end()
				c = l.start(t, "c") // which does not know hardware addresses, either
				c.Take(addr, claim(3, "", true))
				c.Members(map[string][]net.HardwareAddr{"c": {mac("c")}}, map[string]bool{})
				c.Addresses(map[netip.Addr]string{addrOf("a"): "a", addr6Of("a"): "a", addrOf("b"): "b", addr6Of("b"): "b"})
				after(time.Second)
				if carried, total := c.Carried(); total != 14 || len(carried) != 2 || carried[0].Node != "a" || carried[1].Node != "b" {
					t.Errorf("carried by another agent: %+v", carried)
				}
				l.members()
				after(time.Second)
				a.end()
				c.Members(map[string][]net.HardwareAddr{"a": {mac("a")}, "b": {mac("b")}, "c": {mac("c")}}, map[string]bool{"b": true})
				after(time.Minute)
				c.expect(t, "without the agent of a", addr, 0, 11, "[a:10]")
				l.start(t, "a")
				l.members()
				for range 50 {
					after(10 * time.Millisecond)
					c.expect(t, "with the next agent of a", addr, 0, 11, "[a:10]")
				}
				// The node is dead.
				l.setDead("a", true)
				after(time.Second)
				c.expect(t, "a is dead", addr, 0, 11, "[]")
				c.expect(t, "a is dead", addr, 100, 4, "[b:4]")
				b.change(true, addr, 100, 4)
				after(20 * time.Second)
				c.expect(t, "all have ended", addr, 100, 4, "[]")
				l.members()
				after(2 * time.Minute)
				if !c.carrier.Removed() {
					t.Error("empty tables are left")
				}
			})
		})
	}
}

// A node that does not list, or does not answer on the segment, is told apart.
func TestNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 3)
		a.mu.Lock()
		a.deaf = true
		a.mu.Unlock()
		after(time.Second)
		b.Take(vip, claim(2, "a", false))
		after(time.Second)
		if got := b.kept(vip); b.Ready(vip, 2) || !got.Unlisted {
			t.Errorf("a does not hear: %+v", got)
		}
		a.mu.Lock()
		a.deaf = false
		a.mu.Unlock()
		after(10 * time.Second)
		if got := b.kept(vip); !b.Ready(vip, 2) || got.Connections != 3 {
			t.Errorf("a hears: %+v", got)
		}
		if _, ok := b.Kept(vip, 3); ok {
			t.Error("it is said to be known what a later claim keeps")
		}
		b.Drop(vip)
		far := link.Link{Name: "eth0", Index: 2, Up: true, MAC: mac("b"), Prefixes: []netip.Prefix{netip.MustParsePrefix("203.0.113.2/24")}}
		b.Follow([]link.Link{far}, func(netip.Addr) bool { return false })
		after(2 * remembered)
		b.Take(vip, claim(3, "a", false))
		after(10 * time.Second)
		if got := b.kept(vip); !b.Ready(vip, 3) || got.Connections != 0 || !got.Unreachable {
			t.Errorf("a is on another segment: %+v", got)
		}
	})
}
