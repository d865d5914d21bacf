package invariant

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// address is what is known of one.
type address struct {
	owner    string // the one that answered alone; "" at first
	disputed time.Time
	disputes []time.Time          // when another one than the owner began to answer, of the last minute
	last     map[string]time.Time // answer of each node

	unanswered int       // questions in a row
	since      time.Time // of the first of them
	told       bool      // that nobody answers

	unsettled bool // told that nobody has the address for long

	both     time.Time // since when two answer, without a pause; zero: they do not
	bothTold bool

	made    []time.Time // when the last connections began that were made, in order
	failing time.Time   // when the first began since which none was made; zero: one was
}

func (c *Checker) address(addr netip.Addr) *address {
	a := c.addresses[addr]
	if a == nil {
		a = &address{last: map[string]time.Time{}}
		c.addresses[addr] = a
	}
	return a
}

// Asked is told of a question for an address.
func (c *Checker) Asked(addr netip.Addr, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Questions++
	a := c.address(addr)
	if a.unanswered == 0 {
		a.since = at
	}
	a.unanswered++
}

// Answered is told that a node has answered for an address.
func (c *Checker) Answered(addr netip.Addr, node string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts.Answers++
	a := c.address(addr)
	c.silent(addr, a, at)
	if a.told {
		c.note(at, fmt.Sprintf("%s is answered for again, by %s, after %s", addr, node, at.Sub(a.since).Round(time.Millisecond)))
	}
	if a.unanswered > 1 {
		c.worst.Silence = max(c.worst.Silence, at.Sub(a.since))
	}
	a.unanswered, a.told = 0, false
	c.heard(addr, a, node, at)
}

// heard keeps track of who answers.
func (c *Checker) heard(addr netip.Addr, a *address, node string, at time.Time) {
	if a.owner == "" {
		a.owner = node
		c.note(at, fmt.Sprintf("%s is answered for by %s", addr, node))
	}
	if a.disputed.IsZero() && node != a.owner {
		a.disputed = at
		a.disputes = append(slices.DeleteFunc(a.disputes, func(t time.Time) bool { return at.Sub(t) > time.Minute }), at)
		c.note(at, fmt.Sprintf("%s is answered for by %s, until now by %s", addr, node, a.owner))
	}
	a.last[node] = at
	answering := 0
	for _, last := range a.last {
		if at.Sub(last) < c.limits.Answering {
			answering++
		}
	}
	if answering < 2 {
		a.both, a.bothTold = time.Time{}, false
		return
	}
	if a.both.IsZero() {
		a.both = at
	}
	c.worst.Two = max(c.worst.Two, at.Sub(a.both))
	if !a.bothTold && c.uncovered(two, a.both, at) > c.limits.Two {
		a.bothTold = true
		c.broken(at, TwoAnswer, fmt.Sprintf("%s: for %s:%s", addr, at.Sub(a.both).Round(time.Millisecond), a.answerers(at)))
	}
}

// answerers are those who answered lately.
func (a *address) answerers(at time.Time) (out string) {
	for _, node := range slices.Sorted(maps.Keys(a.last)) {
		if ago := at.Sub(a.last[node]); ago < 5*time.Second {
			out += fmt.Sprintf(" %s %s ago", node, ago.Round(time.Millisecond))
		}
	}
	return out
}

// settle finds out who is the owner when only one has answered for a while.
func (c *Checker) settle(addr netip.Addr, a *address, now time.Time) {
	if a.disputed.IsZero() {
		return
	}
	alone := ""
	for node, last := range a.last {
		if now.Sub(last) < c.limits.Quiet {
			if alone != "" {
				c.undecided(addr, a, now)
				return
			}
			alone = node
		}
	}
	if alone == "" {
		return
	}
	if alone != a.owner {
		c.counts.Moves++
		text := fmt.Sprintf("%s has moved from %s to %s", addr, a.owner, alone)
		if c.uncovered(move, a.disputed, a.disputed.Add(1)) > 0 {
			c.broken(now, Moved, text)
		} else {
			c.note(now, text)
		}
	}
	a.owner, a.disputed, a.unsettled = alone, time.Time{}, false
}

// flapping is how many times as long as an owner answers alone, it may take until there is one.
const flapping = 4

// undecided notices that nodes take an address from each other again and again.
func (c *Checker) undecided(addr netip.Addr, a *address, now time.Time) {
	if !a.unsettled && c.uncovered(move, a.disputed, now) > flapping*c.limits.Quiet {
		a.unsettled = true
		c.broken(now, Moved, fmt.Sprintf("%s moves to and fro:%s", addr, a.answerers(now)))
	}
}

// silent notices that nobody answers.
func (c *Checker) silent(addr netip.Addr, a *address, now time.Time) {
	if a.told || a.unanswered < c.limits.Questions || now.Sub(a.since) <= c.limits.Silence {
		return
	}
	if rest := c.uncovered(silence, a.since, now); rest > c.limits.Silence {
		a.told = true
		c.broken(now, NoneAnswer, fmt.Sprintf("%s: for %s, of which %s are not explained (%d questions); the last was %s", addr, now.Sub(a.since).Round(time.Millisecond), rest.Round(time.Millisecond), a.unanswered, a.owner))
	}
}

// Owner returns who answers for an address, if it is one alone, and it has answered
// since a moment.
func (c *Checker) Owner(addr netip.Addr, since time.Time) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.address(addr)
	return a.owner, a.owner != "" && a.disputed.IsZero() && !a.last[a.owner].Before(since)
}
