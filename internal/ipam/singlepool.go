package ipam

import (
	"net/netip"
	"slices"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
)

// A SinglePool gives a Service both addresses, or one if that is enough; it
// never gives one of two. So pools fall into sources: each SinglePool by
// itself, all others together. The addresses of a Service are of one source.
// Only a change of pools can make them of two, for nobody loses one by that.
//
// No SinglePool may overlap with others, so of which source an address is
// follows from where it is.

func inSinglePool(p *pool) bool { return p != nil && p.SinglePool }

// sources splits pools, from which s may be given addresses, in the order in
// which they are tried. The others have their turn with the first of them, or
// first of all if an address is reserved for s: SinglePools reserve none.
func (a *Allocator) sources(s *service, pools []*pool) [][]*pool {
	split := a.split[:0]
	reserved := len(a.reservedFor[s.req.Service]) > 0
	first := slices.IndexFunc(pools, func(p *pool) bool { return !p.SinglePool })
	if reserved {
		first = 0
	}
	if first >= 0 {
		slices.SortStableFunc(pools[first:], func(p, q *pool) int { return falseFirst(p.SinglePool, q.SinglePool) })
	}
	if reserved && (len(pools) == 0 || pools[0].SinglePool) {
		split = append(split, nil)
	}
	for len(pools) > 0 {
		n := 1
		for n < len(pools) && !pools[n-1].SinglePool && !pools[n].SinglePool {
			n++
		}
		split, pools = append(split, pools[:n]), pools[n:]
	}
	a.split = split
	return split
}

// mixed says whether it matters for s from which of the pools its addresses are.
func (a *Allocator) mixed(s *service, pools []*pool) bool {
	if !a.hasSinglePools {
		return false
	}
	for f, x := range s.has {
		if x.IsValid() && !s.leased[f] && inSinglePool(a.home(s, x)) {
			return true
		}
	}
	return slices.ContainsFunc(pools, inSinglePool)
}

// goes says whether s may have an address of source beside those it has.
func (a *Allocator) goes(s *service, source []*pool) bool {
	for f, x := range s.has {
		if x.IsValid() && !s.leased[f] && !a.near(s, x, source) {
			return false
		}
	}
	return true
}

// near says whether s has x of source; what is out of pool is near all pools
// that are not SinglePools.
func (a *Allocator) near(s *service, x netip.Addr, source []*pool) bool {
	home := a.home(s, x)
	if len(source) > 0 && source[0].SinglePool {
		return home == source[0]
	}
	return !inSinglePool(home)
}

// compatible says whether s may have both x and y. Addresses assigned by DHCP are
// compatible with all others.
func (a *Allocator) compatible(s *service, x, y netip.Addr) bool {
	if !a.hasSinglePools || s.leased[lb.IPv4] || s.leased[lb.IPv6] || !x.IsValid() || !y.IsValid() {
		return true
	}
	p, q := a.home(s, x), a.home(s, y)
	return p == q || !inSinglePool(p) && !inSinglePool(q)
}

// fit returns the lowest address of family f that SinglePool p has free or
// that s can share with others of its group.
func (a *Allocator) fit(p *pool, s *service, f lb.Family) (x netip.Addr, ok bool) {
	free, ok := p.pick(f)
	ok = ok && p.room(s.req.Service.Namespace, 1)
	o := a.shared[groupOf(&s.req, f)]
	if o == nil || !joinable(&s.req, f) {
		return free, ok
	}
	only := [...]*pool{p}
	var from key
	for more := true; more; {
		k, found := o.next(f, from, s.req.Ports)
		x := k.addr(f)
		if !found || ok && !x.Less(free) {
			break
		}
		i, _ := slices.BinarySearchFunc(p.Spans, x, func(span netipx.IPRange, x netip.Addr) int { return span.To().Compare(x) })
		switch {
		case i == len(p.Spans) || lb.FamilyOf(p.Spans[i].From()) != f:
			return free, ok
		case x.Less(p.Spans[i].From()):
			from = keyOf(p.Spans[i].From())
		case a.joins(s, x, only[:]):
			return x, true
		default:
			from, more = k.next()
		}
	}
	return free, ok
}
