package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// home returns the pool from which s has address x: the one that s asks for, or
// the first of those that have x and are for s. It is nil if x is out of pool.
func (a *Allocator) home(s *service, x netip.Addr) *pool {
	only, ok := a.boundTo(s, x)
	if !ok {
		return nil
	}
	for _, p := range a.cover.pools(x) {
		if (only == nil || p == only) && p.houses(&s.req, x) {
			return p
		}
	}
	return nil
}

// boundTo returns the pool from which alone s may have x, nil if that may be any;
// ok is false if there is none.
func (a *Allocator) boundTo(s *service, x netip.Addr) (only *pool, ok bool) {
	r := &s.req
	if r.Pool == "" {
		return nil, true
	}
	only = a.resolve(r)
	switch {
	case r.Pool == s.granted:
		return only, only != nil
	case only == nil || !only.has(x):
		return nil, true // it has yet to move there
	}
	return only, true
}

// houses says whether x, which is in the pool's spans, may be from it for the
// Service of r.
func (p *pool) houses(r *lb.Request, x netip.Addr) bool {
	_, ok := p.numberOf(x)
	return ok && p.works() && slices.Contains(r.Dialects, p.Key.Dialect) && p.Admits(r)
}

// outOfPool says, after "which", why x is not from a pool any more.
func (a *Allocator) outOfPool(s *service, x netip.Addr) string {
	r := &s.req
	var asked *pool
	if r.Pool != "" {
		switch asked = a.resolve(r); {
		case asked == nil:
			return "is not in the requested pool " + strconv.Quote(r.Pool) + ", which does not exist"
		case !asked.has(x):
			return "is not in the requested pool " + asked.name
		}
	}
	unused := ""
	for _, p := range a.cover.pools(x) {
		if _, ok := p.numberOf(x); !ok || asked != nil && p != asked {
			continue
		}
		switch {
		case !slices.Contains(r.Dialects, p.Key.Dialect):
			unused = "is in pool " + p.name + ", which the Service's class does not use"
		case !p.works():
			return "is in a pool that hands out nothing: " + p.state()
		default:
			return "is in a pool that is no longer for this Service: " + p.notFor(r)
		}
	}
	for _, p := range a.pools {
		if !slices.Contains(r.Dialects, p.Key.Dialect) {
			continue
		}
		switch {
		case p.Contains(x):
			return "ends in .0 or .255, which pool " + p.name + " no longer hands out"
		case p.Excludes(x):
			return "is excluded from pool " + p.name
		}
	}
	if unused != "" {
		return unused
	}
	for _, p := range a.pools {
		if p.Invalid != nil && slices.Contains(r.Dialects, p.Key.Dialect) && p.Admits(r) {
			return "is in no pool that can be read: " + p.state()
		}
	}
	return "is in no pool any more"
}

// answer makes the verdict about s from what it has and what it lacks.
func (a *Allocator) answer(s *service, l lack) {
	var buffer [len(lb.Families)]netip.Addr
	addresses := buffer[:0]
	for _, f := range publishOrder(&s.req) {
		if s.has[f].IsValid() {
			addresses = append(addresses, s.has[f])
		}
	}
	var first, second *pool
	var node, out, outside []netip.Addr
	var owned netip.Addr // the first that is somebody else's, and what it is
	var owner string
	for _, x := range addresses {
		var p *pool
		leased := s.leased[lb.FamilyOf(x)]
		if leased {
			p = a.leasingPool(s, lb.FamilyOf(x))
		} else {
			p = a.home(s, x)
		}
		switch {
		case p == nil && leased:
		case p == nil && a.anywhere(s, x):
			outside = append(outside, x)
		case p == nil:
			out = append(out, x)
		case first == nil:
			first = p
		case p != first:
			second = p
		}
		if is, ok := a.owned[x]; ok && is.node != "" {
			node = append(node, x)
		} else if what := cmp.Or(a.owner(x), a.externalIPOf(x, s.req.Service)); what != "" && owner == "" {
			owned, owner = x, what
		}
	}
	if len(addresses) > 1 {
		if first == nil && s.pair == [...]netip.Addr{addresses[1], addresses[0]} || addresses[0].Is6() && (inSinglePool(first) || inSinglePool(second)) {
			slices.Reverse(addresses)
			slices.Reverse(out)
			if second != nil {
				first, second = second, first
			}
		}
		s.pair = [...]netip.Addr{addresses[0], addresses[1]}
	}

	v := lb.Verdict{Addresses: s.verdict.Addresses, DHCP: s.leased}
	if !slices.Equal(addresses, v.Addresses) {
		v.Addresses = slices.Clone(addresses)
	}
	switch {
	case second != nil:
		v.Pools = []lb.PoolKey{first.Key, second.Key}
	case first != nil:
		v.Pools = first.self
	}
	refused := s.refused
	s.refused = l.reason != nil
	switch {
	case l.reason != nil && l.reason.Ready(): // it goes on as it was
		v.Reason = *l.reason
	case l.reason != nil:
		v.Reason = l.reason.Keeping(v.Addresses)
	case len(node) > 0:
		v.Reason = lb.AddressIsNode.With(node[0], a.node(node[0])).Keeping(v.Addresses)
	case owner != "":
		v.Reason = lb.AddressOwned.Say(owned.String(), owner)
	case len(out) > 0:
		v.Reason = a.saysOutOfPool(s, out)
	case l.lease:
		v.Reason = lb.WaitingForLease.With(prose.Addrs(s.awaited())).Keeping(v.Addresses)
	case len(outside) > 0:
		v.Reason = lb.OutsidePools.Say(prose.Addrs(outside))
	case l.second:
		v.Reason = lb.SingleFamily.Say(prose.Addrs(v.Addresses), s.origin(first, second), a.noSecond(s, l.family))
	case !refused && s.verdict.Reason.Code == lb.Ready && sameButReason(&s.verdict, &v):
		v.Reason = s.verdict.Reason
	default:
		v.Reason = lb.Ready.Say(prose.Addrs(v.Addresses), s.origin(first, second))
	}
	a.conclude(s, v)
}

var ipv6First = [len(lb.Families)]lb.Family{lb.IPv6, lb.IPv4}

// publishOrder is the order of a verdict's addresses where they are of pools that
// are not SinglePool: that of the Service's families, then whatever else it keeps.
func publishOrder(r *lb.Request) []lb.Family {
	if len(r.Families) > 0 && r.Families[0] == lb.IPv6 {
		return ipv6First[:]
	}
	return lb.Families[:]
}

func sameButReason(v, w *lb.Verdict) bool {
	return slices.Equal(v.Addresses, w.Addresses) && slices.Equal(v.Pools, w.Pools) && v.DHCP == w.DHCP
}

// origin says from where s has its addresses.
func (s *service) origin(first, second *pool) string {
	const server = "a DHCP server"
	leased := s.leased[lb.IPv4] || s.leased[lb.IPv6]
	switch {
	case second != nil && leased:
		return "pools " + first.name + " and " + second.name + " and " + server
	case second != nil:
		return "pools " + first.name + " and " + second.name
	case first == nil:
		return server
	case leased:
		return "pool " + first.name + " and " + server
	}
	return "pool " + first.name
}

// awaited are the families of which a DHCP server has yet to give s an address.
func (s *service) awaited() (families []lb.Family) {
	for _, f := range publishOrder(&s.req) {
		if s.leased[f] && !s.has[f].IsValid() {
			families = append(families, f)
		}
	}
	return families
}

// saysOutOfPool tells of each address why it is out of pool, once if that is
// the same for all.
func (a *Allocator) saysOutOfPool(s *service, out []netip.Addr) lb.Reason {
	why := a.outOfPool(s, out[len(out)-1])
	if len(out) == 1 || a.outOfPool(s, out[0]) == why {
		if rest, ok := strings.CutPrefix(why, "is "); ok && len(out) > 1 {
			why = "are " + rest
		}
		return lb.OutOfPool.Say(prose.Addrs(out), why)
	}
	return lb.OutOfPool.Say(out[0].String()+", which "+a.outOfPool(s, out[0])+", and "+out[1].String(), why)
}
