package ipam

import (
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
)

// Of some families a Service has its address from a DHCP server of the LAN: it
// asks for that, or its pools have no addresses of the family and one of them
// stands for the server. What the server gave is told with the request. It is
// held like any other, so that nobody else gets it, but it is of no pool.

// leases says whether the address of s of family f is assigned by DHCP.
// A Service that has one of another origin keeps it.
func (a *Allocator) leases(s *service, f lb.Family) bool {
	r := &s.req
	named := slices.ContainsFunc(r.Addresses, func(x netip.Addr) bool { return lb.FamilyOf(x) == f })
	switch {
	case !wants(r, f) || r.Invalid != nil:
		return false
	case named:
		return false
	case r.DHCP[f]:
		return true
	case s.has[f].IsValid():
		return s.leased[f]
	}
	return a.leasingPool(s, f) != nil
}

// mayLease says whether s has come to lack an address that is assigned by DHCP.
func (a *Allocator) mayLease(s *service) bool {
	if !a.leasing {
		return false
	}
	for _, f := range wanted(&s.req) {
		if !s.has[f].IsValid() && !s.leased[f] && a.leases(s, f) {
			return true
		}
	}
	return false
}

// leasingPool returns the pool that stands for a DHCP server for s, or nil if
// there is none or others have addresses of family f.
func (a *Allocator) leasingPool(s *service, f lb.Family) (found *pool) {
	if !a.leasing {
		return nil
	}
	for _, p := range a.candidates(s, nil) {
		switch {
		case p.total[f] > 0:
			return nil
		case p.DHCP[f] && found == nil:
			found = p
		}
	}
	return found
}

// takeLeased gives s what DHCP servers gave it, and says what it waits for. If it
// moves, it leaves an address of another origin for that.
func (a *Allocator) takeLeased(s *service, moves bool) (l lack) {
	for _, f := range lb.Families {
		if s.has[f].IsValid() && !s.leased[f] && !moves {
			continue
		}
		if s.leased[f] = a.leases(s, f); !s.leased[f] {
			a.refund(s, f)
			continue
		}
		var x netip.Addr
		if i := slices.IndexFunc(s.req.Leased, func(y netip.Addr) bool { return lb.FamilyOf(y) == f }); i >= 0 {
			x = s.req.Leased[i]
		}
		if s.has[f] == x && x.IsValid() {
			a.charge(s, f, x)
			continue
		}
		a.release(s, f)
		if !x.IsValid() {
			// One that only kept what it had is not to wait for another lease.
			s.leased[f] = a.leases(s, f)
			l.lease = l.lease || s.leased[f]
			continue
		}
		if reason := a.refusalOfOwner(x); reason != nil {
			a.awaitNamed(s, x)
			l.reason = reason
			continue
		}
		if reason := a.refusalToShare(s, x); reason != nil {
			a.awaitNamed(s, x)
			l.reason = reason
			continue
		}
		if p := a.leaseQuota(s, f); p != nil && !a.within(p, s, x) {
			a.await(s, p.quotaQueue(s.req.Service.Namespace))
			reason := p.overQuota(&s.req)
			l.reason = &reason
			continue
		}
		a.take(s, x)
		a.charge(s, f, x)
	}
	return l
}

// leaseQuota is the pool whose quota counts the address of family f that a DHCP server
// gives s: the one that stands for the server, else the first that could give s an
// address and has a quota. It is nil if there is none.
func (a *Allocator) leaseQuota(s *service, f lb.Family) *pool {
	if !a.quotas {
		return nil
	}
	if p := a.leasingPool(s, f); p != nil {
		if p.Quota == 0 {
			return nil
		}
		return p
	}
	for _, p := range a.candidates(s, nil) {
		if p.Quota != 0 {
			return p
		}
	}
	return nil
}

// charge counts the lease x of s in the quota of its namespace, once. A pool that has x
// itself counts it anyway.
func (a *Allocator) charge(s *service, f lb.Family, x netip.Addr) {
	if s.charged[f] != nil {
		return
	}
	if p := a.leaseQuota(s, f); p != nil && !p.has(x) {
		p.perNamespace[s.req.Service.Namespace]++
		s.charged[f] = p
	}
}

// refund is the inverse of charge. Others of the namespace may have waited for that;
// evaluate tells them at its end, because it may take the lease again.
func (a *Allocator) refund(s *service, f lb.Family) {
	p, namespace := s.charged[f], s.req.Service.Namespace
	if p == nil {
		return
	}
	s.charged[f] = nil
	if p.perNamespace[namespace]--; p.perNamespace[namespace] == 0 {
		delete(p.perNamespace, namespace)
	}
	if a.evaluating != s {
		a.noteRefund(namespace, p)
	}
}

func (a *Allocator) noteRefund(namespace string, p *pool) {
	a.changes++
	a.notes = append(a.notes, note{namespace: namespace, pool: p})
}
