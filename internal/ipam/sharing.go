package ipam

import (
	"iter"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/lb"
)

// offer makes address, which s holds now, known to Services that may join it.
func (a *Allocator) offer(s *service, address netip.Addr) {
	f := lb.FamilyOf(address)
	if !joinable(&s.req, f) {
		return
	}
	g := groupOf(&s.req, f)
	o := a.shared[g]
	if o == nil {
		o = &offers{inUse: map[lb.Port]*[len(lb.Families)]keys{}}
		a.shared[g] = o
	}
	o.add(address, s.req.Ports)
}

// unoffer is the inverse of offer; head is the first of the users that are left.
func (a *Allocator) unoffer(s *service, address netip.Addr, head *service) {
	f := lb.FamilyOf(address)
	if !joinable(&s.req, f) {
		return
	}
	g := groupOf(&s.req, f)
	last := head == nil
	if a.loners > 0 { // there may be others than those of the group
		last = true
		for u := range users(head, f) {
			last = last && !(joinable(&u.req, f) && groupOf(&u.req, f) == g)
		}
	}
	o := a.shared[g]
	o.leave(address, s.req.Ports, last)
	if o.empty() {
		delete(a.shared, g)
	}
}

// offers goes through the addresses of family f, from from on, that the group of
// s has and where there is room for its ports, the lowest first.
func (a *Allocator) offers(s *service, f lb.Family, from key) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		if !joinable(&s.req, f) {
			return
		}
		o := a.shared[groupOf(&s.req, f)]
		for more := o != nil; more; from, more = from.next() {
			if from, more = o.next(f, from, s.req.Ports); !more || !yield(from.addr(f)) {
				return
			}
		}
	}
}

// sharesLike says whether r and o ask for the same as far as their neighbours
// on an address are concerned.
func sharesLike(r, o *lb.Request) bool {
	if r.Alone != o.Alone || len(r.Ports) != len(o.Ports) {
		return false
	}
	for _, f := range lb.Families {
		if groupOf(r, f) != groupOf(o, f) {
			return false
		}
	}
	for i := range r.Ports {
		if r.Ports[i] != o.Ports[i] {
			return false
		}
	}
	return true
}

// conflict says why two Services cannot live on one address.
type conflict uint8

const (
	noConflict conflict = iota
	notShared
	otherKey
	otherBackends
	samePort
)

// conflictOf says why s and o cannot live on one address of family f, and the first
// port of s that is in the way. It looks at as many ports as the one with fewer has,
// and if there is a conflict at those of s.
func conflictOf(s, o *service, f lb.Family) (conflict, lb.Port) {
	switch g, h := groupOf(&s.req, f), groupOf(&o.req, f); {
	case g.key == "" || h.key == "":
		return notShared, lb.Port{}
	case g.key != h.key:
		return otherKey, lb.Port{}
	case g.backends != h.backends:
		return otherBackends, lb.Port{}
	}
	few, many := s, o
	if len(o.req.Ports) < len(s.req.Ports) {
		few, many = o, s
	}
	if !slices.ContainsFunc(few.req.Ports, many.uses) {
		return noConflict, lb.Port{}
	}
	return samePort, s.req.Ports[slices.IndexFunc(s.req.Ports, o.uses)]
}

// portSet has the ports of a Service that has more than fewPorts; of others it is nil.
type portSet map[lb.Port]struct{}

// fewPorts are found by going through them as fast as in a set, which takes memory.
const fewPorts = 8

func newPortSet(ports []lb.Port) portSet {
	if len(ports) <= fewPorts {
		return nil
	}
	out := make(portSet, len(ports))
	for _, p := range ports {
		out[p] = struct{}{}
	}
	return out
}

// uses says whether p is one of the ports of s.
func (s *service) uses(p lb.Port) bool {
	if s.ports == nil {
		return slices.Contains(s.req.Ports, p)
	}
	_, ok := s.ports[p]
	return ok
}

// fits says whether s, which is not there, can live on address with all who
// hold it.
func (a *Allocator) fits(s *service, address netip.Addr) bool {
	head := a.held[address]
	if head == nil {
		return true
	}
	if a.loners > 0 {
		return a.rival(s, address) == nil
	}
	f := lb.FamilyOf(address)
	g := groupOf(&s.req, f)
	return g.key != "" && groupOf(&head.req, f) == g && a.shared[g].room(address, s.req.Ports)
}

// rival returns the oldest holder of address with which s cannot live there.
func (a *Allocator) rival(s *service, address netip.Addr) (rival *service) {
	f := lb.FamilyOf(address)
	for u := range users(a.held[address], f) {
		if u == s || rival != nil && older(rival, u) {
			continue
		}
		if c, _ := conflictOf(s, u, f); c != noConflict {
			rival = u
		}
	}
	return rival
}

// exclusive returns the pool because of which address is never shared.
func (a *Allocator) exclusive(address netip.Addr) *pool {
	for _, p := range a.cover.pools(address) {
		if _, ok := p.numberOf(address); ok && p.Exclusive && p.works() {
			return p
		}
	}
	return nil
}

// loner returns a holder of address because of which s cannot come to share it.
func (a *Allocator) loner(s *service, address netip.Addr) *service {
	if a.loners == 0 {
		return nil
	}
	for u := range users(a.held[address], lb.FamilyOf(address)) {
		if u != s && (s.req.Alone || u.req.Alone || s.req.ShareAmong != u.req.ShareAmong) {
			return u
		}
	}
	return nil
}

// neverShared says whether s could share address with its holders, if the pool
// let it.
func (a *Allocator) neverShared(s *service, address netip.Addr) bool {
	return a.held[address] != nil && (a.exclusive(address) != nil || a.loner(s, address) != nil) && a.rival(s, address) == nil
}

// refusalToShare says why s cannot have address next to its holders, or
// nil if it can.
func (a *Allocator) refusalToShare(s *service, address netip.Addr) *lb.Reason {
	f := lb.FamilyOf(address)
	head := a.held[address]
	if head == s {
		head = s.next[f]
	}
	if head == nil {
		return nil
	}
	why := ""
	u := a.rival(s, address)
	if u != nil {
		c, port := conflictOf(s, u, f)
		if s.req.Alone || u.req.Alone { // whatever else is in the way
			c = notShared
		}
		switch c {
		case otherKey:
			why = "it has a different sharing key"
		case otherBackends:
			why = "it has a different traffic policy or, with externalTrafficPolicy Local, a different selector"
		case samePort:
			why = "port " + strings.ToLower(port.Protocol) + "/" + utoa(port.Number) + ` is already in use on "` + address.String() + `"`
		case noConflict, notShared:
			return a.inUse(s, address, u)
		}
	} else if p := a.exclusive(address); p != nil {
		u, why = head, "pool "+p.name+" does not let Services share an address"
	} else if u := a.loner(s, address); u != nil {
		return a.inUse(s, address, u)
	}
	if why == "" {
		return nil
	}
	r := lb.SharingConflict.With(address, u.req.Service, why)
	return &r
}

// inUse says that s cannot have address because u has it.
func (a *Allocator) inUse(s *service, address netip.Addr, u *service) *lb.Reason {
	r := lb.AddressInUse.With(address, u.req.Service, a.howToShare(&s.req))
	return &r
}

// reshare takes the request r for that of s while s holds addresses. Where it
// has neighbours with whom it no longer fits, it is s that loses the address.
func (a *Allocator) reshare(s *service, r *lb.Request) {
	was, charged := s.has, s.charged
	rank, noted := s.rank, s.noted
	s.charged = [len(lb.Families)]*pool{} // it may have the lease all the time
	for _, f := range lb.Families {
		a.release(s, f)
	}
	s.charged = charged
	a.count(s, r)
	s.asks(r)
	for _, f := range lb.Families {
		if was[f].IsValid() {
			if a.fits(s, was[f]) {
				a.take(s, was[f])
				s.rank[f], s.noted[f] = rank[f], noted[f]
			} else {
				a.refund(s, f)
				s.loses(was[f])
			}
			a.note(s, was[f])
		}
	}
}
