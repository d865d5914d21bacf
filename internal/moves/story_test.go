package moves

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/internal/conntrack"
)

// node is one in a cluster without a network: letters arrive when the test says so.
type node struct {
	name   string
	keeper *Keeper
	lister *Lister
	has    map[conntrack.Conn]bool // its connection tracking
	unread []conntrack.Change
}

type letter struct {
	from, to string
	body     []byte
}

type cluster struct {
	t      *testing.T
	now    time.Time
	nodes  map[string]*node
	order  []string
	mail   []letter
	owner  string
	epoch  uint64
	stream uint64
	limit  time.Duration
	lossy  *rand.Rand      // letters get lost
	deaf   map[string]bool // letters to these do
}

func newCluster(t *testing.T, names ...string) *cluster {
	c := &cluster{t: t, now: time.Unix(1000, 0), nodes: map[string]*node{}, order: names, limit: 15 * time.Minute}
	for _, name := range names {
		c.start(name)
	}
	return c
}

// start starts the agent of a node, again if it ran: the kernel goes on.
func (c *cluster) start(name string) {
	n := &node{name: name, keeper: NewKeeper(), lister: NewLister(), has: map[conntrack.Conn]bool{}}
	c.stream++
	n.lister.Series = c.stream << 32
	if was := c.nodes[name]; was != nil {
		n.has = was.has
	}
	c.nodes[name] = n
	others := map[string]bool{}
	for _, other := range c.order {
		others[other] = other != name
	}
	delete(others, name)
	n.keeper.Members(others)
	if c.owner == name {
		n.keeper.Take(vip4, Claim{Epoch: c.epoch, Limit: c.limit, Taken: c.now})
		n.lister.Hold(vip4)
	}
}

// step has every agent do what there is to do, and returns whether anybody did.
func (c *cluster) step() bool {
	before := len(c.mail)
	for _, name := range c.order {
		n := c.nodes[name]
		n.keeper.Expire(c.now)
		n.lister.Pin(n.keeper.Pending())
		n.lister.Change(n.unread)
		n.unread = nil
		if c.lossy != nil && c.lossy.IntN(4) == 0 {
			n.lister.Lose()
		}
		if n.lister.Unread(c.now) {
			n.lister.Begin()
			n.lister.Read(n.lister.Following(), open(slices.Collect(maps.Keys(n.has))), c.now)
		}
		for to, w := range n.keeper.Wants(c.now, func() uint64 { c.stream++; return c.stream }) {
			c.mail = append(c.mail, letter{name, to, w.Encode()})
		}
		for _, to := range n.lister.Askers() {
			for _, p := range n.lister.Pages(to, []Neighbour{{Addr: address(name)}}, c.now) {
				c.mail = append(c.mail, letter{name, to, p.Encode()})
			}
		}
	}
	mail := c.mail
	c.mail = nil
	for _, l := range mail {
		if c.lossy != nil && c.lossy.IntN(4) == 0 || c.deaf[l.to] {
			continue
		}
		m, err := Decode(l.body)
		if err != nil {
			c.t.Fatal(err)
		}
		switch m := m.(type) {
		case Want:
			c.nodes[l.to].lister.Want(l.from, m)
		case Page:
			c.nodes[l.to].keeper.Page(l.from, m, c.now)
		}
	}
	return before > 0 || len(mail) > 0
}

func address(name string) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 0, 2, 100 + name[0] - 'a'})
}

// settle lets letters arrive until there are none.
func (c *cluster) settle() {
	for range 100 {
		if !c.step() {
			return
		}
	}
	c.t.Fatal("letters without end")
}

// pass lets time pass, with a step in each second.
func (c *cluster) pass(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(time.Second)
		c.settleSome()
	}
}

func (c *cluster) settleSome() {
	for range 5 {
		c.step()
	}
}

// move gives the address to a node: it asks before the former one gives it up.
func (c *cluster) move(to string, hasty bool) {
	c.epoch++
	former := c.owner
	c.nodes[to].keeper.Take(vip4, Claim{Epoch: c.epoch, From: former, Limit: c.limit, Taken: c.now})
	if !hasty {
		c.settleSome()
	}
	c.owner = to
	c.nodes[to].lister.Hold(vip4)
	c.now = c.now.Add(10 * time.Millisecond)
	if former != "" && former != to {
		c.nodes[former].keeper.Drop(vip4)
		c.nodes[former].lister.Release(vip4, c.now)
	}
	c.now = c.now.Add(10 * time.Millisecond)
}

// open opens connections at a node.
func (c *cluster) open(at string, all ...conntrack.Conn) {
	for _, one := range all {
		c.nodes[at].has[one] = true
		c.nodes[at].unread = append(c.nodes[at].unread, conntrack.Change{Conn: one})
	}
}

func (c *cluster) shut(at string, all ...conntrack.Conn) {
	for _, one := range all {
		delete(c.nodes[at].has, one)
		c.nodes[at].unread = append(c.nodes[at].unread, conntrack.Change{Conn: one, Gone: true})
	}
}

// flows is how many connections the owner hands to which node.
func (c *cluster) flows() string {
	o := c.nodes[c.owner]
	counts := map[string]int{}
	for _, to := range o.keeper.Flows(vip4, o.lister.Has) {
		counts[to]++
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%s:%d", name, counts[name]))
	}
	return strings.Join(out, " ")
}

func (c *cluster) expect(what, want string) {
	c.t.Helper()
	if got := c.flows(); got != want {
		c.t.Errorf("%s: %s hands on %q, not %q", what, c.owner, got, want)
	}
}

// Connections stay with the nodes that have them, however often the address moves.
func TestMoves(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.move("a", false)
	c.open("a", conns(vip4, 0, 10)...)
	c.settle()
	c.expect("nothing has moved", "")
	c.move("b", false)
	c.expect("before the former owner has given it up", "a:10")
	if listed, final := c.nodes["b"].keeper.Heard(vip4, c.now); !listed || final {
		t.Errorf("before the switch: listed %t, final %t", listed, final)
	}
	c.open("a", conn(vip4, 50)) // of a client that has not heard of the move
	c.settle()
	c.expect("after it", "a:11")
	if listed, final := c.nodes["b"].keeper.Heard(vip4, c.now); !listed || !final {
		t.Errorf("after the switch: listed %t, final %t", listed, final)
	}
	c.open("b", conns(vip4, 100, 5)...)
	c.shut("a", conns(vip4, 0, 2)...)
	c.settle()
	c.expect("two have ended", "a:9")
	c.move("c", false)
	c.settle()
	c.expect("moved twice", "a:9 b:5")
	c.move("a", false)
	c.settle()
	c.expect("returned", "b:5")
	for _, to := range []string{"b", "c", "a", "b"} { // faster than any letter
		c.move(to, true)
	}
	c.settle()
	c.expect("a ring", "a:9")
	c.shut("a", conns(vip4, 2, 8)...)
	c.shut("a", conn(vip4, 50))
	c.settle()
	c.expect("all have ended", "")
	c.pass(time.Minute)
	if n := len(c.nodes["a"].lister.Following()); n > 0 {
		t.Errorf("a still follows %d addresses", n)
	}
}

// A connection that the owner has itself is not handed on: the client has opened it again.
func TestOwnConnections(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.move("a", false)
	c.open("a", conns(vip4, 0, 3)...)
	c.move("b", false)
	c.settle()
	c.open("b", conn(vip4, 1))
	c.settle()
	c.expect("one is here", "a:2")
	c.move("c", false)
	c.settle()
	c.expect("the later owner has it", "a:2 b:1")
}

// Nobody waits for an agent that does not answer, unless its node may have connections.
func TestSilentAgents(t *testing.T) {
	c := newCluster(t, "a", "b", "c", "d")
	c.move("a", false)
	c.open("a", conns(vip4, 0, 3)...)
	c.settle()
	c.deaf = map[string]bool{"d": true}
	c.move("b", false)
	b := c.nodes["b"].keeper
	if listed, _ := b.Heard(vip4, c.now); listed {
		t.Error("d has not been waited for at all")
	}
	c.pass(2 * time.Second)
	if listed, final := b.Heard(vip4, c.now); !listed || !final {
		t.Errorf("d is still waited for: listed %t, final %t", listed, final)
	}
	if !b.Listed(vip4, "a") || b.Listed(vip4, "d") {
		t.Errorf("listed: a %t, d %t", b.Listed(vip4, "a"), b.Listed(vip4, "d"))
	}
	// The next move does not wait for it from the beginning, but for all others.
	c.move("c", true)
	if listed, _ := c.nodes["c"].keeper.Heard(vip4, c.now); listed {
		t.Error("c waits for nobody")
	}
	c.move("b", true)
	c.step()
	if listed, _ := b.Heard(vip4, c.now); listed {
		t.Error("b waits for nobody")
	}
	c.settleSome()
	if listed, _ := b.Heard(vip4, c.now); !listed {
		t.Error("b still waits for d")
	}
	c.expect("", "a:3")
	// One that had the address last, or has listed something, is waited for.
	c.deaf = map[string]bool{"a": true}
	b.Take(vip4, Claim{Epoch: c.epoch + 1, From: "c", Limit: c.limit, Taken: c.now})
	c.pass(10 * time.Second)
	if listed, _ := b.Heard(vip4, c.now); listed {
		t.Error("a, which has connections, is not waited for")
	}
	// It answers again.
	c.deaf = nil
	c.pass(10 * time.Second)
	if listed, _ := b.Heard(vip4, c.now); !listed {
		t.Error("all have listed")
	}
	b.Take(vip4, Claim{Epoch: c.epoch + 2, From: "c", Limit: c.limit, Taken: c.now})
	if listed, _ := b.Heard(vip4, c.now); listed {
		t.Error("d, which answers again, is not waited for")
	}
}

// A list is for the claim that it was asked for: an old one does not count.
func TestOldLists(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.move("a", false)
	c.open("a", conns(vip4, 0, 3)...)
	c.move("b", false)
	c.settle()
	k := c.nodes["b"].keeper
	k.Take(vip4, Claim{Epoch: c.epoch + 2, Limit: c.limit, Taken: c.now})
	if listed, final := k.Heard(vip4, c.now); listed || final {
		t.Errorf("an earlier list counts: listed %t, final %t", listed, final)
	}
	c.expect("until the next list, the last one is used", "a:3")
	k.Page("a", Page{Stream: 12345, Parts: []Part{{Address: vip4, Epoch: c.epoch + 2, Whole: true, Done: true, Final: true, Released: -1}}}, c.now)
	if listed, _ := k.Heard(vip4, c.now); listed {
		t.Error("a page of another stream counts")
	}
	c.settle()
	if listed, final := k.Heard(vip4, c.now); !listed || !final {
		t.Errorf("a new list does not count: listed %t, final %t", listed, final)
	}
}

// It ends by itself: by the limit, which counts from when each node gave the address up, and
// when the former node is silent.
func TestEnds(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.move("a", false)
	c.open("a", conns(vip4, 0, 3)...)
	c.move("b", false)
	c.open("b", conns(vip4, 10, 4)...)
	c.pass(10 * time.Minute)
	c.expect("ten minutes later", "a:3")
	c.move("c", false)
	c.pass(3 * time.Minute)
	c.expect("after 13", "a:3 b:4")
	c.pass(3 * time.Minute)
	c.expect("after 16", "b:4")
	c.nodes["c"].keeper.Silent("b")
	c.expect("b is silent", "")
	c.settle()
	c.expect("b is back", "b:4")
	c.limit = 0
	c.nodes["c"].keeper.Take(vip4, Claim{Epoch: c.epoch, Limit: 0, Taken: c.now})
	c.expect("it is switched off", "")
	c.pass(time.Minute)
	if n := c.nodes["b"].lister.Listed(); n > 0 {
		t.Errorf("b still lists %d connections", n)
	}
}

// Agents that are started again continue what an earlier one did.
func TestRestarts(t *testing.T) {
	c := newCluster(t, "a", "b", "c")
	c.move("a", false)
	c.open("a", conns(vip4, 0, 7)...)
	c.move("b", false)
	c.settle()
	c.start("a")
	c.open("a", conn(vip4, 60))
	c.pass(time.Minute)
	c.expect("the former owner's agent", "a:8")
	c.start("b")
	c.nodes["b"].keeper.Inherit(address("a"), conns(vip4, 0, 9), c.now)
	c.expect("what the kernel has", "node at 192.0.2.100:9")
	c.pass(10 * time.Second)
	c.expect("the owner's agent", "a:8")
	c.nodes["b"].keeper.Members(map[string]bool{"c": true})
	c.pass(time.Minute)
	c.expect("the former owner's agent is gone", "a:8")
}

// Whatever gets lost, in the end the owner knows all.
func TestLostLetters(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := newCluster(t, "a", "b", "c")
		c.lossy = random
		c.move("a", false)
		next := 0
		for range 30 {
			switch random.IntN(4) {
			case 0:
				c.move(c.order[random.IntN(3)], random.IntN(2) == 0)
			case 1:
				c.start(c.order[random.IntN(3)])
			default:
				c.open(c.owner, conns(vip4, next, 20)...)
				next += 20
			}
			c.settleSome()
			c.now = c.now.Add(100 * time.Millisecond)
		}
		c.pass(time.Minute)
		c.lossy = nil
		c.pass(30 * time.Second)
		var want []string
		for _, name := range c.order {
			if n := len(c.nodes[name].has); name != c.owner && n > 0 {
				want = append(want, fmt.Sprintf("%s:%d", name, n))
			}
		}
		c.expect(fmt.Sprint("seed ", seed), strings.Join(want, " "))
		if listed, final := c.nodes[c.owner].keeper.Heard(vip4, c.now); !listed || !final {
			t.Errorf("seed %d: listed %t, final %t", seed, listed, final)
		}
	}
}

// Lists of many connections come in pages, and are bounded.
func TestLongLists(t *testing.T) {
	c := newCluster(t, "a", "b")
	c.move("a", false)
	client := netip.MustParseAddr("10.0.0.0").As4()
	for i := range MaxListed + 100 {
		client[1], client[2], client[3] = byte(i>>16), byte(i>>8), byte(i)
		c.nodes["a"].has[conntrack.Conn{Protocol: 6, Client: netip.AddrPortFrom(netip.AddrFrom4(client), 1000), Service: netip.AddrPortFrom(vip4, 80)}] = true
	}
	c.move("b", false)
	c.settle()
	c.expect("a long list", fmt.Sprintf("a:%d", MaxListed))
}

// A reading finds what is known in any case, and nothing of clients on this node.
func TestRank(t *testing.T) {
	l := NewLister()
	l.Local = func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") }
	l.Want("b", Want{Stream: 1, Addresses: map[netip.Addr]uint64{vip4: 1}})
	l.Begin()
	l.Read(l.Following(), open(conns(vip4, 0, 3)), time.Unix(1000, 0))
	pod := conn(vip4, 1)
	pod.Client = netip.MustParseAddrPort("10.0.0.1:1025")
	rank := l.Rank()
	l.Change([]conntrack.Change{{Conn: conn(vip4, 3)}}) // which must not matter to it
	for c, want := range map[conntrack.Conn]conntrack.Rank{conn(vip4, 2): conntrack.Known, conn(vip4, 3): conntrack.Other, pod: conntrack.Unwanted} {
		if got := rank(c); got != want {
			t.Errorf("%v has rank %d, want %d", c, got, want)
		}
	}
}

// What is remembered of addresses that come and go is bounded.
func TestListerForgets(t *testing.T) {
	l := NewLister()
	now := time.Unix(1000, 0)
	for i := range uint64(3 * maxClean) {
		now = now.Add(10 * time.Second)
		addr := netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 13: byte(i >> 16), 14: byte(i >> 8), 15: byte(i)})
		l.Hold(addr)
		l.Release(addr, now)
		l.Want("b", Want{Stream: 1, Addresses: map[netip.Addr]uint64{addr: i + 1}})
		l.Begin()
		l.Read(l.Following(), nil, now)
		if pages := l.Pages("b", nil, now.Add(linger)); len(pages) != 1 || !pages[0].Parts[0].Over {
			t.Fatalf("listed are %+v", pages)
		}
	}
	if most := int((releasedFor+time.Hour)/(10*time.Second)) + 1; len(l.released) > most {
		t.Errorf("it is remembered when %d addresses were given up, want at most %d", len(l.released), most)
	}
	if len(l.clean) > maxClean {
		t.Errorf("%d addresses are clean, want at most %d", len(l.clean), maxClean)
	}
	if len(l.tables) > 0 {
		t.Errorf("%d addresses are followed", len(l.tables))
	}
}

// Nothing is listed before the connections were read.
func TestUnread(t *testing.T) {
	l := NewLister()
	l.Want("b", Want{Stream: 1, Addresses: map[netip.Addr]uint64{vip4: 1}})
	l.Lose()
	now := time.Unix(1000, 0)
	if pages := l.Pages("b", nil, now); len(pages) > 0 {
		t.Errorf("before the first reading: %+v", pages)
	}
	if !l.Unread(now) {
		t.Error("no reading is due")
	}
	l.Begin()
	l.Read(l.Following(), open(conns(vip4, 0, 3)), now)
	if pages := l.Pages("b", nil, now); len(pages) != 1 || len(pages[0].Parts) != 1 || len(pages[0].Parts[0].Add) != 3 {
		t.Errorf("after it: %+v", pages)
	}
	if l.Unread(now) {
		t.Error("another reading is due")
	}
}
