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
func (n *fakeNode) List(of func(netip.Addr) bool, _ func(conntrack.Conn) conntrack.Rank) (out []conntrack.Conn, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reads++; n.unread != nil {
		return nil, n.unread
	}
	for c := range n.conns {
		if of(c.Service.Addr()) {
			out = append(out, c)
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
				// That of a former owner is away.
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

// A kernel that refuses is asked again, and tables that are gone are written again.
func TestKernelRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 3)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		b.carrier.Tamper()
		after(renewPeriod + 5*time.Second)
		b.expect(t, "after the tables were removed", vip, 0, 3, "[a:3]")
		// What has changed has the tables written again: with all elements.
		b.carrier.Tamper()
		l.members()
		synctest.Wait()
		b.expect(t, "after the tables were removed and nodes have changed", vip, 0, 3, "[a:3]")
		// And it is said.
		b.carrier.Tamper()
		b.Tampered()
		synctest.Wait()
		b.expect(t, "after it was said that the tables were removed", vip, 0, 3, "[a:3]")
		// The kernel refuses for a while, and is asked again.
		b.carrier.SetFail(func(string) error { return errors.New("not now") })
		a.change(false, vip, 3, 1)
		after(time.Second)
		b.expect(t, "while the kernel refuses", vip, 0, 4, "[a:3]")
		b.carrier.SetFail(nil)
		after(2 * retryPeriod)
		b.expect(t, "after it has refused", vip, 0, 4, "[a:4]")
	})
}

// Tables that are removed while an address moves: clients go on waiting for lists.
func TestTamperedWhileSettling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		l.nodes["a"].Take(vip, claim(1, "", true))
		after(time.Second)
		b := l.nodes["b"]
		b.Take(vip, claim(2, "a", false))
		after(50 * time.Millisecond)
		b.carrier.Tamper()
		b.Tampered()
		synctest.Wait()
		if !b.carrier.Settling(vip) {
			t.Error("b does not wait for lists any more")
		}
	})
}

// Of too many connections, as many go on as there is room for. It is not tried again all the time.
func TestTooManyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		b.carrier.SetMost(5)
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 8)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		b.expect(t, "too many", vip, 0, 8, "[a:5]")
		if got := b.kept(vip); got.Connections != 5 {
			t.Errorf("kept: %+v", got)
		}
		var mu sync.Mutex
		updates := 0
		b.carrier.SetFail(func(verb string) error {
			mu.Lock()
			defer mu.Unlock()
			if verb == "update" || verb == "prepare" {
				updates++
			}
			return nil
		})
		after(2 * time.Minute)
		if most := int(2*time.Minute/renewPeriod) + 2; updates > most {
			t.Errorf("%d changes in two minutes, want at most %d", updates, most)
		}
		b.expect(t, "two minutes later", vip, 0, 8, "[a:5]")
		a.change(true, vip, 0, 4)
		after(time.Second)
		b.expect(t, "some have ended", vip, 0, 8, "[a:4]")
	})
}

// An agent that starts does not know all nodes at once. What comes from one of them is not handed
// on a second time, though.
func TestNextAgentKnowsNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b", "c")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 3)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		b.end()
		b = l.start(t, "b")
		b.Take(vip, claim(2, "", true))
		// Others are met one after the other.
		b.Members(map[string][]net.HardwareAddr{"b": {mac("b")}}, map[string]bool{})
		after(time.Second)
		b.expect(t, "the next agent", vip, 0, 3, "[a:3]")
		for _, name := range []string{"a", "c"} {
			if _, again := b.carrier.Receive("eth0", mac(name), conn(vip, 0)); again {
				t.Errorf("a packet of node %s is handed on", name)
			}
		}
		// When nothing is left of the earlier agent, it counts what is known now.
		a.change(true, vip, 0, 3)
		l.members()
		after(time.Minute)
		b.Members(map[string][]net.HardwareAddr{"a": {mac("a")}, "b": {mac("b")}}, map[string]bool{"a": true})
		a.Take(vip6, claim(1, "", true))
		a.change(false, vip6, 0, 1)
		after(time.Second)
		l.move(t, vip6, 2, "a", "b")
		if _, nodes := b.carrier.Prepared(); len(nodes) != 2 {
			t.Errorf("nodes are %v", nodes)
		}
	})
}

// Tables that an earlier agent has left are removed when nothing comes into them.
func TestEmptyTablesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		after(time.Second)
		l.move(t, vip, 2, "a", "b") // without connections
		b.end()
		b = l.start(t, "b")
		b.Take(vip, claim(2, "", true))
		l.members()
		after(removeAfter / 2)
		if b.carrier.Removed() {
			t.Error("they are removed at once")
		}
		after(removeAfter)
		if !b.carrier.Removed() {
			t.Error("empty tables are left")
		}
	})
}

// A kernel that loses changes, or does not list connections, is not asked all the time.
func TestReadingIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLAN(t, "a", "b")
		a, b := l.nodes["a"], l.nodes["b"]
		a.Take(vip, claim(1, "", true))
		a.change(false, vip, 0, 3)
		after(time.Second)
		l.move(t, vip, 2, "a", "b")
		reads := func() int {
			a.mu.Lock()
			defer a.mu.Unlock()
			n := a.reads
			a.reads = 0
			return n
		}
		reads()
		for range 50 { // more than can be heard
			a.mu.Lock()
			watcher := a.watcher
			a.mu.Unlock()
			go watcher([]conntrack.Change{{Conn: conn(vip, 0)}, {Lost: true}})
			after(100 * time.Millisecond)
		}
		if n := reads(); n < 3 || n > 6 {
			t.Errorf("%d readings in five seconds", n)
		}
		a.mu.Lock()
		a.unread = errors.New("not now")
		a.mu.Unlock()
		after(moves.Reread + 5*time.Second)
		if n := reads(); n < 3 || n > 21 {
			t.Errorf("%d readings of a kernel that does not list", n)
		}
		b.expect(t, "what was known is kept", vip, 0, 3, "[a:3]")
	})
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
