package ipam

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// model answers like Allocator, the slow way: it remembers only what each
// Service has, finds out everything else by looking at all addresses and all
// Services, and after every change looks at all Services again.
type model struct {
	pools    []lb.Pool // as they are tried
	refused  map[lb.PoolKey]bool
	nodes    map[netip.Addr]string
	services map[types.NamespacedName]*owner
}

type owner struct {
	req     lb.Request
	has     map[lb.Family]netip.Addr
	lost    []netip.Addr
	told    []netip.Addr // in this order
	granted string
	settled bool
	leased  [len(lb.Families)]bool
	charged [len(lb.Families)]lb.PoolKey // whose quota counts it
}

func newModel() *model { return &model{services: map[types.NamespacedName]*owner{}} }

func (m *model) setPools(pools []lb.Pool) {
	m.refused = map[lb.PoolKey]bool{}
	old := slices.Clone(pools)
	slices.SortFunc(old, func(p, q lb.Pool) int {
		return cmp.Or(p.Created.Compare(q.Created), cmp.Compare(p.Key.String(), q.Key.String()))
	})
	for i, p := range old {
		for _, q := range old[:i] {
			both := slices.ContainsFunc(spanned(p), func(x netip.Addr) bool { return slices.Contains(spanned(q), x) })
			if both && !(p.MayOverlap && q.MayOverlap) && p.Invalid == nil && q.Invalid == nil && !m.refused[q.Key] {
				m.refused[p.Key] = true
			}
		}
	}
	m.pools = slices.Clone(pools)
	slices.SortFunc(m.pools, func(p, q lb.Pool) int {
		last := func(p lb.Pool) int {
			if p.Priority == 0 {
				return 1
			}
			return 0
		}
		if p.Pinned != q.Pinned {
			return map[bool]int{true: -1, false: 1}[p.Pinned]
		}
		return cmp.Or(last(p)-last(q), cmp.Compare(p.Priority, q.Priority), cmp.Compare(p.Key.Name, q.Key.Name), cmp.Compare(p.Key.Dialect, q.Key.Dialect))
	})
	m.chargeAll()
	m.rest()
}

func (m *model) setNodes(nodes map[netip.Addr]string) {
	m.nodes = maps.Clone(nodes)
	m.rest()
}

func (m *model) settle(r lb.Request, published []netip.Addr) {
	if o := m.services[r.Service]; o != nil && o.req.UID != r.UID {
		m.forget(r.Service)
	}
	o := m.services[r.Service]
	if o == nil {
		o = m.add(r)
	}
	o.req = r
	for f, x := range o.has {
		if m.rival(o, x) != nil { // it has changed so that it no longer fits
			delete(o.has, f)
			o.lost = append(o.lost, x)
		}
	}
	for again := true; again; {
		m.adoptPublished(o, published)
		was := m.all()
		m.decide(o)
		m.rest()
		again = !slices.Equal(was, m.all())
	}
}

func (m *model) all() (out []netip.Addr) {
	for _, o := range m.byAge() {
		out = append(out, o.has[lb.IPv4], o.has[lb.IPv6])
	}
	return out
}

func (m *model) forget(n types.NamespacedName) {
	delete(m.services, n)
	m.rest()
}

func (m *model) add(r lb.Request) *owner {
	o := &owner{req: r, has: map[lb.Family]netip.Addr{}, granted: r.Pool}
	if i := slices.IndexFunc(r.From, func(name string) bool { return name != r.Pool }); i >= 0 && r.Pool != "" {
		o.granted = r.From[i]
	}
	m.services[r.Service] = o
	return o
}

// restart begins anew from what is published.
func (m *model) restart(published map[types.NamespacedName][]netip.Addr) {
	old := m.byAge()
	m.services = map[types.NamespacedName]*owner{}
	for _, o := range old {
		m.adoptPublished(m.add(o.req), published[o.req.Service])
	}
	m.rest()
}

func (m *model) byAge() []*owner {
	return slices.SortedFunc(maps.Values(m.services), func(o, p *owner) int {
		return cmp.Or(o.req.Created.Compare(p.req.Created), cmp.Compare(o.req.UID, p.req.UID))
	})
}

// rest looks at everybody, oldest first, and anew after each change.
func (m *model) rest() {
	for again := true; again; {
		again = false
		for _, o := range m.byAge() {
			was := maps.Clone(o.has)
			m.decide(o)
			if again = !maps.Equal(was, o.has); again {
				break
			}
		}
	}
	for _, o := range m.services {
		m.tell(o)
	}
}

func (m *model) adoptPublished(o *owner, published []netip.Addr) {
	m.leaveUnwanted(o)
	o.lost = slices.DeleteFunc(o.lost, func(x netip.Addr) bool { return !slices.Contains(published, x) })
	had := maps.Clone(o.has)
	for _, f := range wanted(&o.req) {
		has, ok := o.has[f]
		if ok && slices.Contains(published, has) {
			continue
		}
		with := o.has[1-f]
		for _, p := range published {
			if lb.FamilyOf(p) != f && !slices.Contains(published, o.has[1-f]) && !slices.Contains(o.lost, p) && m.agrees(o, p) {
				with = netip.Addr{} // it is to be replaced as well
			}
		}
		for _, p := range published {
			if lb.FamilyOf(p) != f || p.IsLoopback() || p.IsUnspecified() {
				continue
			}
			if ok {
				delete(o.has, f)
				if slices.Contains(o.lost, p) || !m.agrees(o, p) || !m.compatible(o, p, with) || m.unshared(o, p) {
					o.has[f] = has
					continue
				}
			} else if o.settled && (!m.agrees(o, p) || !m.compatible(o, p, with) || m.unshared(o, p)) {
				continue
			}
			rival := m.rival(o, p)
			if rival != nil && slices.Contains(o.lost, p) {
				continue
			}
			if rival != nil && m.olderThan(rival, o) {
				o.lost = append(o.lost, p)
				if ok {
					o.has[f] = has
				}
				continue
			}
			for rival != nil {
				delete(rival.has, f)
				rival.lost = append(rival.lost, p)
				rival = m.rival(o, p)
			}
			o.leased[f] = o.leased[f] && m.leases(o, f)
			o.has[f] = p
			break
		}
	}
	if o.settled && !maps.Equal(had, o.has) && !m.compatible(o, o.has[lb.IPv4], o.has[lb.IPv6]) {
		for _, f := range lb.Families {
			if !slices.Contains(published, o.has[f]) {
				o.leave(f)
			}
		}
	}
	if !o.settled {
		o.told = slices.DeleteFunc(slices.Clone(published), func(x netip.Addr) bool { return o.has[lb.FamilyOf(x)] != x })
	}
	// Settled means that a verdict follows, which it does at once.
	o.settled = true
}

func (m *model) unshared(o *owner, p netip.Addr) bool {
	return (m.exclusive(p) || m.kept(o, p)) && len(m.holders(p)) > 0 && m.rival(o, p) == nil
}

func (o *owner) leave(f lb.Family) {
	if x, ok := o.has[f]; ok {
		o.lost = append(o.lost, x)
		delete(o.has, f)
	}
}

func (m *model) leaveUnwanted(o *owner) {
	for _, f := range lb.Families {
		if o.req.Invalid == nil && !slices.Contains(wanted(&o.req), f) {
			o.leave(f)
		}
	}
}

func (m *model) olderThan(o, p *owner) bool { return o.req.Older(&p.req) }

func (m *model) agrees(o *owner, p netip.Addr) bool {
	for _, x := range o.req.Addresses {
		if x.Is4() == p.Is4() && x != p {
			return false
		}
	}
	if m.leases(o, lb.FamilyOf(p)) {
		return slices.Contains(o.req.Leased, p)
	}
	return o.req.Invalid == nil && m.poolsAllow(o, p)
}

// decide gives o what it lacks, if that can be had.
func (m *model) decide(o *owner) {
	r := &o.req
	if r.Invalid != nil {
		return
	}
	want := wanted(r)
	before, leased := maps.Clone(o.has), o.leased
	m.lease(o, len(r.Addresses) == 0)
	then := maps.Clone(o.has)

	named := map[lb.Family]bool{}
	for _, x := range r.Addresses {
		f := lb.FamilyOf(x)
		if named[f] || !slices.Contains(want, f) {
			m.loses(o, before)
			return
		}
		named[f] = true
	}
	for _, x := range r.Addresses {
		if f := lb.FamilyOf(x); o.has[f] != x {
			delete(o.has, f)
			if !m.canHave(o, x) {
				o.has = then
				m.loses(o, before)
				return
			}
			o.has[f] = x
		}
	}
	if len(r.Addresses) > 0 {
		m.lease(o, true)
	}
	was := maps.Clone(before)
	for f := range before {
		if _, has := o.has[f]; leased[f] && !has {
			delete(was, f) // the DHCP server has taken it back
		}
	}
	apart := !maps.Equal(before, o.has) && !m.compatible(o, o.has[lb.IPv4], o.has[lb.IPv6])
	if apart && len(named) == 2 {
		o.has = then
		return
	}
	var missing []lb.Family
	for _, f := range want {
		if o.leased[f] {
			continue
		}
		if x, ok := o.has[f]; !ok || !named[f] && (apart || m.wantsToLeave(o, x)) {
			missing = append(missing, f)
		}
	}
	old := maps.Clone(o.has)
	for _, f := range missing {
		delete(o.has, f)
	}
	require := r.Policy == lb.RequireDualStack
	pair := false
	if len(want) == 2 && !o.leased[lb.IPv4] && !o.leased[lb.IPv6] && m.mixed(o) {
		switch len(missing) {
		case 2:
			pair = require
		case 1:
			pair = !named[1-missing[0]] && (require || old[missing[0]].IsValid())
		}
	}
	m.fill(o, missing, pair)
	stuck, loses := false, false
	for _, f := range missing {
		if _, got := o.has[f]; got || !old[f].IsValid() {
			continue
		}
		if other := o.has[1-f]; stuck || other == was[1-f] || m.compatible(o, old[f], other) {
			o.has[f] = old[f]
			stuck = true
		} else {
			loses = true
		}
	}
	lacks := slices.ContainsFunc(missing, func(f lb.Family) bool { return !o.has[f].IsValid() })
	if require && (len(was) == 0 && lacks || loses) {
		o.has = was
		return
	}
	m.loses(o, before)
	if !stuck && o.granted != r.Pool {
		o.granted = r.Pool
		m.decide(o)
	}
}

func (m *model) wantsToLeave(o *owner, x netip.Addr) bool {
	r := &o.req
	if r.Pool != "" && r.Pool != o.granted {
		if p := m.asked(r); p == nil || !slices.Contains(members(*p), x) {
			return true
		}
	}
	return r.Reallocate && (m.nodes[x] != "" || !m.inPool(o, x))
}

func (m *model) fillFrom(o *owner, missing []lb.Family, candidates []lb.Pool) {
	if len(candidates) == 1 && candidates[0].SinglePool {
		for _, f := range missing {
			m.fillFirst(o, f, candidates[0])
		}
		return
	}
	var free []lb.Family
	for _, f := range missing {
		if !m.fillReserved(o, f) && !m.fillShared(o, f, candidates) {
			free = append(free, f)
		}
	}
	if len(free) == 2 {
		for _, p := range candidates {
			four, six := m.firstFree(p, lb.IPv4), m.firstFree(p, lb.IPv6)
			if four.IsValid() && six.IsValid() && (p.Quota == 0 || m.count(p, o.req.Service.Namespace)+2 <= p.Quota) {
				o.has[lb.IPv4], o.has[lb.IPv6] = four, six
				return
			}
		}
	}
	for _, f := range free {
		other := o.has[1-f]
		near, far := []lb.Pool{}, []lb.Pool{}
		for _, p := range candidates {
			if slices.Contains(members(p), other) {
				near = append(near, p)
			} else {
				far = append(far, p)
			}
		}
		for _, p := range append(near, far...) {
			if x := m.firstFree(p, f); x.IsValid() && m.quotaAllows(p, o, x) {
				o.has[f] = x
				break
			}
		}
	}
	if len(missing) == 2 && len(o.has) == 1 {
		m.fillBoth(o, candidates)
	}
}

// fillBoth tries every IPv4 address with every IPv6 address.
func (m *model) fillBoth(o *owner, candidates []lb.Pool) {
	one := maps.Clone(o.has)
	clear(o.has)
	for _, x := range m.everything(o, lb.IPv4, candidates) {
		o.has[lb.IPv4] = x
		for _, y := range m.everything(o, lb.IPv6, candidates) {
			o.has[lb.IPv6] = y
			return
		}
		clear(o.has)
	}
	o.has = one
}

func (m *model) everything(o *owner, f lb.Family, candidates []lb.Pool) (all []netip.Addr) {
	all = append(m.reservedFor(o, f), m.shareable(o, f, candidates)...)
	for _, p := range candidates {
		if x := m.firstFree(p, f); x.IsValid() && m.quotaAllows(p, o, x) {
			all = append(all, x)
		}
	}
	return all
}

func (m *model) fillReserved(o *owner, f lb.Family) bool {
	for _, x := range m.reservedFor(o, f) {
		o.has[f] = x
		return true
	}
	return false
}

func (m *model) reservedFor(o *owner, f lb.Family) (all []netip.Addr) {
	for _, p := range m.pools {
		for _, x := range members(p) {
			if by, who := m.reservation(x); lb.FamilyOf(x) == f && by == p.Key && who == o.req.Service && m.canHave(o, x) {
				all = append(all, x)
			}
		}
	}
	return all
}

func (m *model) fillShared(o *owner, f lb.Family, candidates []lb.Pool) bool {
	for _, x := range m.shareable(o, f, candidates) {
		o.has[f] = x
		return true
	}
	return false
}

func (m *model) shareable(o *owner, f lb.Family, candidates []lb.Pool) (out []netip.Addr) {
	var all []netip.Addr
	for _, h := range m.services {
		if x, ok := h.has[f]; ok {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	for _, x := range all {
		_, who := m.reservation(x)
		if m.rival(o, x) != nil || m.exclusive(x) || m.kept(o, x) || m.nodes[x] != "" || who.Name != "" && who != o.req.Service {
			continue
		}
		for _, p := range candidates {
			if slices.Contains(members(p), x) && m.quotaAllows(p, o, x) {
				out = append(out, x)
				break
			}
		}
	}
	return out
}

func (m *model) candidates(o *owner) (out []lb.Pool) {
	for _, p := range m.pools {
		if o.req.Pool != "" {
			if asked := m.asked(&o.req); asked == nil || asked.Key != p.Key {
				continue
			}
		} else if p.ManualOnly {
			continue
		}
		if slices.Contains(o.req.Dialects, p.Key.Dialect) && m.works(p) && !p.Disabled && p.Admits(&o.req) {
			out = append(out, p)
		}
	}
	return out
}

func (m *model) firstFree(p lb.Pool, f lb.Family) netip.Addr {
	all := members(p)
	if p.Descending {
		slices.Reverse(all)
	}
	for _, x := range all {
		if _, who := m.reservation(x); lb.FamilyOf(x) == f && len(m.holders(x)) == 0 && m.nodes[x] == "" && who.Name == "" && !slices.Contains(p.Withheld, x) {
			return x
		}
	}
	return netip.Addr{}
}

// canHave says whether o could have x if it asked for it.
func (m *model) canHave(o *owner, x netip.Addr) bool {
	others := len(m.holders(x)) > 0
	return m.poolsAllow(o, x) && m.rival(o, x) == nil && !(others && (m.exclusive(x) || m.kept(o, x)))
}

func (m *model) poolsAllow(o *owner, x netip.Addr) bool {
	_, who := m.reservation(x)
	if m.nodes[x] != "" || who.Name != "" && who != o.req.Service {
		return false
	}
	outside := m.anywhere(o, x)
	for _, p := range m.pools {
		if asked := m.asked(&o.req); o.req.Pool != "" && (asked == nil || asked.Key != p.Key) {
			continue
		}
		gives := m.works(p) && !p.Disabled && p.Admits(&o.req)
		if gives && slices.Contains(o.req.Dialects, p.Key.Dialect) && slices.Contains(members(p), x) {
			if m.quotaAllows(p, o, x) {
				return true
			}
			outside = false
		} else if (gives || !p.GivesByName) && slices.Contains(members(p), x) {
			outside = false // it is for others
		}
	}
	return outside
}

func (m *model) asked(r *lb.Request) *lb.Pool {
	for _, d := range r.Dialects {
		for _, p := range m.pools {
			if p.Key == (lb.PoolKey{Dialect: d, Name: r.Pool}) {
				return &p
			}
		}
	}
	return nil
}

func (m *model) works(p lb.Pool) bool { return p.Invalid == nil && !m.refused[p.Key] }

func (m *model) exclusive(x netip.Addr) bool {
	return slices.ContainsFunc(m.pools, func(p lb.Pool) bool { return p.Exclusive && m.works(p) && slices.Contains(members(p), x) })
}

func (m *model) reservation(x netip.Addr) (by lb.PoolKey, who types.NamespacedName) {
	for _, p := range m.pools {
		if n, ok := p.Reserved[x]; ok && m.works(p) && slices.Contains(members(p), x) {
			return p.Key, n
		}
	}
	return lb.PoolKey{}, types.NamespacedName{}
}

func (m *model) holders(x netip.Addr) (out []*owner) {
	for _, o := range m.byAge() {
		if o.has[lb.FamilyOf(x)] == x {
			out = append(out, o)
		}
	}
	return out
}

// rival returns the oldest other holder of x that o cannot share it with.
func (m *model) rival(o *owner, x netip.Addr) *owner {
	for _, h := range m.holders(x) {
		if h == o {
			continue
		}
		f := lb.FamilyOf(x)
		only := o.req.ShareOnly != nil && *o.req.ShareOnly != f || h.req.ShareOnly != nil && *h.req.ShareOnly != f
		shares := !only && o.req.ShareKey != "" && h.req.ShareKey == o.req.ShareKey && h.req.Backends == o.req.Backends
		if !shares || slices.ContainsFunc(o.req.Ports, func(p lb.Port) bool { return slices.Contains(h.req.Ports, p) }) {
			return h
		}
	}
	return nil
}

func (m *model) quotaAllows(p lb.Pool, o *owner, x netip.Addr) bool {
	ns := o.req.Service.Namespace
	held := slices.ContainsFunc(m.holders(x), func(h *owner) bool { return h.req.Service.Namespace == ns })
	return p.Quota == 0 || held || m.count(p, ns) < p.Quota
}
func (m *model) count(p lb.Pool, namespace string) (n int) {
	for _, x := range members(p) {
		if slices.ContainsFunc(m.holders(x), func(h *owner) bool { return h.req.Service.Namespace == namespace }) {
			n++
		}
	}
	return n + m.countLeases(p, namespace)
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
