package ipam

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// reservation says for whom an address is kept, and by which pool.
type reservation struct {
	service types.NamespacedName
	pool    *pool
}

// SetPools replaces all pools. It returns the Services whose verdict changed,
// oldest first. Nobody loses an address by it.
func (a *Allocator) SetPools(pools []lb.Pool) (changed []types.NamespacedName) {
	a.claimImports()
	a.build(pools)
	a.reconsiderAll()
	return a.finish(nil)
}

// rebuild makes all pools again, after which everything is to be looked at.
func (a *Allocator) rebuild() {
	pools := make([]lb.Pool, len(a.pools))
	for i, p := range a.pools {
		pools[i] = p.Pool
	}
	a.build(pools)
	a.reconsiderAll()
}

// build makes the pools, without what belongs to others or is held.
func (a *Allocator) build(pools []lb.Pool) {
	a.scratch, a.split = nil, nil
	a.pools = make([]*pool, len(pools))
	a.byKey = make(map[lb.PoolKey]*pool, len(pools))
	a.quotas, a.hasSinglePools, a.leasing = false, false, false
	for i := range pools {
		a.quotas = a.quotas || pools[i].Quota != 0
		a.hasSinglePools = a.hasSinglePools || pools[i].SinglePool
		a.leasing = a.leasing || pools[i].DHCP != [len(lb.Families)]bool{}
		a.pools[i] = newPool(&pools[i], &a.networks)
		a.byKey[pools[i].Key] = a.pools[i]
	}
	refuseOverlaps(a.pools)
	slices.SortFunc(a.pools, byTurn)
	for i, p := range a.pools {
		p.rank = i
		p.reason = poolReason(p)
	}
	a.cover = newCover(a.pools)
	a.reserve()
	for address := range a.owned {
		a.withdraw(address)
	}
	for address := range a.clusterIPs {
		a.withdraw(address)
	}
	for address := range a.leaving {
		a.withdraw(address)
	}
	for address, users := range a.held {
		a.recount(address, users)
	}
	for _, s := range a.services {
		for _, f := range lb.Families {
			if s.charged[f] = nil; s.leased[f] && s.has[f].IsValid() {
				a.charge(s, f, s.has[f])
			}
		}
	}
}

// byTurn is the order in which pools are tried: those that are pinned first,
// priority 0 after all others.
func byTurn(p, q *pool) int {
	return cmp.Or(
		falseFirst(!p.Pinned, !q.Pinned),
		falseFirst(p.Priority == 0, q.Priority == 0),
		cmp.Compare(p.Priority, q.Priority),
		strings.Compare(p.Key.Name, q.Key.Name),
		strings.Compare(string(p.Key.Dialect), string(q.Key.Dialect)))
}

func falseFirst(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

func poolReason(p *pool) lb.Reason {
	switch {
	case p.Invalid != nil:
		return *p.Invalid
	case p.clash != nil:
		span, _ := overlap(&p.Pool, &p.clash.Pool)
		return lb.PoolOverlap.With(p.Key.String(), lb.SpanString(span), p.clash.Key.String())
	case p.Disabled:
		return lb.PoolDisabled.With()
	}
	return lb.PoolReady.With()
}

// refuseOverlaps goes through the pools from the oldest to the youngest and
// refuses each that overlaps with one that was not refused.
func refuseOverlaps(pools []*pool) {
	byAge := slices.Clone(pools)
	slices.SortFunc(byAge, func(p, q *pool) int {
		return cmp.Or(p.Created.Compare(q.Created), strings.Compare(p.Key.String(), q.Key.String()))
	})
	var accepted []*pool
	for _, p := range byAge {
		if p.Invalid != nil {
			continue // hands out nothing: nobody's rival
		}
		for _, q := range accepted {
			if p.MayOverlap && q.MayOverlap {
				continue
			}
			if _, ok := overlap(&p.Pool, &q.Pool); ok {
				p.clash = q
				break
			}
		}
		if p.clash == nil {
			accepted = append(accepted, p)
		}
	}
}

// overlap returns the first addresses that p and q both have.
func overlap(p, q *lb.Pool) (netipx.IPRange, bool) {
	for i, j := 0, 0; i < len(p.Spans) && j < len(q.Spans); {
		s, t := p.Spans[i], q.Spans[j]
		from, to := s.From(), s.To()
		if from.Less(t.From()) {
			from = t.From()
		}
		if t.To().Less(to) {
			to = t.To()
		}
		if !to.Less(from) {
			return netipx.IPRangeFrom(from, to), true
		}
		if s.To().Less(t.To()) {
			i++
		} else {
			j++
		}
	}
	return netipx.IPRange{}, false
}

// reserve takes the reserved addresses out of what is free. Where two pools
// reserve one address, the one that is tried first counts.
func (a *Allocator) reserve() {
	a.reserved = map[netip.Addr]reservation{}
	a.reservedFor = map[types.NamespacedName][]netip.Addr{}
	for _, p := range a.pools {
		if !p.works() {
			continue
		}
		addresses := make([]netip.Addr, 0, len(p.Reserved))
		for address := range p.Reserved {
			addresses = append(addresses, address)
		}
		slices.SortFunc(addresses, netip.Addr.Compare)
		for _, address := range addresses {
			if _, taken := a.reserved[address]; taken || !p.has(address) {
				continue
			}
			service := p.Reserved[address]
			a.reserved[address] = reservation{service, p}
			a.reservedFor[service] = append(a.reservedFor[service], address)
			a.withdraw(address)
		}
	}
}

// resolve finds the pool that a Service asks for by name, in the order of the
// dialects that its class may use.
func (a *Allocator) resolve(r *lb.Request) *pool {
	for _, d := range r.Dialects {
		if p := a.byKey[lb.PoolKey{Dialect: d, Name: r.Pool}]; p != nil {
			return p
		}
	}
	return nil
}
