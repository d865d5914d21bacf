package invariant

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/test/kit/client"
)

// kept is for how long connections that were made are remembered: longer than one can
// take that fails.
const kept = 20 * time.Second

// Connected is told what became of a new connection.
func (c *Checker) Connected(addr netip.Addr, began, ended time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.address(addr)
	if err == nil {
		c.counts.Made++
		c.madeAt(a, began)
		return
	}
	c.failedAt(a, began)
	switch {
	case c.within(silence, began, ended):
		c.counts.Failed++
	case client.Reset(err) && c.byMove(false, addr, began, ended):
		c.counts.Reset++
		c.excused = append(c.excused, excuse{addr, began, ended, err})
	case client.Late(err) && c.byMove(true, addr, began, ended):
		c.counts.Late++
		c.excused = append(c.excused, excuse{addr, began, ended, err})
	default:
		c.failed(excuse{addr, began, ended, err})
	}
}

func (c *Checker) failed(e excuse) {
	c.broken(e.ended, Refused, fmt.Sprintf("%s: begun at %.2fs, ended after %s: %v", e.addr, e.began.Sub(c.began).Seconds(), e.ended.Sub(e.began).Round(time.Millisecond), e.err))
}

// excuse is a connection that a move explains, if there was one.
type excuse struct {
	addr         netip.Addr
	began, ended time.Time
	err          error
}

// about is how long before or after a connection another node begins to answer if the address
// moved meanwhile.
const about = 2 * time.Second

// excuse looks whether the addresses of connections that moves explain have moved.
func (c *Checker) excuse(now time.Time) {
	c.excused = slices.DeleteFunc(c.excused, func(e excuse) bool {
		if now.Sub(e.ended) <= about {
			return false
		}
		if !slices.ContainsFunc(c.address(e.addr).disputes, func(t time.Time) bool { return t.After(e.began.Add(-about)) && t.Before(e.ended.Add(about)) }) {
			c.failed(e)
		}
		return true
	})
}

func (c *Checker) madeAt(a *address, began time.Time) {
	i, _ := slices.BinarySearchFunc(a.made, began, time.Time.Compare)
	if !a.failing.IsZero() && began.After(a.failing) {
		before, _ := slices.BinarySearchFunc(a.made, a.failing, time.Time.Compare)
		if before > 0 {
			c.worst.Outage = max(c.worst.Outage, began.Sub(a.made[before-1]))
		}
		a.failing = time.Time{}
	}
	a.made = slices.Insert(a.made, i, began)
	old, _ := slices.BinarySearchFunc(a.made, began.Add(-kept), time.Time.Compare)
	a.made = slices.Delete(a.made, 0, old)
}

func (c *Checker) failedAt(a *address, began time.Time) {
	next, _ := slices.BinarySearchFunc(a.made, began, time.Time.Compare)
	switch {
	case next == len(a.made):
		if a.failing.IsZero() || began.Before(a.failing) {
			a.failing = began
		}
	case next > 0:
		c.worst.Outage = max(c.worst.Outage, a.made[next].Sub(a.made[next-1]))
	}
}

// Working says whether the last connection to an address was made, and it began after a
// moment.
func (c *Checker) Working(addr netip.Addr, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.address(addr)
	return a.failing.IsZero() && len(a.made) > 0 && a.made[len(a.made)-1].After(since)
}

// within says whether a window explains something that lasted from a moment to another.
func (c *Checker) within(of kind, from, to time.Time) bool {
	for _, a := range c.acts {
		if f, t, ok := a.window(of, to); ok && f.Before(to) && !t.Before(from) {
			return true
		}
	}
	return false
}

// byMove says whether a move explains what has become of a connection: it was under way
// when the address moved, so the next node knew nothing of it. Each fault explains one
// moment of an address: what was under way then. This is told in the order in which
// connections end.
func (c *Checker) byMove(planned bool, addr netip.Addr, began, ended time.Time) bool {
	for _, a := range c.acts {
		from, to, ok := a.window(move, ended)
		if !ok || planned != a.allows.Planned || !from.Before(ended) || to.Before(began) {
			continue
		}
		moment, known := a.moments[addr]
		if !known {
			a.moments[addr] = ended
			return true
		}
		if !began.After(moment) {
			return true
		}
	}
	return false
}
