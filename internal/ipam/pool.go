package ipam

import (
	"math"
	"net/netip"
	"strconv"

	"fairlead.io/internal/lb"
)

// pool is a pool and what of it is free, used and waited for. SetPools rebuilds
// all of it.
type pool struct {
	lb.Pool
	rank   int          // place in the order in which pools are tried
	name   string       // quoted, as in every text
	self   []lb.PoolKey // of verdicts with addresses of this pool only
	clash  *pool        // the older pool because of which this one is refused
	reason lb.Reason    // of the pool itself

	free  [len(lb.Families)]intervals
	total [len(lb.Families)]int64 // saturated
	used  [len(lb.Families)]int   // addresses of it that somebody has
	out   [len(lb.Families)]int   // addresses of it that are not free
	// withheld are numbers of addresses that are never free, whoever leaves them.
	withheld [len(lb.Families)]map[key]bool
	// perNamespace counts the addresses that a namespace has; nil without quota.
	perNamespace map[string]int

	waiting [len(lb.Families)]*queue // for any address of the family
	quota   map[string]*queue        // for the namespace to have one less
}

// newPool makes a pool of which all is free but what is in networks of others, or
// link-local.
func newPool(p *lb.Pool, others *networks) *pool {
	q := &pool{Pool: *p, name: strconv.Quote(p.Key.String()), self: []lb.PoolKey{p.Key}}
	if p.Quota != 0 {
		q.perNamespace = map[string]int{}
	}
	for _, f := range lb.Families {
		q.free[f] = newIntervals()
		q.waiting[f] = newQueue(nil)
	}
	for _, s := range p.Spans {
		f := lb.FamilyOf(s.From())
		i, ok := q.number(f, keyOf(s.From()), keyOf(s.To()))
		if !ok {
			continue
		}
		q.free[f].append(i)
		if n := i.from.saturated(i.to); q.total[f] > math.MaxInt64-n {
			q.total[f] = math.MaxInt64
		} else {
			q.total[f] += n
		}
	}
	q.cut(others)
	if !p.LinkLocal {
		q.cut(&linkLocals)
	}
	for _, x := range p.Withheld {
		f := lb.FamilyOf(x)
		if n, ok := q.numberOf(x); ok && p.Contains(x) {
			if q.withheld[f] == nil {
				q.withheld[f] = map[key]bool{}
			}
			q.withheld[f][n] = true
			q.withdraw(f, n)
		}
	}
	return q
}

// cut takes networks out of what is free.
func (p *pool) cut(others *networks) {
	for _, f := range lb.Families {
		for _, n := range others[f] {
			if i, ok := p.number(f, n.from, n.to); ok {
				p.out[f] += p.free[f].cut(i)
			}
		}
	}
}

// works says whether the pool is neither invalid nor refused.
func (p *pool) works() bool { return p.Invalid == nil && p.clash == nil }

// The numbers of a pool are the keys of its addresses, except that a pool that
// skips the ends numbers its IPv4 addresses without those that end in .0 and
// .255, 254 for every 256: so they are skipped without being looked at.

// number returns the numbers of all addresses from from to to; ok is false if
// there are none.
func (p *pool) number(f lb.Family, from, to key) (i interval, ok bool) {
	if !p.SkipIPv4Ends || f != lb.IPv4 {
		return interval{from, to}, true
	}
	first := from.lo>>8*254 + min(max(from.lo&255, 1)-1, 254) // .255 is the next block's .1
	end := to.lo>>8*254 + min(to.lo&255, 254)                 // one past the last
	return interval{key{lo: first}, key{lo: end - 1}}, first < end
}

// numberOf returns the number of a, which is in the pool's spans; ok is false
// if the pool does not have it because it skips it.
func (p *pool) numberOf(a netip.Addr) (key, bool) {
	k := keyOf(a)
	i, ok := p.number(lb.FamilyOf(a), k, k)
	return i.from, ok
}

// addr is the inverse of numberOf.
func (p *pool) addr(f lb.Family, n key) netip.Addr {
	if p.SkipIPv4Ends && f == lb.IPv4 {
		n.lo = n.lo/254<<8 + n.lo%254 + 1
	}
	return n.addr(f)
}

// has says whether a is an address of the pool that it may hand out.
func (p *pool) has(a netip.Addr) bool {
	if !p.Contains(a) {
		return false
	}
	_, ok := p.numberOf(a)
	return ok
}

// pick returns the free address of family f that the pool hands out next.
func (p *pool) pick(f lb.Family) (netip.Addr, bool) {
	n, ok := p.free[f].first()
	if p.Descending {
		n, ok = p.free[f].last()
	}
	if !ok {
		return netip.Addr{}, false
	}
	return p.addr(f, n), true
}

// withdraw takes the address with number n out of what is free.
func (p *pool) withdraw(f lb.Family, n key) {
	if p.free[f].remove(n) {
		p.out[f]++
	}
}

// putBack is the inverse of withdraw.
func (p *pool) putBack(f lb.Family, n key) {
	if p.withheld[f][n] || !p.LinkLocal && p.addr(f, n).IsLinkLocalUnicast() {
		return
	}
	if p.free[f].add(n) {
		p.out[f]--
	}
}

// room says whether namespace may have n more addresses of the pool.
func (p *pool) room(namespace string, n int) bool {
	return p.Quota == 0 || p.perNamespace[namespace]+n <= p.Quota
}
