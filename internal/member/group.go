package member

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// Config is what a Group needs to start.
type Config struct {
	Name string         // of the node; no two may have the same
	Bind netip.AddrPort // the node's address, and DefaultPort; with port 0 the kernel chooses one
	Key  []byte         // 32 bytes (AES-256), the same on all nodes
	Meta Meta           // until SetMeta
	Log  *slog.Logger

	// Transport, if not nil, replaces the sockets: tests connect groups in memory
	// (see membersim).
	Transport memberlist.Transport
}

// Group is this node's seat among the members. All methods may be called from
// any goroutine.
type Group struct {
	self string
	addr netip.AddrPort
	log  *slog.Logger
	list *memberlist.Memberlist

	changed chan struct{}
	mail    chan struct{} // there are letters
	wake    chan struct{} // there is something to say
	done    chan struct{}
	loops   sync.WaitGroup
	queue   memberlist.TransmitLimitedQueue // gossip
	size    atomic.Int32                    // members; the queue asks while mu may be held

	ending  sync.Mutex // one Leave or Close at a time
	ended   bool
	talking sync.Mutex // changes are sent in their order

	mu       sync.Mutex // never held while memberlist is called, which calls back
	book     *book
	members  map[string]netip.AddrPort
	departed map[string]departure
	nodes    map[netip.Addr]bool // that Join was last called with
	deaths   int
	raising  [nonceLen]byte  // see raiseIncarnation
	raised   chan struct{}   // nil: it was
	greet    map[string]bool // members that have not heard of us from ourselves
	doubts   map[string]*doubt
	// questions of others that are to be answered.
	questions []question
	exchanged time.Time // with a member that is synced
	synced    bool
	refuted   time.Time
	letters   []Letter
	mailed    int // bytes of them
}

// departure is how and when a member was lost.
type departure struct {
	at   time.Time
	addr netip.AddrPort
	left bool // it took its leave
}

// Start takes the seat. The group has one member until Join finds others or is
// found by them. An error for which errors.Is(err, syscall.EADDRINUSE) holds means
// that another process has the port, perhaps our predecessor: try again.
func Start(c Config) (*Group, error) {
	switch {
	case c.Name == "" || len(c.Name) > maxName:
		return nil, fmt.Errorf("member name must have 1 to %d characters, not %d", maxName, len(c.Name))
	case len(c.Key) != 32:
		return nil, fmt.Errorf("gossip key must have 32 bytes, not %d", len(c.Key))
	case !c.Bind.Addr().IsValid() || c.Bind.Addr().IsUnspecified():
		return nil, errors.New("member needs an address that other members can reach")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Bind = netip.AddrPortFrom(c.Bind.Addr().Unmap(), c.Bind.Port())
	now := time.Now()
	g := &Group{
		self: c.Name, log: c.Log,
		changed: make(chan struct{}, 1), mail: make(chan struct{}, 1), wake: make(chan struct{}, 1), done: make(chan struct{}),
		book:    newBook(c.Name, uint64(now.UnixNano()), c.Meta),
		members: map[string]netip.AddrPort{}, departed: map[string]departure{}, greet: map[string]bool{}, doubts: map[string]*doubt{},
	}
	g.queue.NumNodes, g.queue.RetransmitMult = func() int { return int(g.size.Load()) }, claimRetransmit
	out := &bridge{log: c.Log}
	transport := c.Transport
	if transport == nil {
		gate, err := newGate(c.Key, g.nodeAt)
		if err != nil {
			return nil, err
		}
		s, err := listen(c.Bind, gate, out.warn)
		if err != nil {
			return nil, fmt.Errorf("listen for members: %w", err)
		}
		transport, c.Bind = s, s.addr
	}
	g.addr = c.Bind
	conf := tuned(c, transport, out)
	conf.Delegate, conf.Events = delegate{g}, events{g}
	list, err := memberlist.Create(conf)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start membership: %w", err), transport.Shutdown())
	}
	g.list = list
	if err := g.raiseIncarnation(transport, c.Key, now); err != nil {
		g.log.Debug("raise the incarnation", "error", err)
	}
	g.loops.Go(g.run)
	g.loops.Go(g.rejoin)
	return g, nil
}

// Addr is where this member can be reached.
func (g *Group) Addr() netip.AddrPort { return g.addr }

// Members are those alive, this node included, by name. The slices in their Meta
// must not be changed.
func (g *Group) Members() []Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]Member, 0, len(g.members))
	for name, addr := range g.members {
		m := Member{Name: name, Addr: addr}
		if p := g.book.pages[name]; p != nil {
			m.Meta = p.info.meta
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// SetMeta says what the others must know of this node from now on.
func (g *Group) SetMeta(m Meta) {
	m = m.clone()
	g.say(func() bool { return g.book.tell(func(i *info) { i.meta = m }) })
}

// SetClaims says what this node claims from now on: these and no
// others. Only what has changed is sent. Node and Standing are ignored. Nobody
// should claim anything before the group is Synced.
func (g *Group) SetClaims(own []Claim) {
	g.say(func() bool { return g.book.claim(own) })
}

// ChangeClaims is SetClaims for what changes of many claims: these come, or are others
// now, and those are released. SetClaims must have been called before.
func (g *Group) ChangeClaims(own []Claim, released []Key) {
	g.say(func() bool { return g.book.reclaim(own, released) })
}

// say changes what we say, and has it sent.
func (g *Group) say(change func() bool) {
	g.mu.Lock()
	changed := change()
	g.mu.Unlock()
	if changed {
		signal(g.wake)
		signal(g.changed)
	}
}

// Claims are all claims by key, our own included: the best standing first,
// then the highest epoch, then by name. The map is the caller's.
func (g *Group) Claims() map[Key][]Claim {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.book.all()
}

// Changed has a value whenever members, their metas, claims or Synced may have
// changed since the last one was taken. Many changes may make one value. Changes says
// what it was.
func (g *Group) Changed() <-chan struct{} { return g.changed }

// Changes returns what has changed since the last call. If only claims have, it is
// those of each key that is concerned, as Claims has them, or none; otherwise members
// is true, and anything may have changed.
func (g *Group) Changes() (members bool, claims map[Key][]Claim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.book.changes()
}

// Synced says whether this member knows what there is to know: it has exchanged
// all with a member that does, or it has been there for a second without meeting
// one. It stays true.
func (g *Group) Synced() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.synced
}

// Died says when a member was declared dead, if it was and is. One that has left
// was not.
func (g *Group) Died(name string) (time.Time, bool) {
	d, ok := g.departure(name)
	return d.at, ok && !d.left
}

// Deaths is how often a member was declared dead since Start.
func (g *Group) Deaths() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.deaths
}

// Left says when a member has taken its leave, if it has not come back.
func (g *Group) Left(name string) (time.Time, bool) {
	d, ok := g.departure(name)
	return d.at, ok && d.left
}

func (g *Group) departure(name string) (departure, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d, ok := g.departed[name]
	return d, ok
}

// Health is 0 while this member answers and is answered in time. A higher number,
// up to 7, says that it doubts itself and so takes as much longer before it
// suspects others: it lacks CPU, or its network loses packets.
func (g *Group) Health() int { return g.list.GetHealthScore() }

// Close ends the membership at once and without a word, as a crash would. The
// port is free when it returns. This is how an agent makes room for its
// successor, which inherits its claims.
func (g *Group) Close() {
	g.ending.Lock()
	defer g.ending.Unlock()
	if g.ended {
		return
	}
	g.ended = true
	close(g.done)
	if err := g.list.Shutdown(); err != nil {
		g.log.Debug("shut down", "error", err)
	}
	g.loops.Wait()
}

// run sends what is to be said, and lets time pass.
func (g *Group) run() {
	alone := time.NewTimer(aloneAfter)
	defer alone.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-g.done:
			return
		case <-g.wake:
			g.talk()
			g.answer()
			if g.ask() {
				again.Reset(askInterval)
			}
		case <-again.C:
			if g.ask() {
				again.Reset(askInterval)
			}
		case <-alone.C:
			g.setSynced()
		case now := <-second.C:
			g.expire(now)
		}
	}
}

// setSynced says that there was an exchange, or nobody to have one with.
func (g *Group) setSynced() {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.exchanged.IsZero() {
		g.exchanged = now
	}
	g.settle(now)
}

func (g *Group) expire(now time.Time) {
	g.mu.Lock()
	expired := g.book.expire(now)
	maps.DeleteFunc(g.departed, func(_ string, d departure) bool { return now.Sub(d.at) > memory })
	g.mu.Unlock()
	if expired {
		signal(g.changed)
	}
}

// signal leaves a value in the channel, if there is none.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
