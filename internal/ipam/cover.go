package ipam

import (
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
)

// cover knows the pools that an address is in: per family, sorted segments in
// each of which that is the same list.
type cover [len(lb.Families)][]segment

type segment struct {
	interval
	pools []*pool // in the order in which pools are tried
}

func newCover(pools []*pool) (c cover) {
	for _, f := range lb.Families {
		c[f] = segments(pools, f)
	}
	return c
}

// segments sweeps over the ends of all spans of family f.
func segments(pools []*pool, f lb.Family) (out []segment) {
	type piece struct {
		interval
		pool *pool
	}
	var pieces []piece
	var cuts []key // where a segment starts
	for _, p := range pools {
		for _, s := range p.Spans {
			if lb.FamilyOf(s.From()) != f {
				continue
			}
			i := interval{keyOf(s.From()), keyOf(s.To())}
			pieces = append(pieces, piece{i, p})
			cuts = append(cuts, i.from)
			if after, ok := i.to.next(); ok {
				cuts = append(cuts, after)
			}
		}
	}
	slices.SortFunc(pieces, func(a, b piece) int { return a.from.compare(b.from) })
	slices.SortFunc(cuts, key.compare)
	cuts = slices.Compact(cuts)

	var open []piece
	for i, from := range cuts {
		open = slices.DeleteFunc(open, func(p piece) bool { return p.to.less(from) })
		for len(pieces) > 0 && pieces[0].from == from {
			open, pieces = append(open, pieces[0]), pieces[1:]
		}
		if len(open) == 0 {
			continue
		}
		s := segment{interval: interval{from, open[0].to}}
		if i+1 < len(cuts) {
			s.to, _ = cuts[i+1].prev()
		}
		for _, p := range open {
			if !slices.Contains(s.pools, p.pool) {
				s.pools = append(s.pools, p.pool)
			}
		}
		slices.SortFunc(s.pools, func(a, b *pool) int { return a.rank - b.rank })
		out = append(out, s)
	}
	return out
}

// pools returns the pools whose spans have a, in the order in which they are
// tried.
func (c *cover) pools(a netip.Addr) []*pool {
	s, k := c[lb.FamilyOf(a)], keyOf(a)
	lo, hi := 0, len(s)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		switch {
		case k.less(s[mid].from):
			hi = mid
		case s[mid].to.less(k):
			lo = mid + 1
		default:
			return s[mid].pools
		}
	}
	return nil
}

// InPool says whether some pool has x, whoever may use it.
func (a *Allocator) InPool(x netip.Addr) bool { return len(a.cover.pools(x)) > 0 }

// DialectOf is that of the first pool that has x; "" if none has.
func (a *Allocator) DialectOf(x netip.Addr) lb.Dialect {
	if pools := a.cover.pools(x); len(pools) > 0 {
		return pools[0].Key.Dialect
	}
	return ""
}
