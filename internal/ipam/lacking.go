package ipam

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// awaitNamed lets s wait for what can give it address x: a change on the
// address, or of its namespace's share of a pool. Whatever else stands in the
// way is configuration, after which everybody is looked at again.
func (a *Allocator) awaitNamed(s *service, x netip.Addr) {
	a.await(s, queueIn(a.waitAddress, x))
	for _, p := range a.cover.pools(x) {
		if !a.within(p, s, x) {
			a.await(s, p.quotaQueue(s.req.Service.Namespace))
		}
	}
}

// awaitAny lets s wait for what can give it any address of family f beside what
// it has, and says why there is none.
func (a *Allocator) awaitAny(s *service, f lb.Family) lb.Reason {
	pools := a.candidates(s, nil)
	if len(pools) > 0 && a.mixed(s, pools) {
		pools = slices.DeleteFunc(pools, func(p *pool) bool { return !a.goes(s, []*pool{p}) })
		if len(pools) == 0 {
			a.awaitOwn(s, f)
			return lb.FamiliesApart.With("no pool that has address " + s.has[1-f].String() + " gives the Service another")
		}
	}
	return a.awaitFrom(s, f, pools)
}

// awaitOwn lets s wait for the addresses of family f that are reserved for it,
// and for those of its group.
func (a *Allocator) awaitOwn(s *service, f lb.Family) {
	r := &s.req
	for _, x := range a.reservedFor[r.Service] {
		if lb.FamilyOf(x) == f {
			a.awaitNamed(s, x)
		}
	}
	if joinable(r, f) {
		a.await(s, a.groupQueue(r, f))
	}
}

// awaitFrom lets s wait for what can give it an address of family f of pools,
// and says why they have none.
func (a *Allocator) awaitFrom(s *service, f lb.Family, pools []*pool) lb.Reason {
	a.awaitOwn(s, f)
	r := &s.req
	var full, without []string
	var overQuota *pool
	for _, p := range pools {
		switch {
		case p.total[f] == 0:
			without = append(without, p.name)
		case !p.room(r.Service.Namespace, 1):
			a.await(s, p.quotaQueue(r.Service.Namespace))
			if overQuota == nil {
				overQuota = p
			}
		default:
			a.await(s, p.waiting[f])
			full = append(full, "pool "+p.name+" ("+p.usage(f)+")")
		}
	}
	switch {
	case overQuota != nil:
		return overQuota.overQuota(r)
	case len(full) > 0:
		return lb.PoolExhausted.With(f, prose.Few(full), a.howToExtend(r))
	case len(without) == 1:
		return lb.FamilyUnavailable.With(f, "pool "+without[0]+" has", a.howToExtend(r))
	case len(without) > 1:
		return lb.FamilyUnavailable.With(f, "pools "+prose.Few(without)+" have", a.howToExtend(r))
	}
	return a.noCandidate(r)
}

// awaitPair lets s wait for what can give it an address of each family of one
// source, and says why none does.
func (a *Allocator) awaitPair(s *service) lb.Reason {
	r := &s.req
	namespace := r.Service.Namespace
	pools := a.candidates(s, nil)
	sources := a.sources(s, pools)
	for _, p := range pools {
		for _, f := range lb.Families {
			if p.free[f].empty() {
				a.await(s, p.waiting[f])
			}
		}
		if !p.room(namespace, len(lb.Families)) {
			a.await(s, p.quotaQueue(namespace))
		}
	}
	var reason *lb.Reason
	for _, f := range wanted(r) {
		a.awaitOwn(s, f)
		one := func(source []*pool) bool { return a.hasFor(s, f, source) }
		if !slices.ContainsFunc(sources, one) && reason == nil {
			why := a.awaitFrom(s, f, pools)
			reason = &why
		}
	}
	if reason == nil {
		why := lb.FamiliesApart.With(a.unequal(s, pools))
		reason = &why
	}
	return *reason
}

// hasFor says whether source has an address of family f for s, be it one that it
// has.
func (a *Allocator) hasFor(s *service, f lb.Family, source []*pool) bool {
	if x := s.has[f]; x.IsValid() && a.near(s, x, source) {
		return true
	}
	if len(source) == 1 && source[0].SinglePool {
		_, ok := a.fit(source[0], s, f)
		return ok
	}
	return len(a.choices(s, f, source)) > 0
}

// unequal says of each of the pools which family s cannot have of it.
func (a *Allocator) unequal(s *service, pools []*pool) string {
	var why []string
	for _, p := range pools {
		var lacks []string
		for _, f := range lb.Families {
			switch {
			case p.total[f] == 0:
				lacks = append(lacks, "no "+f.String()+" addresses")
			case !a.hasFor(s, f, []*pool{p}):
				lacks = append(lacks, "no free "+f.String()+" address")
			}
		}
		switch {
		case len(lacks) > 0:
			why = append(why, "pool "+p.name+" has "+prose.And(lacks))
		case !p.room(s.req.Service.Namespace, len(lb.Families)):
			why = append(why, "pool "+p.name+" gives namespace "+strconv.Quote(s.req.Service.Namespace)+" fewer than two more addresses")
		}
	}
	return prose.Clauses(why)
}

// noSecond says why s has no address of family f beside the other.
func (a *Allocator) noSecond(s *service, f lb.Family) string {
	if p := a.home(s, s.has[1-f]); inSinglePool(p) {
		return "both addresses must be from pool " + p.name + ", which has no free " + f.String() + " address"
	}
	return "no pool has a free " + f.String() + " address for it"
}

// noCandidate says why no pool gives addresses to the Service of r.
func (a *Allocator) noCandidate(r *lb.Request) lb.Reason {
	if r.Pool != "" {
		p := a.resolve(r)
		switch {
		case p == nil:
			return a.unknownPool(r)
		case !p.works() || p.Disabled:
			return lb.PoolUnavailable.With("pool "+p.name, p.state())
		}
		return lb.PoolNotAllowed.With("pool "+p.name, p.notFor(r), p.Key.Name)
	}
	var near, far []string // pools that are for the Service, and others
	for _, p := range a.pools {
		switch admits := p.Admits(r); {
		case !slices.Contains(r.Dialects, p.Key.Dialect):
		case admits && (!p.works() || p.Disabled):
			near = append(near, p.state())
		case admits:
			near = append(near, "pool "+p.name+" is only used on request")
		case !p.works() || p.Disabled:
			far = append(far, p.state())
		default:
			far = append(far, p.notFor(r))
		}
	}
	if len(near)+len(far) == 0 {
		return lb.NoPool.With(a.whatToAdd(r))
	}
	return lb.NoPoolMatches.With(prose.Clauses(append(near, far...)), a.howToMatch(r))
}

// unknownPool says which pools there are instead of the one asked for.
func (a *Allocator) unknownPool(r *lb.Request) lb.Reason {
	var names []string
	for _, p := range a.pools {
		if slices.Contains(r.Dialects, p.Key.Dialect) {
			names = append(names, strconv.Quote(p.Key.Name))
		}
	}
	if len(names) == 0 {
		return lb.UnknownPool.With(r.Pool, "none")
	}
	return lb.UnknownPool.With(r.Pool, prose.Few(names))
}

// usage says how full a pool with nothing free is.
func (p *pool) usage(f lb.Family) string {
	if p.total[f] == math.MaxInt64 {
		return fmt.Sprintf("%d used", p.used[f])
	}
	total := p.handsOut(f)
	s := fmt.Sprintf("%d of %d used", p.used[f], total)
	if int64(p.used[f]) < total {
		s += ", the rest reserved, or used by nodes or the cluster"
	}
	return s
}

func (p *pool) quotaQueue(namespace string) *queue {
	if p.quota == nil {
		p.quota = map[string]*queue{}
	}
	return queueIn(p.quota, namespace)
}

func utoa(n uint16) string { return strconv.Itoa(int(n)) }
