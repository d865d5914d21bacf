package carrying

import (
	"bytes"
	"cmp"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"fairlead.io/internal/conntrack"
)

// publish says what the loop may ask for, and whether there is more to do soon.
func (c *Carrying) publish(now time.Time) (busy bool) {
	t := told{listed: c.lister.Listed()}
	for addr, f := range c.kernel.flows {
		named := map[string]*Carried{}
		for node, n := range c.count(addr, f).node {
			name, since := c.nameOf(node, addr), c.keeper.Since(addr, node)
			if named[name] == nil {
				named[name] = &Carried{addr, name, 0, since}
			}
			one := named[name]
			one.Connections += n
			if since.Before(one.Since) {
				one.Since = since
			}
			t.total += n
		}
		for _, one := range named {
			t.carried = append(t.carried, *one)
		}
	}
	slices.SortFunc(t.carried, func(a, b Carried) int {
		return cmp.Or(a.Address.Compare(b.Address), strings.Compare(a.Node, b.Node))
	})
	states := map[netip.Addr]*state{}
	for addr := range c.dirty {
		states[addr] = c.stateOf(addr, now)
	}
	clear(c.dirty)
	c.mu.Lock()
	changed := t.listed != c.told.listed || !slices.Equal(t.carried, c.told.carried)
	c.told = t
	for addr, s := range states {
		if s == nil {
			delete(c.state, addr)
			continue
		}
		changed = changed || c.state[addr] != *s
		c.state[addr] = *s
		if c.kernel.dirty[addr] {
			c.dirty[addr] = true
		}
	}
	c.mu.Unlock()
	if changed {
		signal(c.changed)
	}
	for _, r := range c.up {
		busy = busy || r.settles
	}
	return busy || c.asked > 0 || len(c.dirty)+len(c.kernel.later) > 0
}

// nameOf is the name of a node that has connections of addr. An agent that has taken over from
// another one knows the address at which the node answers.
func (c *Carrying) nameOf(node string, addr netip.Addr) string {
	if !c.keeper.Vague(node) {
		return node
	}
	for _, n := range c.keeper.Neighbours(node) {
		if name := c.addresses[n.Addr]; name != "" {
			return name
		}
	}
	claim, _ := c.keeper.Own(addr)
	for _, iface := range claim.Interfaces {
		p := c.paths[pathKey{node, iface, addr.Is6()}]
		if p == nil || !p.good {
			continue
		}
		for name, macs := range c.nodes {
			if slices.ContainsFunc(macs, func(m net.HardwareAddr) bool { return bytes.Equal(m, p.at.MAC[:]) }) {
				return name
			}
		}
	}
	return node
}

// count returns how many connections of addr the kernel hands on.
func (c *Carrying) count(addr netip.Addr, f *flows) *counts {
	n := c.kernel.counts[addr]
	if n != nil {
		return n
	}
	n = &counts{node: map[string]int{}}
	seen := make(map[conntrack.Conn]bool, len(c.kernel.has[addr]))
	for e := range c.kernel.has[addr] {
		if seen[e.Conn] {
			continue // on another interface
		}
		seen[e.Conn] = true
		n.all++
		if f == nil {
			continue
		}
		if node := f.node[e.Conn]; node != "" {
			n.node[node]++
		}
	}
	c.kernel.counts[addr] = n
	return n
}

// stateOf is what the loop may ask about addr; nil if it is not here.
func (c *Carrying) stateOf(addr netip.Addr, now time.Time) *state {
	claim, own := c.keeper.Own(addr)
	r := c.up[addr]
	if !own || r == nil {
		return nil
	}
	listed, _ := c.keeper.Heard(addr, now)
	f := c.kernel.flows[addr]
	installed := c.found(addr) && !c.kernel.dirty[addr]
	kept := Kept{Connections: c.count(addr, f).all, Unlisted: claim.From != "" && !c.keeper.Listed(addr, claim.From), Pending: !installed}
	kept.Unreachable = installed && kept.Connections == 0 && f != nil && f.counts[claim.From] > 0
	return &state{r.epoch, listed && installed && (!r.settles || !r.settleUntil.IsZero()), kept}
}
