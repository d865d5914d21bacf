package ipam

import (
	"net/netip"
	"slices"
	"strconv"

	"fairlead.io/internal/lb"
)

// refusal says why s cannot have address x, which it does not hold, or nil if
// it can.
func (a *Allocator) refusal(s *service, x netip.Addr) *lb.Reason {
	if reason := a.refusalOfPools(s, x); reason != nil {
		return reason
	}
	if reason := a.refusalOfLeaver(s, x); reason != nil {
		return reason
	}
	return a.refusalToShare(s, x)
}

// refusalOfPools is refusal, whoever holds x.
func (a *Allocator) refusalOfPools(s *service, x netip.Addr) *lb.Reason {
	r := &s.req
	if reason := a.refusalOfOwner(x); reason != nil {
		return reason
	}
	var asked *pool
	if r.Pool != "" {
		if asked = a.resolve(r); asked == nil {
			reason := a.unknownPool(r)
			return &reason
		}
	}
	var first *lb.Reason // why the first of several pools does not give it
	anywhere := a.anywhere(s, x)
	for _, p := range a.cover.pools(x) {
		usable := slices.Contains(r.Dialects, p.Key.Dialect)
		if !usable && !anywhere || asked != nil && p != asked {
			continue
		}
		if _, ok := p.numberOf(x); !ok || anywhere && !p.gives(r) && p.GivesByName {
			continue
		}
		var reason *lb.Reason
		if usable {
			reason = a.refusalOf(p, s, x)
		} else {
			theirs := lb.AddressNotInPool.With(x, "it is in pool "+p.name+", which the Service's class does not use")
			reason = &theirs
		}
		if reason == nil {
			return nil
		}
		if first == nil {
			first = reason
		}
	}
	if first == nil && anywhere {
		if reserved, ok := a.reserved[x]; ok && reserved.service != r.Service {
			reason := lb.AddressReserved.With(x, reserved.service, reserved.pool.Key.String())
			return &reason
		}
		if other := a.externalIPOf(x, r.Service); other != "" && !a.InPool(x) {
			reason := lb.AddressIsCluster.With(x, other)
			return &reason
		}
		return nil
	}
	if first == nil {
		reason := lb.AddressNotInPool.With(x, a.whereabouts(r, asked, x))
		first = &reason
	}
	return first
}

// refusalOfOwner says whose x is that no Service gets, or nil if it is nobody's.
func (a *Allocator) refusalOfOwner(x netip.Addr) *lb.Reason {
	if node := a.node(x); node != "" {
		reason := lb.AddressIsNode.With(x, node)
		return &reason
	}
	if owner := a.owner(x); owner != "" {
		reason := lb.AddressIsCluster.With(x, owner)
		return &reason
	}
	return nil
}

// anywhere says whether s asks for x, be it in a pool or not. Pools that give by name
// leave their addresses to whoever names them; all others have them for those that
// they are for.
func (a *Allocator) anywhere(s *service, x netip.Addr) bool {
	return s.req.Anywhere && s.req.Pool == "" && slices.Contains(s.req.Addresses, x)
}

// refusalOf says why pool p, which has x, does not give it to s.
func (a *Allocator) refusalOf(p *pool, s *service, x netip.Addr) *lb.Reason {
	r := &s.req
	var reason lb.Reason
	switch reserved, ok := a.reserved[x]; {
	case !p.works() || p.Disabled:
		reason = lb.PoolUnavailable.With("address "+x.String(), p.state())
	case !p.Admits(r):
		reason = lb.PoolNotAllowed.With("address "+x.String(), p.notFor(r), p.Key.Name)
	case ok && reserved.service != r.Service:
		reason = lb.AddressReserved.With(x, reserved.service, reserved.pool.Key.String())
	case !a.within(p, s, x):
		reason = p.overQuota(r)
	default:
		return nil
	}
	return &reason
}

// refusalOfBoth says why the Service of r cannot have the two addresses that it
// asks for, each of which it could have alone.
func refusalOfBoth(r *lb.Request) lb.Reason {
	both := r.Addresses[0].String() + `" "` + r.Addresses[1].String()
	return lb.AddressNotInPool.With(both, "no pool has both, and both must be from one pool")
}

// whereabouts says where x is, which is in no pool that the Service may name.
func (a *Allocator) whereabouts(r *lb.Request, asked *pool, x netip.Addr) string {
	for _, p := range a.pools {
		if !slices.Contains(r.Dialects, p.Key.Dialect) || asked != nil && p != asked {
			continue
		}
		switch {
		case p.Contains(x):
			return "pool " + p.name + " hands out no address that ends in .0 or .255"
		case p.Excludes(x):
			return "it is excluded from pool " + p.name
		}
	}
	if asked != nil {
		return "it is not in pool " + asked.name + ", so it is not compatible with requested address pool " + asked.Key.Name
	}
	return "it is in no pool"
}

// state says what keeps the pool from handing out anything.
func (p *pool) state() string {
	switch {
	case p.Invalid != nil:
		return "pool " + p.name + " is invalid: " + p.Invalid.Gist()
	case p.clash != nil:
		return "pool " + p.name + " is refused because it overlaps with pool " + p.clash.name
	}
	return "pool " + p.name + " is disabled"
}

// notFor says why the pool does not admit the Service of r.
func (p *pool) notFor(r *lb.Request) string {
	if !p.AdmitsNamespace(r) {
		return "pool " + p.name + " is not for namespace " + strconv.Quote(r.Service.Namespace)
	}
	return "pool " + p.name + " is not for Services with these labels"
}

func (p *pool) overQuota(r *lb.Request) lb.Reason {
	return lb.QuotaExceeded.With(r.Service.Namespace, p.Key.String(), p.perNamespace[r.Service.Namespace], max(p.Quota, 0), p.QuotaName)
}
