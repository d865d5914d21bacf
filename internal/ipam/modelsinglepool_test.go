package ipam

import (
	"maps"
	"net/netip"
	"slices"

	"fairlead.io/internal/lb"
)

// What the model knows about SinglePools.

// homes are the pools from which o may say that it has x, as they are tried.
func (m *model) homes(o *owner, x netip.Addr) (homes []lb.Pool) {
	asked := m.asked(&o.req)
	fixed := o.req.Pool != "" && (o.req.Pool == o.granted || asked != nil && slices.Contains(members(*asked), x))
	for _, p := range m.pools {
		if fixed && (asked == nil || asked.Key != p.Key) {
			continue
		}
		if slices.Contains(o.req.Dialects, p.Key.Dialect) && m.works(p) && p.Admits(&o.req) && slices.Contains(members(p), x) {
			homes = append(homes, p)
		}
	}
	return homes
}

func (m *model) inPool(o *owner, x netip.Addr) bool { return len(m.homes(o, x)) > 0 }

// source names the SinglePool from which o has x, if it is from one.
func (m *model) source(o *owner, x netip.Addr) (key lb.PoolKey) {
	if homes := m.homes(o, x); len(homes) > 0 && homes[0].SinglePool {
		key = homes[0].Key
	}
	return key
}

func (m *model) compatible(o *owner, x, y netip.Addr) bool {
	return o.leased[lb.IPv4] || o.leased[lb.IPv6] || !x.IsValid() || !y.IsValid() || m.source(o, x) == m.source(o, y)
}

// tell writes down what o has in the order in which it is told: IPv4 first if it
// is of a SinglePool; as before, if it is of none.
func (m *model) tell(o *owner) {
	order := slices.Clone(o.req.Families)
	none := true
	for f, x := range o.has {
		if o.leased[f] {
			none = none && !m.standsFor(o, f)
			continue
		}
		none = none && !m.inPool(o, x)
		if m.source(o, x) != (lb.PoolKey{}) {
			order = nil
		}
	}
	both := append(order, lb.IPv4, lb.IPv6)
	slices.SortStableFunc(both, func(f, g lb.Family) int {
		i, j := slices.Index(o.told, o.has[f]), slices.Index(o.told, o.has[g])
		if !none || i < 0 || j < 0 {
			return 0
		}
		return i - j
	})
	o.told = nil
	for _, f := range both {
		if x, ok := o.has[f]; ok && !slices.Contains(o.told, x) {
			o.told = append(o.told, x)
		}
	}
}

// mixed says whether any SinglePool plays a part for o.
func (m *model) mixed(o *owner) bool {
	for f, x := range o.has {
		if !o.leased[f] && m.source(o, x) != (lb.PoolKey{}) {
			return true
		}
	}
	return slices.ContainsFunc(m.candidates(o), func(p lb.Pool) bool { return p.SinglePool })
}

// sources are the sets of pools of which all addresses of o are to be of one.
func (m *model) sources(o *owner) (all [][]lb.Pool) {
	var others []lb.Pool
	place := -1
	for _, p := range m.candidates(o) {
		if p.SinglePool {
			all = append(all, []lb.Pool{p})
			continue
		}
		if place < 0 {
			place = len(all)
		}
		others = append(others, p)
	}
	for _, x := range universe {
		if _, who := m.reservation(x); who == o.req.Service {
			place = 0
		}
	}
	if place >= 0 {
		all = slices.Insert(all, place, others)
	}
	return all
}

func (m *model) fill(o *owner, missing []lb.Family, pair bool) {
	if !m.mixed(o) {
		m.fillFrom(o, missing, m.candidates(o))
		return
	}
	sources := m.sources(o)
	whole := func(families []lb.Family, source []lb.Pool) bool {
		was := maps.Clone(o.has)
		m.fillFrom(o, families, source)
		for _, f := range families {
			if _, got := o.has[f]; !got {
				o.has = was
				return false
			}
		}
		return true
	}
	for _, source := range sources {
		var key lb.PoolKey
		if len(source) > 0 && source[0].SinglePool {
			key = source[0].Key
		}
		goes := true
		for f, x := range o.has {
			goes = goes && (o.leased[f] || m.source(o, x) == key)
		}
		if goes && whole(missing, source) {
			return
		}
	}
	if pair && len(missing) == 1 {
		was := o.has
		o.has = map[lb.Family]netip.Addr{}
		for _, source := range sources {
			if whole([]lb.Family{lb.IPv4, lb.IPv6}, source) {
				return
			}
		}
		o.has = was
	}
	if !pair && len(missing) == 2 {
		for _, f := range missing {
			for _, source := range sources {
				if whole([]lb.Family{f}, source) {
					return
				}
			}
		}
	}
}

// fillFirst gives o of SinglePool p the first that is free or can be shared.
func (m *model) fillFirst(o *owner, f lb.Family, p lb.Pool) {
	x := m.firstFree(p, f)
	if x.IsValid() && !m.quotaAllows(p, o, x) {
		x = netip.Addr{}
	}
	for _, y := range m.shareable(o, f, []lb.Pool{p}) {
		if !x.IsValid() || y.Less(x) {
			x = y
		}
	}
	if x.IsValid() {
		o.has[f] = x
	}
}

func spanned(p lb.Pool) (out []netip.Addr) {
	for _, s := range p.Spans {
		for x := s.From(); x.Compare(s.To()) <= 0; x = x.Next() {
			out = append(out, x)
		}
	}
	return out
}

// members returns the addresses that p hands out, lowest first.
func members(p lb.Pool) []netip.Addr {
	return slices.DeleteFunc(spanned(p), func(x netip.Addr) bool {
		return p.SkipIPv4Ends && x.Is4() && (x.As4()[3] == 0 || x.As4()[3] == 255)
	})
}
