package ipam

import (
	"cmp"
	"net/netip"
	"slices"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// Contest is an address that two Services published and cannot share.
type Contest struct {
	Address       netip.Addr
	Winner, Loser types.NamespacedName
}

// Contests returns the contests since the last call.
func (a *Allocator) Contests() []Contest {
	c := a.contests
	a.contests = nil
	return c
}

// imported is what a Service published before anything was decided.
type imported struct {
	service   *service
	published []netip.Addr
}

// importEntry imports the Service of r, or its extra for x if x is valid.
func (a *Allocator) importEntry(r lb.Request, x netip.Addr, published []netip.Addr) {
	s := a.enter(&r, x)
	a.imports = append(a.imports, imported{s, slices.Clone(published)})
}

// SettleAll decides about everything that was imported, oldest first, after
// all of it has what it publishes. It returns the Services whose verdict
// changed; those without one before are among them.
func (a *Allocator) SettleAll() (changed []types.NamespacedName) {
	a.claimImports()
	todo := a.unsettled
	a.unsettled = nil
	slices.SortFunc(todo, byAge)
	a.wake(todo)
	return a.finish(nil)
}

// claimImports gives the imported Services what they publish, those with the best
// evidence first, then the oldest: of two that cannot share, that one has it
// whatever came first.
func (a *Allocator) claimImports() { a.claimImportsUpTo(lb.Asserted) }

// claimImportsUpTo is claimImports for those whose evidence is that, or better.
func (a *Allocator) claimImportsUpTo(worst lb.Evidence) {
	if len(a.imports) == 0 {
		return
	}
	slices.SortStableFunc(a.imports, func(i, j imported) int {
		return cmp.Or(cmp.Compare(i.service.req.Evidence, j.service.req.Evidence), byAge(i.service, j.service))
	})
	for len(a.imports) > 0 && a.imports[0].service.req.Evidence <= worst {
		i := a.imports[0]
		a.imports = a.imports[1:]
		if !i.service.gone {
			a.adoptPublished(i.service, i.published)
			a.unsettled = append(a.unsettled, i.service)
		}
	}
}

// adoptPublished takes the addresses that s publishes into account. At first sight
// nothing else is known about s; later, another active controller may have written
// them. It says whether s publishes addresses that it does not hold.
func (a *Allocator) adoptPublished(s *service, published []netip.Addr) (others bool) {
	a.leaveUnwanted(s)
	s.lost = slices.DeleteFunc(s.lost, func(x netip.Addr) bool { return !slices.Contains(published, x) })
	had := s.has
	for _, f := range wanted(&s.req) {
		if s.has[f].IsValid() && slices.Contains(published, s.has[f]) {
			s.proves(f)
			others = others || slices.ContainsFunc(published, func(p netip.Addr) bool {
				return p != s.has[f] && lb.FamilyOf(p) == f
			})
			continue
		}
		with := a.partner(s, f, published)
		for _, p := range published {
			if !p.IsValid() || lb.FamilyOf(p) != f || a.unusable(p) {
				continue
			}
			if s.req.Evidence == lb.Asserted && !s.has[f].IsValid() && (a.disagrees(s, p) || !a.compatible(s, p, with)) {
				others = true // it does not get by its own words what it would not get by asking
				continue
			}
			if s.has[f].IsValid() {
				if !slices.Contains(s.lost, p) && a.adopt(s, p, with) {
					break
				}
				others = true
				continue
			}
			if s.settled && (a.disagrees(s, p) || !a.compatible(s, p, with) || a.neverShared(s, p)) {
				others = true
				continue
			}
			if a.claim(s, p) {
				break
			}
			others = true
		}
	}
	if !s.settled {
		if four, six := slices.Index(published, s.has[lb.IPv4]), slices.Index(published, s.has[lb.IPv6]); four >= 0 && six >= 0 {
			s.pair = [...]netip.Addr{published[min(four, six)], published[max(four, six)]}
		}
	} else if s.has != had {
		a.leaveApart(s, published)
	}
	return others
}

// unusable says whether no Service can have p.
func (a *Allocator) unusable(p netip.Addr) bool {
	_, is := a.clusterIPs[p]
	return is || lb.Unusable(netipx.IPRangeFrom(p, p), lb.LinkLocal) != ""
}

// partner returns the address beside which s would have another of family f: the
// one that it has, unless what is published is to replace both.
func (a *Allocator) partner(s *service, f lb.Family, published []netip.Addr) netip.Addr {
	x := s.has[1-f]
	if !a.hasSinglePools || !x.IsValid() || slices.Contains(published, x) {
		return x
	}
	for _, p := range published {
		if p.IsValid() && lb.FamilyOf(p) == 1-f && !slices.Contains(s.lost, p) && !a.disagrees(s, p) {
			return netip.Addr{}
		}
	}
	return x
}

// leaveApart gives back the address that s cannot keep beside the other, which is
// published.
func (a *Allocator) leaveApart(s *service, published []netip.Addr) {
	if a.compatible(s, s.has[lb.IPv4], s.has[lb.IPv6]) {
		return
	}
	for _, f := range lb.Families {
		if was := s.has[f]; !slices.Contains(published, was) {
			a.release(s, f)
			s.loses(was)
			a.note(s, was)
		}
	}
}

// leaveUnwanted gives back the addresses of families that s does not want.
func (a *Allocator) leaveUnwanted(s *service) {
	if s.req.Invalid != nil {
		return
	}
	for _, f := range lb.Families {
		if was := s.has[f]; was.IsValid() && !wants(&s.req, f) {
			a.leave(s, was)
			a.release(s, f)
			s.loses(was)
			a.note(s, was)
		}
	}
}

// disagrees says whether p is not what the Service asks for, or not for it.
func (a *Allocator) disagrees(s *service, p netip.Addr) bool {
	if s.req.Invalid != nil {
		return true
	}
	for _, x := range s.req.Addresses {
		if lb.FamilyOf(x) == lb.FamilyOf(p) && x != p {
			return true
		}
	}
	if a.leases(s, lb.FamilyOf(p)) {
		return !slices.Contains(s.req.Leased, p)
	}
	return a.refusalOfPools(s, p) != nil
}

// adopt replaces the address that s has by p, if p is for it, goes with its other
// address and no older Service has it. Both of two active controllers follow this rule, whatever they
// remember: what is published for the oldest Service is settled then, and next
// that of the second oldest, so that they come to rest.
func (a *Allocator) adopt(s *service, p, with netip.Addr) bool {
	f := lb.FamilyOf(p)
	was := s.has
	a.release(s, f)
	if a.disagrees(s, p) || !a.compatible(s, p, with) || a.neverShared(s, p) || !a.claim(s, p) {
		a.restore(s, was)
		return false
	}
	// was is not noted as lost: the other controller may give it back.
	a.note(s, was[f])
	return true
}

// claim gives p to s because s publishes it. Of Services that cannot share it, the one
// with the better evidence has it, then the older one; the others look for another
// at once. What is only asserted never takes an address from anybody.
func (a *Allocator) claim(s *service, p netip.Addr) bool {
	f := lb.FamilyOf(p)
	for {
		rival := a.rival(s, p)
		if rival == nil {
			break
		}
		if slices.Contains(s.lost, p) {
			return false // its status is only behind
		}
		mine, theirs := s.req.Evidence, rival.rank[f]
		if theirs < mine || theirs == mine && rival.precedes(s, f) {
			s.loses(p)
			if theirs == mine || mine != lb.Asserted { // else everybody could trouble others with events
				a.contests = append(a.contests, Contest{p, rival.req.Service, s.req.Service})
			}
			return false
		}
		if theirs == mine || theirs != lb.Asserted {
			a.contests = append(a.contests, Contest{p, s.req.Service, rival.req.Service})
		}
		a.release(rival, f)
		rival.loses(p)
		a.note(rival, p)
		if rival.settled {
			a.evicted = append(a.evicted, rival)
		}
	}
	// It may no longer be assigned by DHCP.
	s.leased[f] = s.leased[f] && a.leases(s, f)
	a.take(s, p)
	s.rank[f], s.noted[f] = s.req.Evidence, noted(&s.req)
	a.note(s, p)
	return true
}

// precedes says whether s, which has an address of family f, keeps it if t claims it
// with equal evidence. A note that a tenant may have kept, and put back, says what was
// so once: what was written later, or cannot be put back, wins. Else the older Service
// keeps it. What is only asserted takes nothing from anybody.
func (s *service) precedes(t *service, f lb.Family) bool {
	has, claims := s.noted[f], noted(&t.req)
	switch {
	case t.req.Evidence == lb.Asserted:
		return true
	case has == claims:
		return older(s, t)
	case has == 0 || claims == 0:
		return has == 0
	}
	return has > claims
}

// noted is when the evidence of r was written, 0 if that does not matter.
func noted(r *lb.Request) int64 {
	if r.Noted.IsZero() {
		return 0
	}
	return r.Noted.UnixMilli()
}

// proves notes the evidence for the address of family f that s has, and publishes.
func (s *service) proves(f lb.Family) {
	if s.req.Evidence <= s.rank[f] {
		s.rank[f], s.noted[f] = s.req.Evidence, noted(&s.req)
	}
}
