package ipam

import (
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// wanted returns the families of which the Service wants an address, in the
// order in which it publishes them.
func wanted(r *lb.Request) []lb.Family {
	switch {
	case len(r.Families) == 0: // of a Service that cannot be understood
		return lb.Families[:]
	case r.Policy == lb.SingleStack:
		return r.Families[:1]
	}
	return r.Families
}

func wants(r *lb.Request, f lb.Family) bool {
	for _, w := range wanted(r) {
		if w == f {
			return true
		}
	}
	return false
}

// evaluate decides about s from what it asks for, what it has and what is free.
// If nothing of that has changed since, nothing changes.
func (a *Allocator) evaluate(s *service) {
	a.unwait(s)
	was, charged := s.has, s.charged
	rank, noted := s.rank, s.noted
	a.evaluating = s
	for _, f := range lb.Families {
		if was[f].IsValid() {
			a.leave(s, was[f]) // unless it stays
		}
	}
	a.leaveClusterIPs(s)
	var lack lack
	if s.req.Invalid != nil {
		lack.reason = s.req.Invalid
	} else {
		granted := s.granted
		if lack = a.pursue(s); s.granted != granted || a.mayLease(s) {
			// From which pools it has what it has may be another matter now, or it
			// has left an address in whose place a DHCP server gives one.
			a.unwait(s)
			lack = a.pursue(s)
		}
	}
	a.evaluating = nil
	for _, f := range lb.Families {
		if slices.Contains(s.leaving, s.has[f]) {
			a.stays(s, s.has[f])
		}
	}
	s.lacking = lack.reason != nil || lack.second || lack.lease
	for _, f := range lb.Families {
		if p := charged[f]; p != nil && s.charged[f] != p {
			a.noteRefund(s.req.Service.Namespace, p)
		}
		if s.has[f] == was[f] { // be it that it left it and took it back
			s.rank[f], s.noted[f] = rank[f], noted[f]
			continue
		}
		if was[f].IsValid() {
			s.loses(was[f])
			a.note(s, was[f])
		}
		if s.has[f].IsValid() {
			a.note(s, s.has[f])
		}
	}
	a.answer(s, lack)
}

// lack is what a Service cannot have at present.
type lack struct {
	reason *lb.Reason // why it has not what it needs
	second bool       // or only: it prefers dual-stack, and
	family lb.Family  // has no address of this family
	lease  bool       // or only: it waits for a DHCP server
}

// pursue gets s what it asks for and has not: what DHCP servers gave it; then the
// addresses that it names, all of them or none, without which it leaves none for a
// DHCP server's either; then one of each family that is still missing.
func (a *Allocator) pursue(s *service) lack {
	r, was, leased := &s.req, s.has, s.leased
	var waits lack
	none := [len(lb.Families)]bool{}
	leasing := a.leasing || r.DHCP != none || s.leased != none
	if leasing {
		waits = a.takeLeased(s, len(r.Addresses) == 0)
	}
	if len(r.Addresses) > 0 {
		if reason := a.takeNamed(s); reason != nil {
			return lack{reason: reason}
		}
		if leasing {
			waits = a.takeLeased(s, true)
		}
	}
	moved := s.has != was
	for _, f := range lb.Families {
		if leased[f] && !s.has[f].IsValid() {
			was[f] = netip.Addr{} // the DHCP server has taken it back
		}
	}
	var missing [len(lb.Families)]lb.Family
	n := 0
	for _, f := range wanted(r) {
		if s.leased[f] {
			continue
		}
		if !s.has[f].IsValid() || a.mustMove(s, f) || moved && a.strays(s, f) {
			missing[n] = f
			n++
		}
	}
	if n == 0 {
		s.granted = r.Pool
		return waits
	}
	l := a.takeAny(s, missing[:n], was)
	if l.reason == nil {
		l.reason = waits.reason
	}
	l.lease = waits.lease
	return l
}

// takeNamed gives s the addresses that it asks for, or says why not.
func (a *Allocator) takeNamed(s *service) *lb.Reason {
	if reason := mismatch(&s.req); reason != nil {
		return reason
	}
	was := s.has
	for _, x := range s.req.Addresses {
		f := lb.FamilyOf(x)
		if s.has[f] == x {
			continue
		}
		a.release(s, f)
		if reason := a.refusal(s, x); reason != nil {
			a.awaitNamed(s, x)
			a.restore(s, was)
			return reason
		}
		a.take(s, x)
	}
	if s.has != was && len(s.req.Addresses) > 1 && !a.compatible(s, s.has[lb.IPv4], s.has[lb.IPv6]) {
		reason := refusalOfBoth(&s.req)
		a.restore(s, was)
		return &reason
	}
	return nil
}

// strays says whether the Service cannot keep its address of family f beside the
// other, which it has come to ask for.
func (a *Allocator) strays(s *service, f lb.Family) bool {
	return !slices.Contains(s.req.Addresses, s.has[f]) && !a.compatible(s, s.has[lb.IPv4], s.has[lb.IPv6])
}

// mismatch says if the addresses asked for are not of the Service's families,
// or two of them of one.
func mismatch(r *lb.Request) *lb.Reason {
	var seen [len(lb.Families)]bool
	for _, x := range r.Addresses {
		f := lb.FamilyOf(x)
		if seen[f] || !wants(r, f) {
			reason := lb.FamilyMismatch.With(prose.Commas(r.Addresses), prose.Addrs(wanted(r)))
			return &reason
		}
		seen[f] = true
	}
	return nil
}

// mustMove says whether the Service gives up its address of family f if it can
// have another: it asks for another pool now, or for a move out of no pool.
func (a *Allocator) mustMove(s *service, f lb.Family) bool {
	r, has := &s.req, s.has[f]
	if slices.Contains(r.Addresses, has) {
		return false
	}
	if r.Pool != s.granted && r.Pool != "" {
		if p := a.resolve(r); p == nil || !p.has(has) {
			return true
		}
	}
	if r.Reallocate {
		return a.node(has) != "" || a.owner(has) != "" || a.home(s, has) == nil
	}
	return false
}

// takeAny gives s any address of each missing family. was is what it had
// before anything was taken for it.
func (a *Allocator) takeAny(s *service, missing []lb.Family, was [len(lb.Families)]netip.Addr) (l lack) {
	r := &s.req
	old := s.has
	for _, f := range missing {
		a.release(s, f)
	}
	a.scratch = a.candidates(s, a.scratch[:0])
	pair := a.needsPair(s, missing, old, a.scratch)
	a.fill(s, missing, a.scratch, pair)
	if pair && !s.hasAll(lb.Families[:]) {
		reason := a.awaitPair(s)
		l.reason = &reason
	}
	none := was == [len(lb.Families)]netip.Addr{}
	var keeps [len(lb.Families)]bool
	moving := false
	for _, f := range missing {
		if s.has[f].IsValid() {
			continue
		}
		other := s.has[1-f]
		keeps[f] = old[f].IsValid() && (other == was[1-f] || a.compatible(s, old[f], other))
		switch {
		case keeps[f]:
			moving = true
		case r.Policy == lb.PreferDualStack && len(wanted(r)) > 1 && hasOther(s, old, f):
			a.awaitAny(s, f)
			l.second, l.family = true, f
			continue
		}
		if pair {
			continue
		}
		reason := a.awaitAny(s, f)
		if l.reason == nil {
			l.reason = &reason
		}
		if r.Policy == lb.RequireDualStack && (none || was[f].IsValid() && !keeps[f]) {
			if reason.Code == lb.QuotaExceeded {
				// Perhaps only because the other address is from the same pool.
				for _, g := range missing {
					a.awaitAny(s, g)
				}
			}
			a.awaitReturned(s, was)
			a.restore(s, was)
			return l
		}
	}
	for _, f := range missing {
		if keeps[f] {
			a.take(s, old[f])
		}
	}
	if !moving {
		s.granted = r.Pool
	}
	return l
}

// awaitReturned lets s wait for changes on the addresses that it was given for itself, and gives
// back for was: if others take them, it lacks something else.
func (a *Allocator) awaitReturned(s *service, was [len(lb.Families)]netip.Addr) {
	for f, x := range s.has {
		if x != was[f] && (s.leased[f] || slices.Contains(s.req.Addresses, x)) {
			a.await(s, queueIn(a.waitAddress, x))
		}
	}
}

// needsPair says whether s takes two addresses of one source or nothing: both
// are missing, or it may leave what it has for them.
func (a *Allocator) needsPair(s *service, missing []lb.Family, old [len(lb.Families)]netip.Addr, pools []*pool) bool {
	r := &s.req
	if len(wanted(r)) < 2 || s.leased[lb.IPv4] || s.leased[lb.IPv6] || !a.mixed(s, pools) {
		return false
	}
	if len(missing) > 1 {
		return r.Policy == lb.RequireDualStack
	}
	f := missing[0]
	return (r.Policy == lb.RequireDualStack || old[f].IsValid()) && !slices.Contains(r.Addresses, s.has[1-f])
}

// hasOther says whether s has, or keeps, an address of the family that is not f.
func hasOther(s *service, old [len(lb.Families)]netip.Addr, f lb.Family) bool {
	for _, g := range lb.Families {
		if g != f && (s.has[g].IsValid() || old[g].IsValid()) {
			return true
		}
	}
	return false
}
