package carrying

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/link"
	"fairlead.io/internal/moves"
)

// outbox is what is to be sent to a node: one letter at a time, in order.
type outbox struct {
	want    []byte // replaces an earlier one
	pages   [][]byte
	sending bool
}

func (c *Carrying) out(node string) *outbox {
	o := c.outbox[node]
	if o == nil {
		o = &outbox{}
		c.outbox[node] = o
	}
	return o
}

// send sends what there is. A node that misses a page asks for everything again.
func (c *Carrying) send(ctx context.Context, mail Mail) {
	for node, o := range c.outbox {
		if o.sending {
			continue
		}
		letters := o.pages
		lists := len(letters) > 0
		if o.want != nil {
			letters = append(letters, o.want)
		}
		if len(letters) == 0 {
			delete(c.outbox, node)
			continue
		}
		o.sending, o.want, o.pages = true, nil, nil
		c.beside.Go(func() {
			var err error
			for _, l := range letters {
				if err = mail.Post(node, l); err != nil || ctx.Err() != nil {
					break
				}
			}
			c.later(ctx, func(time.Time) {
				o.sending = false
				if err != nil {
					c.o.Log.Debug("letter not sent", "node", node, "error", err)
					if lists { // it asks again
						o.pages = nil
						c.lister.Forget(node)
					}
				}
			})
		})
	}
}

// neighbours are the addresses at which other nodes may reach this one directly.
func (c *Carrying) neighbours() (out []moves.Neighbour) {
	for i := range c.links {
		l := &c.links[i]
		if !l.Up || l.Loopback || l.Slave || len(l.MAC) != 6 {
			continue
		}
		for _, p := range l.Prefixes {
			if a := p.Addr(); a.Is4() && !a.IsLoopback() || a.Is6() && a.IsLinkLocalUnicast() {
				out = append(out, moves.Neighbour{Addr: a.WithZone(""), MAC: [6]byte(l.MAC)})
			}
		}
	}
	return out
}

// linkOf is an interface by its name.
func (c *Carrying) linkOf(name string) *link.Link {
	i := slices.IndexFunc(c.links, func(l link.Link) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &c.links[i]
}

// from is an address of this node on an interface from which a neighbour can be asked, if they
// are on one segment as far as their addresses say.
func from(l *link.Link, to netip.Addr) (netip.Addr, bool) {
	for _, p := range l.Prefixes {
		a := p.Addr()
		switch {
		case a.Is4() != to.Is4():
		case a.Is4() && p.Masked().Contains(to), a.Is6() && a.IsLinkLocalUnicast() && to.IsLinkLocalUnicast():
			return a.WithZone(""), true
		}
	}
	return netip.Addr{}, false
}
