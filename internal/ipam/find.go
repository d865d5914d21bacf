package ipam

import (
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
)

// candidates appends the pools from which s may be given any address, in the
// order in which they are tried.
func (a *Allocator) candidates(s *service, to []*pool) []*pool {
	r := &s.req
	if r.Pool != "" {
		if p := a.resolve(r); p != nil && p.gives(r) {
			to = append(to, p)
		}
		return to
	}
	for _, p := range a.pools {
		if !p.ManualOnly && slices.Contains(r.Dialects, p.Key.Dialect) && p.gives(r) {
			to = append(to, p)
		}
	}
	return to
}

// gives says whether the pool hands out anything to the Service of r.
func (p *pool) gives(r *lb.Request) bool { return p.works() && !p.Disabled && p.Admits(r) }

// fill gives s an address of each of the missing families. Where it matters,
// both of a Service's addresses are of one source; pair says that one is not
// enough, and that s may leave what it has for two elsewhere.
func (a *Allocator) fill(s *service, missing []lb.Family, pools []*pool, pair bool) {
	if !a.mixed(s, pools) {
		a.fillFrom(s, missing, pools)
		return
	}
	sources := a.sources(s, pools)
	kept := s.has
	for _, source := range sources {
		if a.goes(s, source) && a.fillWhole(s, missing, source) {
			return
		}
	}
	switch {
	case pair && len(missing) == 1:
		for _, f := range lb.Families {
			a.release(s, f)
		}
		for _, source := range sources {
			if a.fillWhole(s, lb.Families[:], source) {
				return
			}
		}
		a.restore(s, kept)
	case !pair && len(missing) > 1:
		for i := range missing {
			for _, source := range sources {
				if a.fillWhole(s, missing[i:i+1], source) {
					return
				}
			}
		}
	}
}

// fillWhole gives s an address of each of the missing families, all of source,
// or none.
func (a *Allocator) fillWhole(s *service, missing []lb.Family, source []*pool) bool {
	a.fillFrom(s, missing, source)
	if s.hasAll(missing) {
		return true
	}
	for _, f := range missing {
		a.release(s, f)
	}
	return false
}

func (s *service) hasAll(families []lb.Family) bool {
	for _, f := range families {
		if !s.has[f].IsValid() {
			return false
		}
	}
	return true
}

// fillFrom gives s an address of each of the missing families, as far as the
// pools of one source have any. From one that is a SinglePool it is the lowest that fits.
// From others it is one that is reserved for it, one that it can share, else the
// next free one; two from one pool rather than from two.
func (a *Allocator) fillFrom(s *service, missing []lb.Family, pools []*pool) {
	if len(pools) == 1 && pools[0].SinglePool {
		for _, f := range missing {
			if x, ok := a.fit(pools[0], s, f); ok {
				a.take(s, x)
			}
		}
		return
	}
	var rest [len(lb.Families)]lb.Family
	n := 0
	for _, f := range missing {
		if !a.takeReserved(s, f) && !a.join(s, f, pools) {
			rest[n] = f
			n++
		}
	}
	if n == len(lb.Families) && a.takePair(s, pools) {
		return
	}
	for _, f := range rest[:n] {
		a.takeFree(s, f, pools)
	}
	if a.quotas && len(missing) == len(lb.Families) && s.has[lb.IPv4].IsValid() != s.has[lb.IPv6].IsValid() {
		a.rearrange(s, pools)
	}
}

// rearrange looks for two addresses where s found only one, because the one
// used up the quota that the other needs.
func (a *Allocator) rearrange(s *service, pools []*pool) {
	had := s.has
	for _, f := range lb.Families {
		a.release(s, f)
	}
	for _, x := range a.choices(s, lb.IPv4, pools) {
		a.take(s, x)
		if y := a.choices(s, lb.IPv6, pools); len(y) > 0 {
			a.take(s, y[0])
			return
		}
		a.release(s, lb.IPv4)
	}
	a.restore(s, had)
}

// choices returns all addresses of family f worth considering for s, the best
// first: of the free ones of a pool, one is as good as any.
func (a *Allocator) choices(s *service, f lb.Family, pools []*pool) (all []netip.Addr) {
	for _, x := range a.reservedFor[s.req.Service] {
		if lb.FamilyOf(x) == f && a.refusal(s, x) == nil {
			all = append(all, x)
		}
	}
	for x := range a.offers(s, f, key{}) {
		if a.joins(s, x, pools) {
			all = append(all, x)
		}
	}
	for _, p := range pools {
		if x, ok := p.pick(f); ok && p.room(s.req.Service.Namespace, 1) {
			all = append(all, x)
		}
	}
	return all
}

// takeReserved gives s an address of family f that a pool reserves for it.
func (a *Allocator) takeReserved(s *service, f lb.Family) bool {
	if len(a.reservedFor) == 0 {
		return false
	}
	for _, x := range a.reservedFor[s.req.Service] {
		if lb.FamilyOf(x) == f && a.refusal(s, x) == nil {
			a.take(s, x)
			return true
		}
	}
	return false
}

// join gives s the lowest address of family f of its group where it fits.
func (a *Allocator) join(s *service, f lb.Family, pools []*pool) bool {
	for x := range a.offers(s, f, key{}) {
		if a.joins(s, x, pools) {
			a.take(s, x)
			return true
		}
	}
	return false
}

// joins says whether one of the pools lets s live on x, on which others of its
// group have left it room.
func (a *Allocator) joins(s *service, x netip.Addr, pools []*pool) bool {
	if a.exclusive(x) != nil || a.loner(s, x) != nil {
		return false
	}
	if a.node(x) != "" || a.owner(x) != "" {
		return false
	}
	if reserved, ok := a.reserved[x]; ok && reserved.service != s.req.Service {
		return false
	}
	for _, p := range a.cover.pools(x) {
		if _, ok := p.numberOf(x); ok && slices.Contains(pools, p) && a.within(p, s, x) {
			return true
		}
	}
	return false
}

// within says whether the quota of p lets s have x.
func (a *Allocator) within(p *pool, s *service, x netip.Addr) bool {
	namespace := s.req.Service.Namespace
	return p.room(namespace, 1) || namespaceHas(a.held[x], lb.FamilyOf(x), namespace)
}

// takePair gives s a free address of each family from the first pool that has
// both.
func (a *Allocator) takePair(s *service, pools []*pool) bool {
	for _, p := range pools {
		if !p.room(s.req.Service.Namespace, len(lb.Families)) {
			continue
		}
		whole := true
		for _, f := range lb.Families {
			whole = whole && !p.free[f].empty()
		}
		if !whole {
			continue
		}
		for _, f := range lb.Families {
			x, _ := p.pick(f)
			a.take(s, x)
		}
		return true
	}
	return false
}

// takeFree gives s the next free address of family f: of the pool from which
// its other address is, if that has one, else of the first that has.
func (a *Allocator) takeFree(s *service, f lb.Family, pools []*pool) {
	for _, other := range s.has {
		if !other.IsValid() {
			continue
		}
		for _, p := range pools {
			if p.has(other) && a.takeFrom(p, s, f) {
				return
			}
		}
	}
	for _, p := range pools {
		if a.takeFrom(p, s, f) {
			return
		}
	}
}

func (a *Allocator) takeFrom(p *pool, s *service, f lb.Family) bool {
	if !p.room(s.req.Service.Namespace, 1) {
		return false
	}
	x, ok := p.pick(f)
	if ok {
		a.take(s, x)
	}
	return ok
}
