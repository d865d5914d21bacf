package carrying

import (
	"context"
	"net"
	"net/netip"
	"time"

	"fairlead.io/internal/link"
	"fairlead.io/internal/moves"
)

const (
	// askTime is how long a node may take to answer, and how often one is asked that
	// connections are handed to.
	askTime = 200 * time.Millisecond
	// maxMisses in a row make a node dead.
	maxMisses = 3
	// searchAgain is how often a node is looked for that was not found on a segment.
	searchAgain = 5 * time.Second
	// remembered is for how long a path is known that nobody uses: addresses move to and fro.
	remembered = time.Minute
)

// pathKey is one way to a node.
type pathKey struct {
	node, iface string
	v6          bool
}

// path is how to reach a node on an interface. A node is dead if it does not answer there,
// whatever its agent does.
type path struct {
	at     moves.Neighbour
	from   netip.Addr
	good   bool // it answers
	known  bool // it has been looked for
	misses int
	asking bool
	next   time.Time
	used   time.Time
}

// look looks for nodes that have connections, and asks those that were found whether they are
// still there.
func (c *Carrying) look(ctx context.Context, now time.Time) {
	needed := map[pathKey]bool{}
	for addr, f := range c.kernel.flows {
		claim, ok := c.keeper.Own(addr)
		if !ok {
			continue
		}
		for node := range f.counts {
			for _, iface := range claim.Interfaces {
				needed[pathKey{node, iface, addr.Is6()}] = true
			}
		}
	}
	c.asked = len(needed)
	for key, p := range c.paths {
		if !needed[key] && now.Sub(p.used) >= remembered {
			delete(c.paths, key)
		}
	}
	for key := range needed {
		p := c.paths[key]
		if p == nil {
			p = &path{}
			c.paths[key] = p
		}
		p.used = now
		switch {
		case p.asking || now.Before(p.next):
		case p.good:
			c.ask(ctx, key, p)
		default:
			c.search(ctx, key, p)
		}
	}
}

// search looks for a node on an interface.
func (c *Carrying) search(ctx context.Context, key pathKey, p *path) {
	type candidate struct {
		moves.Neighbour
		from netip.Addr
	}
	var all []candidate
	if l := c.linkOf(key.iface); l != nil {
		for _, n := range c.keeper.Neighbours(key.node) {
			if own, ok := from(l, n.Addr); ok && n.Addr.Is6() == key.v6 {
				all = append(all, candidate{n, own})
			}
		}
	}
	p.asking = true
	c.beside.Go(func() {
		found := make(chan *candidate, len(all))
		for i := range all {
			one := &all[i]
			c.beside.Go(func() {
				var at net.HardwareAddr
				if one.MAC != [6]byte{} {
					at = one.Hardware()
				}
				for range maxMisses {
					if mac := c.o.LAN.Ask(ctx, key.iface, one.Addr, one.from, at); len(mac) == 6 {
						one.MAC = [6]byte(mac)
						found <- one
						return
					}
				}
				found <- nil
			})
		}
		var first *candidate
		for range all {
			if first = <-found; first != nil {
				break
			}
		}
		c.later(ctx, func(now time.Time) {
			p.asking, p.known, p.misses = false, true, 0
			p.next = now.Add(searchAgain)
			if first != nil {
				p.at, p.from, p.good = first.Neighbour, first.from, true
				p.next = now.Add(askTime)
			}
			c.touch(key.node)
		})
	})
}

// ask asks a node whether it is still there.
func (c *Carrying) ask(ctx context.Context, key pathKey, p *path) {
	p.asking = true
	c.beside.Go(func() {
		began := time.Now()
		mac := c.o.LAN.Ask(ctx, key.iface, p.at.Addr, p.from, p.at.Hardware())
		// An answer may be here that this process had no time to read.
		late := time.Since(began) > askTime+askTime/2
		c.later(ctx, func(time.Time) {
			p.asking, p.next = false, began.Add(askTime)
			if mac != nil || late {
				p.misses = 0
				return
			}
			if p.misses++; p.misses < maxMisses {
				return
			}
			p.good = false
			c.touch(key.node)
			c.silent(key)
		})
	})
}

// silent forgets a node that answers nowhere any more.
func (c *Carrying) silent(key pathKey) {
	for other, p := range c.paths {
		if other.node == key.node && p.good && p.misses == 0 {
			return
		}
	}
	c.o.Log.Warn("a node that has connections of addresses of this one does not answer any more; its connections are reset", "node", key.node, "interface", key.iface)
	c.keeper.Silent(key.node)
	for other := range c.paths {
		if other.node == key.node {
			delete(c.paths, other)
		}
	}
}

// touch has all connections of a node looked at again.
func (c *Carrying) touch(node string) {
	for addr, f := range c.kernel.flows {
		if f.counts[node] > 0 {
			c.keeper.Touch(addr)
		}
	}
}

// portsOf are the ports of a bridge.
func portsOf(bridge *link.Link, all []link.Link) (out []string) {
	if !bridge.Bridge {
		return nil
	}
	for i := range all {
		if all[i].Master == bridge.Index {
			out = append(out, all[i].Name)
		}
	}
	return out
}
