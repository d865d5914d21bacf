package ipam

import (
	"net/netip"
	"slices"

	"github.com/google/btree"

	"fairlead.io/internal/lb"
)

// queue is the Services that wait for one thing, oldest first.
type queue struct {
	tree *btree.BTreeG[*service]
	gone func() // called when nobody waits any more
}

func newQueue(gone func()) *queue { return &queue{btree.NewG(16, older), gone} }

// after returns the oldest Service in the queue that is younger than s, or the
// oldest of all if s is nil.
func (q *queue) after(s *service) (found *service) {
	if s == nil {
		found, _ = q.tree.Min()
		return found
	}
	q.tree.AscendGreaterOrEqual(s, func(w *service) bool {
		if w == s {
			return true
		}
		found = w
		return false
	})
	return found
}

// queueIn returns the queue under k in m, which is made if need be and goes
// away with the last Service that waits in it.
func queueIn[K comparable](m map[K]*queue, k K) *queue {
	q := m[k]
	if q == nil {
		q = newQueue(func() { delete(m, k) })
		m[k] = q
	}
	return q
}

// groupQueue returns the queue of Services that wait to join an address of family f
// of the group of r, by their first port: where that is in use, none of them can.
func (a *Allocator) groupQueue(r *lb.Request, f lb.Family) *queue {
	g, port := groupOf(r, f), firstPort(r)
	byPort := a.waitGroup[g]
	if byPort == nil {
		byPort = map[lb.Port]*queue{}
		a.waitGroup[g] = byPort
	}
	q := byPort[port]
	if q == nil {
		q = newQueue(func() {
			if delete(byPort, port); len(byPort) == 0 {
				delete(a.waitGroup, g)
			}
		})
		byPort[port] = q
	}
	return q
}

func firstPort(r *lb.Request) (p lb.Port) {
	if len(r.Ports) > 0 {
		p = r.Ports[0]
	}
	return p
}

// await puts s into q until it is looked at again.
func (a *Allocator) await(s *service, q *queue) {
	if _, already := q.tree.ReplaceOrInsert(s); already {
		return
	}
	if len(s.waits) == 0 {
		a.waiters++
	}
	s.waits = append(s.waits, q)
}

// unwait takes s out of all queues.
func (a *Allocator) unwait(s *service) {
	if len(s.waits) == 0 {
		return
	}
	for _, q := range s.waits {
		q.tree.Delete(s)
		if q.tree.Len() == 0 && q.gone != nil {
			q.gone()
		}
	}
	s.waits = nil
	a.waiters--
}

// A note says that the holding of address has changed, and, if namespace is
// set, that a Service of that namespace left it.
type note struct {
	address   netip.Addr
	namespace string
	pool      *pool // if set, only that the namespace has one less of its quota
}

// note remembers that s has come to address, left it or changed on it.
func (a *Allocator) note(s *service, address netip.Addr) {
	a.changes++
	n := note{address: address}
	if s.has[lb.FamilyOf(address)] != address {
		n.namespace = s.req.Service.Namespace
	}
	a.notes = append(a.notes, n)
}

// cursor goes through the Services that something may help, oldest first: those
// in queue, in list, or who may join the others on address.
type cursor struct {
	queue   *queue
	list    []*service // sorted by age
	joining bool
	last    *service // the one looked at last, but for list

	address netip.Addr // what has changed
	pool    *pool      // if set, only while address is free in it
}

// next returns the next Service without moving on, or nil.
func (c *cursor) next(a *Allocator) *service {
	switch {
	case c.joining:
		return a.nextToJoin(c.address, c.last)
	case c.queue == nil:
		for len(c.list) > 0 && c.list[0].gone {
			c.list = c.list[1:]
		}
		if len(c.list) == 0 {
			return nil
		}
		return c.list[0]
	case c.pool != nil:
		n, _ := c.pool.numberOf(c.address)
		if !c.pool.free[lb.FamilyOf(c.address)].contains(n) {
			return nil
		}
	}
	return c.queue.after(c.last)
}

// nextToJoin returns the oldest Service younger than last that waits to join the
// group on address and can, or nil.
func (a *Allocator) nextToJoin(address netip.Addr, last *service) (oldest *service) {
	head := a.held[address]
	if head == nil {
		return nil
	}
	f := lb.FamilyOf(address)
	g := groupOf(&head.req, f)
	o := a.shared[g]
	if o == nil {
		return nil
	}
	for port, q := range a.waitGroup[g] {
		if !o.room(address, []lb.Port{port}) {
			continue
		}
		w := q.after(last)
		for w != nil && !a.fits(w, address) {
			w = q.after(w)
		}
		if w != nil && (oldest == nil || older(w, oldest)) {
			oldest = w
		}
	}
	return oldest
}

// pass moves the cursor past s, which is as old as what is next, or older.
func (c *cursor) pass(s *service) {
	if c.queue != nil || c.joining {
		if c.last == nil || older(c.last, s) {
			c.last = s
		}
	} else if len(c.list) > 0 && c.list[0] == s {
		c.list = c.list[1:]
	}
}

// wake looks again at the Services in todo and at those that wait for what has
// been noted, always at the oldest first, until nothing more can be helped.
//
// It ends, because looking at a Service only notes something if that Service
// got what it lacked, and nobody can lose anything here.
func (a *Allocator) wake(todo []*service) {
	if a.waiters == 0 && len(todo) == 0 && len(a.evicted) == 0 {
		a.notes = a.notes[:0]
		return
	}
	var cursors []*cursor
	if len(todo) > 0 {
		cursors = append(cursors, &cursor{list: todo})
	}
	for {
		if len(a.evicted) > 0 {
			slices.SortFunc(a.evicted, byAge)
			cursors = append(cursors, &cursor{list: a.evicted})
			a.evicted = nil
		}
		for _, n := range a.notes {
			cursors = a.cursorsFor(cursors, n)
		}
		a.notes = a.notes[:0]

		var oldest *service
		cursors = slices.DeleteFunc(cursors, func(c *cursor) bool {
			s := c.next(a)
			if s != nil && (oldest == nil || older(s, oldest)) {
				oldest = s
			}
			return s == nil
		})
		if oldest == nil {
			return
		}
		for _, c := range cursors {
			c.pass(oldest)
		}
		a.evaluate(oldest)
	}
}

// cursorsFor adds the cursors through those whom n may help.
func (a *Allocator) cursorsFor(cursors []*cursor, n note) []*cursor {
	if n.pool != nil {
		if q := n.pool.quota[n.namespace]; q != nil {
			cursors = append(cursors, &cursor{queue: q})
		}
		return cursors
	}
	head, f := a.held[n.address], lb.FamilyOf(n.address)
	add := func(c cursor) {
		for _, known := range cursors {
			if known.address == c.address && known.queue == c.queue && known.joining == c.joining && known.list == nil {
				known.last = nil
				return
			}
		}
		cursors = append(cursors, &c)
	}
	if q := a.waitAddress[n.address]; q != nil {
		add(cursor{queue: q, address: n.address})
	}
	if head != nil && len(a.waitGroup[groupOf(&head.req, f)]) > 0 {
		add(cursor{joining: true, address: n.address})
	}
	pools := a.cover.pools(n.address)
	for _, p := range pools {
		if head != nil && len(pools) > 1 {
			// The next free one of another pool may not count here.
			for _, q := range p.quota {
				add(cursor{queue: q, address: n.address})
			}
		}
		if head == nil && p.waiting[f].tree.Len() > 0 && p.works() {
			if _, ok := p.numberOf(n.address); ok {
				add(cursor{queue: p.waiting[f], address: n.address, pool: p})
			}
		}
		if n.namespace != "" {
			if q := p.quota[n.namespace]; q != nil {
				add(cursor{queue: q, address: n.address})
			}
		}
	}
	return cursors
}
