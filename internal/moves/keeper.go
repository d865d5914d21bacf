package moves

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/conntrack"
)

const (
	// askAgain is how often a node is asked that does not answer, and askSeldom how often one
	// is asked whether there is more.
	askAgain, askSeldom = time.Second, 5 * time.Second
	// maxUnheard is how often a node is asked in vain before it is asked seldom: its agent may
	// be of an earlier version.
	maxUnheard = 5
	// silentAfter is when nobody waits for an answer of a node any more that was not known to
	// have connections.
	silentAfter = time.Second
)

// Claim is what this node knows of an address that it has, or is about to have.
type Claim struct {
	Epoch      uint64
	Interfaces []string
	// From is the node that had it before; empty if none is known.
	From string
	// Limit is for how long after a move connections are kept; 0: they are not.
	Limit time.Duration
	// Taken is when the node got it.
	Taken time.Time
}

// Keeper is the side of the node that has an address: it asks all others for their
// connections of it. It is not safe for concurrent use.
type Keeper struct {
	own   map[netip.Addr]Claim
	peers map[string]*peer
	// changed are addresses whose connections may be others now.
	changed map[netip.Addr]bool
}

// peer is another node.
type peer struct {
	member bool // its agent is there
	// vague: only an address of it is known, from what an earlier agent of this node has left.
	vague        bool
	stream, next uint64 // stream 0: to be asked anew
	series       uint64 // of the pages, once there was one
	neighbours   []Neighbour
	lists        map[netip.Addr]*list
	// over are addresses of which it has nothing, or nothing any more, by the epoch for which
	// it said so.
	over     map[netip.Addr]uint64
	asked    time.Time
	again    time.Time             // when it was last asked because of what it said
	asks     map[netip.Addr]uint64 // what it was last asked for
	stale    bool                  // it may be another by now
	answered bool
	unheard  int // how often it was asked in vain
	// waits is since when it owes an answer; zero: it does not.
	waits time.Time
}

// list is what a node says that it has of an address.
type list struct {
	epoch uint64
	conns map[conntrack.Conn]bool
	// next is a list that has begun and is not done.
	next        map[conntrack.Conn]bool
	done, final bool
	released    time.Time
}

// NewKeeper returns one that has nothing.
func NewKeeper() *Keeper {
	return &Keeper{own: map[netip.Addr]Claim{}, peers: map[string]*peer{}, changed: map[netip.Addr]bool{}}
}

// Take says that this node has addr now, or is about to.
func (k *Keeper) Take(addr netip.Addr, c Claim) {
	before, had := k.own[addr]
	if had && before.Epoch == c.Epoch {
		c.Taken = before.Taken
	}
	if had && c.From == "" {
		c.From = before.From
	}
	k.own[addr] = c
	k.changed[addr] = true
	if c.Limit <= 0 {
		k.forget(addr)
	}
	for _, p := range k.peers {
		p.stale = true
	}
}

// Drop says that it does not have it any more.
func (k *Keeper) Drop(addr netip.Addr) {
	delete(k.own, addr)
	k.forget(addr)
}

func (k *Keeper) forget(addr netip.Addr) {
	for _, p := range k.peers {
		delete(p.lists, addr)
		delete(p.over, addr)
		p.stale = true
	}
	k.changed[addr] = true
}

// Own returns what was taken.
func (k *Keeper) Own(addr netip.Addr) (Claim, bool) {
	c, ok := k.own[addr]
	return c, ok
}

// Members says whose agents are there. What the others have is kept: a node goes on without
// its agent.
func (k *Keeper) Members(names map[string]bool) {
	for name := range names {
		if k.peers[name] == nil {
			k.peers[name] = newPeer()
		}
	}
	for name, p := range k.peers {
		if p.member == names[name] {
			continue
		}
		p.member = names[name]
		if p.member { // its agent may be another one
			p.askAnew()
			clear(p.over)
		}
		for addr := range k.own {
			k.changed[addr] = true
		}
	}
	maps.DeleteFunc(k.peers, func(_ string, p *peer) bool { return !p.member && len(p.lists) == 0 })
}

func newPeer() *peer {
	return &peer{lists: map[netip.Addr]*list{}, over: map[netip.Addr]uint64{}, stale: true}
}

// askAnew has a node asked for everything.
func (p *peer) askAnew() {
	p.stream, p.asked, p.waits, p.asks, p.stale = 0, time.Time{}, time.Time{}, nil, true
}

// Inherit takes over connections that an earlier agent of this node handed to a node at via.
func (k *Keeper) Inherit(via netip.Addr, conns []conntrack.Conn, now time.Time) {
	p := newPeer()
	p.vague, p.neighbours = true, []Neighbour{{Addr: via}}
	k.peers["node at "+via.String()] = p
	for _, c := range conns {
		addr := c.Service.Addr()
		if p.lists[addr] == nil {
			p.lists[addr] = &list{conns: map[conntrack.Conn]bool{}, done: true, released: now}
		}
		p.lists[addr].conns[c] = true
		k.changed[addr] = true
	}
}

// Vague says whether only an address is known of a node, which is in its name.
func (k *Keeper) Vague(node string) bool {
	p := k.peers[node]
	return p != nil && p.vague
}

// Wants returns what is to be asked now, by node. Random returns a number that was never used.
func (k *Keeper) Wants(now time.Time, random func() uint64) map[string]Want {
	out := map[string]Want{}
	for name, p := range k.peers {
		if !p.member {
			continue
		}
		asks := p.asks
		if p.stale {
			p.stale, asks = false, map[netip.Addr]uint64{}
			for addr, c := range k.own {
				if c.Limit > 0 && p.over[addr] != c.Epoch && len(asks) < maxWanted {
					asks[addr] = c.Epoch
				}
			}
		}
		pause := askSeldom
		if !p.answered && p.unheard < maxUnheard {
			pause = askAgain
		}
		switch same := maps.Equal(asks, p.asks); {
		case same && len(asks) == 0:
			continue
		case same && p.stream != 0 && now.Sub(p.asked) < pause:
			continue
		}
		if p.stream == 0 {
			p.stream, p.next, p.answered = random(), 0, false
		}
		if p.asks, p.asked = asks, now; !p.answered {
			p.unheard++
		}
		switch {
		case len(asks) == 0:
			p.waits = time.Time{}
		case p.waits.IsZero():
			p.waits = now
		}
		out[name] = Want{Stream: p.stream, Addresses: asks}
	}
	return out
}

// Page takes over what a node answers.
func (k *Keeper) Page(node string, page Page, now time.Time) {
	p := k.peers[node]
	if p == nil || p.stream == 0 || page.Stream != p.stream {
		return
	}
	if p.next == 0 {
		p.series = page.Series
	}
	if page.Number != p.next || page.Series != p.series {
		// One is missing, or the agent there is another one: ask for everything. An early
		// page may also be one that somebody sends again, who is not to keep us busy.
		if page.Series == p.series && page.Number > p.next || now.Sub(p.again) >= askAgain {
			p.askAnew()
			p.again = now
		}
		return
	}
	p.answered, p.unheard, p.waits = true, 0, time.Time{}
	if page.Number == 0 && len(page.Parts) > 0 {
		p.neighbours = page.Neighbours
	}
	if len(page.Parts) == 0 {
		return
	}
	p.next++
	for i := range page.Parts {
		k.part(p, &page.Parts[i], now)
	}
}

func (k *Keeper) part(p *peer, part *Part, now time.Time) {
	addr := part.Address
	c, own := k.own[addr]
	if !own || part.Epoch != c.Epoch || c.Limit <= 0 || p.over[addr] == c.Epoch {
		return
	}
	l := p.lists[addr]
	if l == nil {
		l = &list{conns: map[conntrack.Conn]bool{}, released: c.Taken}
		p.lists[addr] = l
	}
	into := l.conns
	if part.Whole {
		l.epoch, l.done, l.final = part.Epoch, false, false
		l.next = map[conntrack.Conn]bool{}
	}
	if l.next != nil {
		into = l.next
	}
	for _, c := range part.Add {
		if len(into) < MaxListed {
			into[c] = true
		}
	}
	for _, c := range part.Remove {
		delete(into, c)
	}
	if part.Released >= 0 && (l.released.IsZero() || now.Add(-part.Released).Before(l.released)) {
		l.released = now.Add(-part.Released)
	}
	if part.Done {
		if l.next != nil {
			l.conns, l.next = l.next, nil
		}
		if l.done, l.final = true, part.Final; part.Over {
			p.end(addr, c.Epoch)
		}
		for _, n := range p.neighbours { // now it is known whose these are
			if vague := k.peers["node at "+n.Addr.String()]; vague != nil && vague.vague {
				delete(vague.lists, addr)
			}
		}
	}
	k.changed[addr] = true
}

// end notes that a node has nothing of an address any more, or nothing that is kept.
func (p *peer) end(addr netip.Addr, epoch uint64) {
	delete(p.lists, addr)
	p.over[addr], p.stale = epoch, true
}

// Listed says whether a node has listed what it has of addr.
func (k *Keeper) Listed(addr netip.Addr, node string) bool {
	c, own := k.own[addr]
	if !own || c.Limit <= 0 {
		return true
	}
	p := k.peers[node]
	return p != nil && p.listed(addr, c.Epoch)
}

func (p *peer) listed(addr netip.Addr, epoch uint64) bool {
	l := p.lists[addr]
	return p.over[addr] == epoch || l != nil && l.epoch == epoch && l.done
}

// Heard says whether all nodes whose agents are there have listed what they have of addr, and
// whether they did so after they gave it up. An agent that owes answers, perhaps one of an earlier
// version, is waited for only if its node had the address last, or has listed connections of it.
func (k *Keeper) Heard(addr netip.Addr, now time.Time) (listed, final bool) {
	c, own := k.own[addr]
	if !own || c.Limit <= 0 {
		return true, true
	}
	listed, final = true, true
	for name, p := range k.peers {
		silent := !p.waits.IsZero() && now.Sub(p.waits) >= silentAfter && name != c.From && p.lists[addr] == nil
		if !p.member || p.over[addr] == c.Epoch || silent {
			continue
		}
		ok := p.listed(addr, c.Epoch)
		listed, final = listed && ok, final && ok && p.lists[addr].final
	}
	return listed, final
}

// Silent says that a node does not answer on the segment any more: it is forgotten, and asked
// anew if its agent is there.
func (k *Keeper) Silent(node string) {
	p := k.peers[node]
	if p == nil {
		return
	}
	for addr := range p.lists {
		k.changed[addr] = true
	}
	clear(p.lists)
	clear(p.over)
	p.askAnew()
	if !p.member {
		delete(k.peers, node)
	}
}

// Expire ends what has lasted for as long as the limit.
func (k *Keeper) Expire(now time.Time) {
	for _, p := range k.peers {
		for addr, l := range p.lists {
			c, own := k.own[addr]
			if !own {
				continue
			}
			since := l.released
			if since.IsZero() {
				since = c.Taken
			}
			if now.Sub(since) >= c.Limit {
				p.end(addr, c.Epoch)
				k.changed[addr] = true
			}
		}
	}
}

// Changed returns the addresses whose connections may be others since the last call.
func (k *Keeper) Changed() []netip.Addr {
	out := slices.Collect(maps.Keys(k.changed))
	clear(k.changed)
	return out
}

// Touch has an address looked at again.
func (k *Keeper) Touch(addr netip.Addr) { k.changed[addr] = true }

// Nodes are those that have connections of addresses of this node.
func (k *Keeper) Nodes() (out []string) {
	for name, p := range k.peers {
		for _, l := range p.lists {
			if len(l.conns)+len(l.next) > 0 {
				out = append(out, name)
				break
			}
		}
	}
	slices.Sort(out)
	return out
}

// Neighbours are the addresses at which a node may answer.
func (k *Keeper) Neighbours(node string) []Neighbour {
	if p := k.peers[node]; p != nil {
		return p.neighbours
	}
	return nil
}

// Pending says whether anybody may still list something: the own connections have to be known
// of the addresses that it returns.
func (k *Keeper) Pending() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for _, p := range k.peers {
		for addr, l := range p.lists {
			if _, own := k.own[addr]; own && len(l.conns)+len(l.next) > 0 {
				out[addr] = true
			}
		}
	}
	return out
}

// Flows returns which connections of addr are to be handed to which node: what others have and
// this node has not. Of two nodes with the same connection, the one that had the address last
// has it.
func (k *Keeper) Flows(addr netip.Addr, here func(conntrack.Conn) bool) map[conntrack.Conn]string {
	if _, own := k.own[addr]; !own {
		return nil
	}
	type owner struct {
		node     string
		released time.Time
	}
	best := map[conntrack.Conn]owner{}
	for name, p := range k.peers {
		l := p.lists[addr]
		if l == nil {
			continue
		}
		add := func(c conntrack.Conn) {
			have, taken := best[c]
			later := !taken || l.released.After(have.released) || l.released.Equal(have.released) && name < have.node
			if later && !here(c) {
				best[c] = owner{name, l.released}
			}
		}
		for c := range l.conns {
			add(c)
		}
		for c := range l.next {
			add(c)
		}
	}
	out := make(map[conntrack.Conn]string, len(best))
	for c, o := range best {
		out[c] = o.node
	}
	return out
}

// Since is when a node gave addr up, as far as is known.
func (k *Keeper) Since(addr netip.Addr, node string) time.Time {
	if p := k.peers[node]; p != nil && p.lists[addr] != nil && !p.lists[addr].released.IsZero() {
		return p.lists[addr].released
	}
	return k.own[addr].Taken
}
