package carrying

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/moves"
	"fairlead.io/internal/nft"
)

// Connections are those that the kernel tracks: package conntrack.
type Connections interface {
	List(of func(netip.Addr) bool, rank func(conntrack.Conn) conntrack.Rank) ([]conntrack.Tracked, error)
	Watch(ctx context.Context, of func(netip.Addr) bool, changes func([]conntrack.Change)) error
}

// LAN asks a host on an interface, directly, whether it is there: its MAC, or nil. Without at,
// all hosts are asked.
type LAN interface {
	Ask(ctx context.Context, iface string, addr, from netip.Addr, at net.HardwareAddr) net.HardwareAddr
	Close()
}

// Mail takes letters to other agents: member.Group.
type Mail interface {
	Post(to string, body []byte) error
	Mail() <-chan struct{}
	Letters() []member.Letter
}

// Options of a Carrying.
type Options struct {
	Log         *slog.Logger
	Carrier     nft.Carrier
	Connections Connections
	LAN         LAN
}

// Claim is an address that this node has, or is about to have.
type Claim struct {
	moves.Claim
	// Up: the node announces it.
	Up bool
}

// Carrying is what one node does about connections that stay behind when addresses move. All
// methods return at once, and may be called from any goroutine.
type Carrying struct {
	o       Options
	wake    chan struct{}
	changed chan struct{}
	ended   chan struct{} // Run has
	beside  sync.WaitGroup
	closing sync.Once
	of      atomic.Pointer[map[netip.Addr]bool] // addresses whose connections are followed
	events  chan func(now time.Time)            // what goroutines beside Run have found

	mu    sync.Mutex
	queue []func(now time.Time)
	state map[netip.Addr]state
	told  told

	// All else is of Run alone.
	keeper  *moves.Keeper
	lister  *moves.Lister
	links   []link.Link
	nodes   map[string][]net.HardwareAddr
	members map[string]bool
	// addresses are those of nodes.
	addresses map[netip.Addr]string
	up        map[netip.Addr]*raised
	watch     watch
	outbox    map[string]*outbox
	paths     map[pathKey]*path
	asked     int // how many of them are used
	kernel    kernel
	dirty     map[netip.Addr]bool // whose state may be another
}

// raised is an address that was taken.
type raised struct {
	epoch       uint64
	settles     bool // packets are dropped until all is known
	settleUntil time.Time
	up          bool
}

// state is what the loop may ask about an address.
type state struct {
	epoch uint64
	ready bool
	kept  Kept
}

// Kept is what became of the connections of an address that has moved here.
type Kept struct {
	// Connections are handed to the nodes that have them.
	Connections int
	// Unlisted: the former node has not listed its connections. Pending: it has, but is still
	// looked for, or the kernel does not have them yet. Unreachable: it does not answer on the
	// interface.
	Unlisted, Pending, Unreachable bool
}

// told is what is reported.
type told struct {
	carried []Carried
	total   int
	listed  int
}

// Carried is how many connections of an address are handed to a node.
type Carried struct {
	Address     netip.Addr
	Node        string
	Connections int
	Since       time.Time
}

// New returns one that does nothing until Run.
func New(o Options) *Carrying {
	c := &Carrying{o: o, wake: make(chan struct{}, 1), changed: make(chan struct{}, 1), ended: make(chan struct{}), events: make(chan func(time.Time)),
		state: map[netip.Addr]state{}, keeper: moves.NewKeeper(), lister: moves.NewLister(), nodes: map[string][]net.HardwareAddr{}, members: map[string]bool{},
		up: map[netip.Addr]*raised{}, outbox: map[string]*outbox{}, paths: map[pathKey]*path{}, dirty: map[netip.Addr]bool{}}
	c.kernel.reset()
	c.lister.Series = random()
	c.of.Store(&map[netip.Addr]bool{})
	return c
}

func (c *Carrying) do(f func(now time.Time)) {
	c.mu.Lock()
	c.queue = append(c.queue, f)
	c.mu.Unlock()
	signal(c.wake)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Take says that this node has an address, or is about to. Ready says when it may be announced.
func (c *Carrying) Take(addr netip.Addr, claim Claim) {
	c.do(func(now time.Time) {
		claim.Taken = now
		r := c.up[addr]
		if r == nil || r.epoch != claim.Epoch || claim.Up && !r.up {
			was := r
			r = &raised{epoch: claim.Epoch, up: claim.Up, settles: claim.From != "" && claim.Limit > 0}
			if was != nil && was.up { // it is here already
				r.settles = false
			}
			c.up[addr] = r
		}
		c.keeper.Take(addr, claim.Claim)
		if claim.Up {
			c.lister.Hold(addr)
		}
	})
}

// Drop says that this node does not have an address any more.
func (c *Carrying) Drop(addr netip.Addr) {
	c.do(func(now time.Time) {
		delete(c.up, addr)
		c.keeper.Drop(addr)
		c.lister.Release(addr, now)
	})
}

// Follow says which interfaces there are, and which clients are on this node.
func (c *Carrying) Follow(links []link.Link, local func(netip.Addr) bool) {
	c.do(func(time.Time) {
		c.links, c.lister.Local = links, local
		c.kernel.stale = true
	})
}

// Members says which nodes there are, with their hardware addresses, and whose agents are there.
func (c *Carrying) Members(nodes map[string][]net.HardwareAddr, members map[string]bool) {
	c.do(func(time.Time) {
		c.nodes, c.members = nodes, members
		c.keeper.Members(members)
		for _, node := range c.lister.Askers() {
			if !members[node] {
				c.lister.Forget(node)
			}
		}
		c.kernel.stale = true
	})
}

// Addresses says which addresses are those of nodes.
func (c *Carrying) Addresses(nodes map[netip.Addr]string) {
	c.do(func(time.Time) { c.addresses = nodes })
}

// Tampered says that another program has changed tables of nftables: ours may be gone. All is
// written again at once.
func (c *Carrying) Tampered() {
	c.do(func(now time.Time) {
		c.fail(now)
		c.kernel.retry = time.Time{}
		for _, r := range c.up {
			r.settleUntil = time.Time{} // again
		}
	})
}

// Ready says whether all is known and in place for an address that is about to be announced.
func (c *Carrying) Ready(addr netip.Addr, epoch uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.state[addr]
	return ok && s.ready && s.epoch == epoch
}

// Kept is what has become of the connections of an address since it was taken, if anything is
// known.
func (c *Carrying) Kept(addr netip.Addr, epoch uint64) (Kept, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.state[addr]
	return s.kept, ok && s.epoch == epoch
}

// Carried are the connections that this node hands to others, by address and node, and how many
// there are in all.
func (c *Carrying) Carried() ([]Carried, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told.carried, c.told.total
}

// Listed is how many connections this node has of addresses that have moved away.
func (c *Carrying) Listed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.told.listed
}

// Packets is how many packets were handed to other nodes.
func (c *Carrying) Packets() (uint64, error) { return c.o.Carrier.Packets() }

// Changed has a value when one of these may have changed.
func (c *Carrying) Changed() <-chan struct{} { return c.changed }

const (
	// tick is how often there is something to do while connections are kept or listed.
	tick = 100 * time.Millisecond
	// idle is the same while there are none.
	idle = time.Second
)

// Run works until ctx ends. What is in the kernel stays.
func (c *Carrying) Run(ctx context.Context, mail Mail) {
	defer close(c.ended)
	c.catchUp()
	c.inherit()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			c.catchUp()
		case <-mail.Mail():
			for _, l := range mail.Letters() {
				c.read(l)
			}
		case f := <-c.events:
			f(time.Now())
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		if c.step(ctx, mail, time.Now()) {
			timer.Reset(tick)
		} else {
			timer.Reset(idle)
		}
	}
}

// catchUp does what was asked for.
func (c *Carrying) catchUp() {
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, f := range queue {
		f(time.Now())
	}
}

// Wait waits, after Run, for the end of everything that it has started: letters may take seconds.
func (c *Carrying) Wait() { c.beside.Wait() }

// Close closes what New was given, after the end of Run or instead of it.
func (c *Carrying) Close() {
	c.closing.Do(func() {
		c.o.LAN.Close()
		_ = c.o.Carrier.Close()
	})
}

// Ended is closed when Run has ended: nothing is done to the kernel any more.
func (c *Carrying) Ended() <-chan struct{} { return c.ended }

// Remove removes what is in the kernel.
func (c *Carrying) Remove() error { return c.o.Carrier.Remove() }

// read takes in a letter.
func (c *Carrying) read(l member.Letter) {
	if !c.members[l.From] {
		return
	}
	switch m, err := moves.Decode(l.Body); m := m.(type) {
	case moves.Want:
		if err == nil {
			c.lister.Want(l.From, m)
		}
	case moves.Page:
		if err == nil {
			c.keeper.Page(l.From, m, time.Now())
		}
	}
}

// step does what there is to do, and says whether connections are being kept or listed.
func (c *Carrying) step(ctx context.Context, mail Mail, now time.Time) (busy bool) {
	c.keeper.Expire(now)
	c.lister.Pin(c.keeper.Pending())
	c.follow(ctx, now)
	for node, want := range c.keeper.Wants(now, random) {
		c.out(node).want = want.Encode()
	}
	here := c.neighbours()
	for _, node := range c.lister.Askers() {
		for _, page := range c.lister.Pages(node, here, now) {
			c.out(node).pages = append(c.out(node).pages, page.Encode())
		}
	}
	c.send(ctx, mail)
	c.compute(now)
	c.look(ctx, now)
	c.install(now)
	return c.publish(now) || len(c.lister.Following()) > 0
}

// random is a number that nobody can guess, and never 0.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:]) | 1
}

// later has f run by Run, unless ctx ends.
func (c *Carrying) later(ctx context.Context, f func(now time.Time)) {
	select {
	case c.events <- f:
	case <-ctx.Done():
	}
}
