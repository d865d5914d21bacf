package invariant

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Service is what one says that it has.
type Service struct {
	Addresses []netip.Addr
	Share     string // the key with which it shares addresses with others; "": it does not
}

// Due is told which addresses a Service must have from now on.
func (c *Checker) Due(name string, addrs ...netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(addrs) == 0 {
		delete(c.due, name)
		delete(c.missing, name)
		return
	}
	c.due[name] = slices.Clone(addrs)
}

// Holds is told what a Service has; nothing if it is gone.
func (c *Checker) Holds(at time.Time, name string, s Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.has[name]
	if slices.Equal(before.Addresses, s.Addresses) && (before.Share == s.Share || len(s.Addresses) == 0) {
		return
	}
	if !slices.Equal(before.Addresses, s.Addresses) {
		c.counts.ServiceChanges++
		c.note(at, fmt.Sprintf("%s has %v, had %v", name, s.Addresses, before.Addresses))
	}
	for _, a := range before.Addresses {
		delete(c.holders[a], name)
		if len(c.holders[a]) == 0 {
			delete(c.holders, a)
		}
	}
	c.has[name] = s
	for _, a := range s.Addresses {
		if c.holders[a] == nil {
			c.holders[a] = map[string]Service{}
		}
		c.holders[a][name] = s
	}
	for _, a := range slices.Concat(before.Addresses, s.Addresses) {
		c.double(at, a)
	}
	c.miss(at, name)
}

// double keeps track of addresses with two holders that do not share them.
func (c *Checker) double(at time.Time, addr netip.Addr) {
	holders := c.holders[addr]
	keys := map[string]bool{}
	for _, s := range holders {
		keys[s.Share] = true
	}
	if len(holders) < 2 || len(keys) == 1 && !keys[""] {
		delete(c.doubles, addr)
		return
	}
	if _, known := c.doubles[addr]; known {
		return
	}
	c.doubles[addr] = at
	if !c.within(status, at, at.Add(1)) {
		c.toldDouble(at, addr)
	}
}

func (c *Checker) toldDouble(at time.Time, addr netip.Addr) {
	c.broken(at, TwoHold, fmt.Sprintf("%s: %v", addr, slices.Sorted(maps.Keys(c.holders[addr]))))
	c.doubles[addr] = time.Time{} // once is enough
}

// miss keeps track of Services without what they must have.
func (c *Checker) miss(at time.Time, name string) {
	due, is := c.due[name]
	if !is || slices.Equal(due, c.has[name].Addresses) {
		delete(c.missing, name)
		return
	}
	if _, known := c.missing[name]; known {
		return
	}
	c.missing[name] = at
	if !c.within(status, at, at.Add(1)) {
		c.toldLost(at, name)
	}
}

func (c *Checker) toldLost(at time.Time, name string) {
	c.broken(at, Lost, fmt.Sprintf("%s had %v and has %v", name, c.due[name], c.has[name].Addresses))
	c.missing[name] = time.Time{}
}

// overdue finds what was explained for a while and still is.
func (c *Checker) overdue(now time.Time) {
	for addr, since := range c.doubles {
		if !since.IsZero() && c.uncovered(status, since, now) > 0 {
			c.toldDouble(now, addr)
		}
	}
	for name, since := range c.missing {
		if !since.IsZero() && c.uncovered(status, since, now) > 0 {
			c.toldLost(now, name)
		}
	}
}

// Complete says whether all Services have what they must have, and none has another's.
func (c *Checker) Complete() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.missing)) {
		return fmt.Errorf("%s has %v, not %v", name, c.has[name].Addresses, c.due[name])
	}
	for addr := range c.doubles {
		return fmt.Errorf("%s has the holders %v", addr, slices.Sorted(maps.Keys(c.holders[addr])))
	}
	return nil
}
