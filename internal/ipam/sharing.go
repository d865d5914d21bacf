package ipam

import (
	"iter"
	"net/netip"
	"strings"

	"github.com/google/btree"

	"fairlead.io/internal/lb"
)

// group is what all Services on one address have in common.
type group struct{ key, backends string }

func groupOf(r *lb.Request) group { return group{r.ShareKey, r.Backends} }

// addresses is an ordered set of the addresses of one group.
type addresses struct{ tree *btree.BTreeG[netip.Addr] }

// offer makes address, which s holds now, known to those who may join it.
func (a *Allocator) offer(s *service, address netip.Addr) {
	if s.req.ShareKey == "" {
		return
	}
	g := groupOf(&s.req)
	o, ok := a.shared[g]
	if !ok {
		o = addresses{btree.NewG(32, netip.Addr.Less)}
		a.shared[g] = o
	}
	o.tree.ReplaceOrInsert(address)
}

// unoffer is the inverse of offer, for the last user of address.
func (a *Allocator) unoffer(s *service, address netip.Addr) {
	if s.req.ShareKey == "" {
		return
	}
	g := groupOf(&s.req)
	o := a.shared[g]
	o.tree.Delete(address)
	if o.tree.Len() == 0 {
		delete(a.shared, g)
	}
}

// offers goes through the addresses of family f of the group of s, the lowest
// first.
func (a *Allocator) offers(s *service, f lb.Family) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		if o, ok := a.shared[groupOf(&s.req)]; ok && s.req.ShareKey != "" {
			o.tree.AscendGreaterOrEqual(lowest[f], func(x netip.Addr) bool { return lb.FamilyOf(x) == f && yield(x) })
		}
	}
}

// lowest addresses of each family; netip sorts IPv4 before IPv6.
var lowest = [len(lb.Families)]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}

// sharesLike says whether r and o ask for the same as far as their neighbours
// on an address are concerned.
func sharesLike(r, o *lb.Request) bool {
	if groupOf(r) != groupOf(o) || len(r.Ports) != len(o.Ports) {
		return false
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

func conflictOf(r, o *lb.Request) (conflict, lb.Port) {
	switch {
	case r.ShareKey == "" || o.ShareKey == "":
		return notShared, lb.Port{}
	case r.ShareKey != o.ShareKey:
		return otherKey, lb.Port{}
	case r.Backends != o.Backends:
		return otherBackends, lb.Port{}
	}
	for _, p := range r.Ports {
		for _, q := range o.Ports {
			if p == q {
				return samePort, p
			}
		}
	}
	return noConflict, lb.Port{}
}

// fits says whether s can live on address with all who hold it.
func (a *Allocator) fits(s *service, address netip.Addr) bool {
	f := lb.FamilyOf(address)
	for u := a.held[address]; u != nil; u = u.next[f] {
		if u == s {
			continue
		}
		if c, _ := conflictOf(&s.req, &u.req); c != noConflict {
			return false
		}
	}
	return true
}

// rival returns the oldest holder of address with which s cannot live there.
func (a *Allocator) rival(s *service, address netip.Addr) (rival *service) {
	for u := range users(a.held[address], lb.FamilyOf(address)) {
		if u == s || rival != nil && older(rival, u) {
			continue
		}
		if c, _ := conflictOf(&s.req, &u.req); c != noConflict {
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

// neverShared says whether s could share address with its holders, if the pool
// let it.
func (a *Allocator) neverShared(s *service, address netip.Addr) bool {
	return a.held[address] != nil && a.exclusive(address) != nil && a.rival(s, address) == nil
}

// refusalToShare says why s cannot have address next to those who hold it, or
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
		switch c, port := conflictOf(&s.req, &u.req); c {
		case otherKey:
			why = "it has another sharing key"
		case otherBackends:
			why = "it has another traffic policy or, with externalTrafficPolicy Local, another selector"
		case samePort:
			why = "port " + strings.ToLower(port.Protocol) + "/" + utoa(port.Number) + ` is already in use on "` + address.String() + `"`
		case noConflict, notShared:
			r := lb.AddressInUse.With(address, u.req.Service)
			return &r
		}
	} else if p := a.exclusive(address); p != nil {
		u, why = head, "pool "+p.name+" does not let Services share an address"
	}
	if why == "" {
		return nil
	}
	r := lb.SharingConflict.With(address, u.req.Service, why)
	return &r
}

// reshare takes the request r for that of s while s holds addresses. Where it
// has neighbours with whom it no longer fits, it is s that loses the address.
func (a *Allocator) reshare(s *service, r *lb.Request) {
	was := s.has
	for _, f := range lb.Families {
		a.release(s, f)
	}
	s.req = *r
	for _, f := range lb.Families {
		if was[f].IsValid() {
			if a.fits(s, was[f]) {
				a.take(s, was[f])
			} else {
				s.lost[f] = was[f]
			}
			a.note(s, was[f])
		}
	}
}
