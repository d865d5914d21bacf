package cloudsigma

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudsigma"
	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
)

// cardError is a change of cards that failed.
type cardError struct {
	addresses []netip.Addr
	server    string
	cause     error
}

func (e *cardError) Error() string { return e.cause.Error() }
func (e *cardError) Unwrap() error { return e.cause }

// apply does the steps of a plan in their order: those that follow each other and are
// of one kind together. The first failure ends it.
func (b *Backend) apply(ctx context.Context, w *lb.Want, seen *observation, out *lb.Outcome) (done int, err error) {
	was := map[netip.Addr][]string{}
	for _, p := range seen.desired.Placed {
		was[p.Address] = seen.account.attached(p.Address)
	}
	for rest := out.Plan.Steps; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(s lb.Step) bool { return s.Kind != rest[0].Kind })
		if n < 0 {
			n = len(rest)
		}
		if rest[0].Kind == kindTag {
			err = b.tag(ctx, w, seen, rest[:n])
		} else {
			err = b.cards(ctx, seen, rest[:n])
		}
		if err != nil {
			b.forget()
			return done, err
		}
		done += n
		rest = rest[n:]
	}
	b.report(w, seen, out, was)
	return done, nil
}

// tag writes tags, reads them back, and looks whether another cluster has claimed one
// of the addresses meanwhile.
func (b *Backend) tag(ctx context.Context, w *lb.Want, seen *observation, steps []lb.Step) error {
	byName := map[string]*cloudsigma.TagChange{}
	var changes []*cloudsigma.TagChange
	for _, s := range steps {
		c := byName[s.Name]
		if c == nil {
			c = &cloudsigma.TagChange{Name: s.Name, DeleteEmpty: compat.IsServiceTag(s.Name), Claims: s.Name == seen.desired.Cluster}
			byName[s.Name], changes = c, append(changes, c)
		}
		addr := s.Body.(netip.Addr).String()
		if s.Verb == lb.VerbAssign {
			c.Add = append(c.Add, addr)
		} else {
			c.Remove = append(c.Remove, addr)
		}
	}
	all := make([]cloudsigma.TagChange, len(changes))
	for i, c := range changes {
		all[i] = *c
	}
	tags, err := b.client.Tags.Change(ctx, all...)
	if err != nil {
		return err
	}
	seen.account.setTags(tags)
	for _, p := range seen.desired.Placed {
		if !seen.desired.Published[p.Address] && len(seen.account.others(p.Address, b.cluster)) > 0 {
			return errContested
		}
	}
	return nil
}

// cards removes cards, then makes others, all of a server at once.
func (b *Backend) cards(ctx context.Context, seen *observation, steps []lb.Step) error {
	b.mu.Lock()
	for _, s := range steps {
		if s.Verb == lb.VerbCreate {
			b.attached[s.Body.(netip.Addr)] = true
		}
	}
	b.mu.Unlock()
	remove, make := cardChanges(steps, lb.VerbDelete), cardChanges(steps, lb.VerbCreate)
	if len(remove) == 1 && len(make) == 1 {
		from, to := remove[0], make[0]
		now, err := b.client.Servers.Move(ctx, from.server, from.edit, to.server, to.edit)
		failed, _ := errors.AsType[*cloudsigma.MoveError](err)
		switch {
		case err == nil:
			for _, s := range b.client.Servers.Peek() {
				if s.UUID == from.server {
					b.carded(seen, &from, &s)
				}
			}
			b.carded(seen, &to, now)
			return nil
		case failed.Server == to.server:
			return &cardError{to.addresses, nameOf(seen.account, to.server), failed.Err}
		case !cloud.IsNotFound(err):
			return &cardError{from.addresses, nameOf(seen.account, from.server), failed.Err}
		}
	}
	for _, c := range slices.Concat(remove, make) {
		now, err := b.client.Servers.Change(ctx, c.server, c.edit)
		if !c.attach && cloud.IsNotFound(err) {
			// The server is gone, and its cards with it, unless its addresses say otherwise.
			err = b.gone(ctx, c.server, c.addresses)
		}
		if err != nil {
			return &cardError{c.addresses, nameOf(seen.account, c.server), err}
		}
		b.carded(seen, &c, now)
	}
	return nil
}

// cardChange is what happens to the cards of one server.
type cardChange struct {
	server    string
	attach    bool
	addresses []netip.Addr
}

// cardChanges are the steps of one verb, by server.
func cardChanges(steps []lb.Step, verb lb.Verb) (out []cardChange) {
	for _, s := range steps {
		if s.Verb != verb {
			continue
		}
		i := slices.IndexFunc(out, func(c cardChange) bool { return c.server == s.ID })
		if i < 0 {
			i, out = len(out), append(out, cardChange{server: s.ID, attach: verb == lb.VerbCreate})
		}
		out[i].addresses = append(out[i].addresses, s.Body.(netip.Addr))
	}
	return out
}

func (c *cardChange) edit(s *cloudsigma.Server) error {
	for _, addr := range c.addresses {
		if c.attach {
			s.Attach(addr)
		} else {
			s.Detach(addr)
		}
	}
	return nil
}

// carded notes what was done to cards; the server is nil if it is gone.
func (b *Backend) carded(seen *observation, c *cardChange, now *cloudsigma.Server) {
	if now == nil {
		delete(seen.account.servers, c.server)
	} else {
		seen.account.servers[c.server] = *now
	}
	for _, addr := range c.addresses {
		b.client.IPs.Edit(addr.String(), func(ip *cloudsigma.IP) {
			if ip.Server = nil; c.attach {
				ip.Server = &cloudsigma.Ref{UUID: c.server}
			}
		})
	}
}

// gone is nil if no address is on a server that was not found.
func (b *Backend) gone(ctx context.Context, server string, addresses []netip.Addr) error {
	for _, addr := range addresses {
		ip, err := b.client.IPs.Get(ctx, addr.String())
		switch {
		case cloud.IsNotFound(err):
		case err != nil:
			return err
		case ip.Server != nil && ip.Server.UUID == server:
			return fmt.Errorf("server %s was not found, but address %s is still on it", server, addr)
		}
	}
	return nil
}

// report logs what was done, and tells it in events.
func (b *Backend) report(w *lb.Want, seen *observation, out *lb.Outcome, was map[netip.Addr][]string) {
	b.mu.Lock()
	m := b.memos[w.Service.UID]
	first := m != nil && !m.known
	if m != nil {
		m.known, m.failures = true, 0
	}
	for _, addr := range seen.desired.Free {
		delete(b.chosen, addr)
	}
	for _, addr := range slices.Concat(seen.desired.Free, seen.desired.Yield) {
		delete(b.attached, addr)
	}
	b.mu.Unlock()
	service := w.Service.Key.String()
	for _, p := range seen.desired.Placed {
		log := b.log.With("address", p.Address.String(), "service", service, "node", p.Node)
		moved := p.Why == "" && p.Server != "" && !slices.Contains(was[p.Address], p.Server)
		before := w.Service.Carriers[p.Address]
		switch published := seen.desired.Published[p.Address]; {
		case moved && len(was[p.Address]) > 0:
			from := was[p.Address][0]
			out.Tell = append(out.Tell, Reasons.With(AddressMoved, p.Address, "server "+nameOf(seen.account, from), p.Node, whyNot(seen.nodes, from)))
			log.Info("Attached address", "from", nameOf(seen.account, from))
		case moved:
			out.Tell = append(out.Tell, Reasons.With(AddressAttached, p.Address, p.Node))
			log.Info("Attached address")
			if !published {
				log.Info("Assigned address")
			}
		case !published:
			log.Info("Assigned address")
		case b.pods != nil && p.Why == "" && p.Server == "" && len(before) == 1 && before[0] != p.Node && before[0] != lb.AnyNode:
			out.Tell = append(out.Tell, Reasons.With(AddressMoved, p.Address, "node "+before[0], p.Node, whyNotNode(seen.nodes, before[0])))
			log.Info("Moved address", "from", before[0])
		case first:
			log.Info("Recovered address")
		}
	}
	for _, addr := range seen.desired.Free {
		b.log.Info("Released address", "address", addr.String(), "service", service)
	}
}

// whyNotNode says why a node does not carry an address any more.
func whyNotNode(nodes []candidate, name string) string {
	for _, c := range nodes {
		if c.node.Name == name {
			return whyNotCandidate(&c)
		}
	}
	return "the node is gone"
}

func whyNotCandidate(c *candidate) string {
	if c.obstacle != "" {
		return c.obstacle
	}
	return "it is on the other node as well"
}

// whyNot says why a server does not carry an address any more.
func whyNot(nodes []candidate, server string) string {
	for _, c := range nodes {
		if c.server != nil && c.server.UUID == server {
			return whyNotCandidate(&c)
		}
	}
	return "it is no node of this cluster"
}
