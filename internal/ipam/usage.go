package ipam

import (
	"math"
	"math/big"
	"slices"
	"strings"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
)

// PoolUsage is how full a pool is, and what to report about it.
type PoolUsage struct {
	Key      lb.PoolKey
	Object   *lb.Object // as lb.Pool has it
	Families [len(lb.Families)]FamilyUsage
	Reason   lb.Reason
}

// FamilyUsage counts the addresses of one family.
type FamilyUsage struct {
	Total int64 // what the pool hands out in all; math.MaxInt64 if it is more
	Used  int   // what Services have of it; a shared address counts once
	Free  int64 // what is neither used nor reserved nor a node's; math.MaxInt64 if it is more

	// Exact is what the pool hands out in all where Total cannot say it, else nil.
	Exact *big.Int
}

// Usage returns the usage of all pools, ordered by their keys.
func (a *Allocator) Usage() []PoolUsage {
	all := make([]PoolUsage, 0, len(a.pools))
	for _, p := range a.pools {
		u := PoolUsage{Key: p.Key, Object: p.Object, Reason: p.reason}
		for _, f := range lb.Families {
			u.Families[f] = FamilyUsage{Total: p.handsOut(f), Used: p.used[f], Free: p.total[f]}
			if p.total[f] < math.MaxInt64 {
				u.Families[f].Free -= int64(p.out[f])
			} else {
				u.Families[f].Exact = p.exact(f)
			}
		}
		all = append(all, u)
	}
	slices.SortFunc(all, func(u, v PoolUsage) int { return strings.Compare(u.Key.String(), v.Key.String()) })
	return all
}

// handsOut is total without what is withheld, as far as nobody has it.
func (p *pool) handsOut(f lb.Family) int64 {
	if p.total[f] == math.MaxInt64 {
		return p.total[f]
	}
	return max(p.total[f]-int64(len(p.withheld[f])), int64(p.used[f]))
}

// Only says whether there are pools, and all are of the dialect.
func (a *Allocator) Only(d lb.Dialect) bool {
	return len(a.pools) > 0 && !slices.ContainsFunc(a.pools, func(p *pool) bool { return p.Key.Dialect != d })
}

// exact is total, not saturated; only for IPv6, of which no pool skips any.
func (p *pool) exact(f lb.Family) *big.Int {
	n := new(big.Int)
	for _, s := range p.Spans {
		if lb.FamilyOf(s.From()) == f {
			n.Add(n, lb.SpanSize(s))
		}
	}
	return n
}

// CountByReason counts the Services that have a verdict by its reason.
func (a *Allocator) CountByReason() map[lb.Code]int {
	n := map[lb.Code]int{}
	for _, s := range a.services {
		if s.settled {
			n[s.verdict.Reason.Code]++
		}
	}
	return n
}

// Free returns at most limit ranges of addresses that a pool can hand out now, of the
// family, from the lowest. A pool that skips addresses has them in no range's ends.
func (a *Allocator) Free(key lb.PoolKey, f lb.Family, limit int) (out []netipx.IPRange) {
	for _, p := range a.pools {
		if p.Key != key || !p.works() || p.Disabled {
			continue
		}
		p.free[f].tree.Ascend(func(i interval) bool {
			if len(out) < limit {
				out = append(out, netipx.IPRangeFrom(p.addr(f, i.from), p.addr(f, i.to)))
			}
			return len(out) < limit
		})
	}
	return out
}
