package ipam

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go4.org/netipx"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"

	"fairlead.io/internal/lb"
)

// A small universe, so that everything collides with everything: two ranges per
// family, one of them across a .255/.0 boundary.
var universe = func() (all []netip.Addr) {
	for _, s := range []string{"192.0.2.253-192.0.3.2", "198.51.100.1-198.51.100.4", "2001:db8::-2001:db8::4", "2001:db8:1::-2001:db8:1::3"} {
		r := span(s)
		for x := r.From(); x.Compare(r.To()) <= 0; x = x.Next() {
			all = append(all, x)
		}
	}
	return all
}()

// What can be published beside it.
var strange = []netip.Addr{addr("10.0.0.1"), addr("127.0.0.1"), addr("::1"), addr("2001:db8:ffff::1")}

var names = []types.NamespacedName{
	{Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "b"}, {Namespace: "shop", Name: "c"}, {Namespace: "shop", Name: "d"},
	{Namespace: "web", Name: "a"}, {Namespace: "web", Name: "b"}, {Namespace: "web", Name: "c"},
}

// rarely is true once in n draws.
func rarely(t *rapid.T, n int, what string) bool { return rapid.IntRange(1, n).Draw(t, what) == n }

func drawPools(t *rapid.T) (pools []lb.Pool) {
	var all, single netipx.IPSetBuilder
	for _, key := range []lb.PoolKey{{Dialect: lb.Native, Name: "a"}, {Dialect: lb.Native, Name: "b"}, {Dialect: "metallb", Name: "a"}, {Dialect: "metallb", Name: "c"}} {
		if rarely(t, 3, "no pool") {
			continue
		}
		p := lb.Pool{
			Key:          key,
			Created:      time.Unix(int64(rapid.IntRange(0, 2).Draw(t, "pool created")), 0),
			Descending:   rarely(t, 3, "descending"),
			ManualOnly:   rarely(t, 5, "manual"),
			Disabled:     rarely(t, 6, "disabled"),
			Exclusive:    rarely(t, 5, "exclusive"),
			MayOverlap:   !rarely(t, 4, "must not overlap"),
			SkipIPv4Ends: rarely(t, 3, "skip"),
			SinglePool:   rapid.Bool().Draw(t, "single pool"),
			GivesByName:  rarely(t, 4, "gives by name"),
			Pinned:       rarely(t, 3, "pinned"),
			Priority:     int32(rapid.IntRange(0, 2).Draw(t, "priority")),
		}
		if rarely(t, 4, "quota") {
			p.Quota = rapid.IntRange(1, 3).Draw(t, "quota of")
		}
		if rarely(t, 5, "namespaced") {
			p.Namespaces = sets.New("shop")
		}
		if rarely(t, 6, "except") {
			p.Except = sets.New("web")
		}
		if !p.SinglePool && rarely(t, 4, "dhcp") {
			p.DHCP[rapid.SampledFrom(lb.Families[:]).Draw(t, "by dhcp")] = true
		}
		if rarely(t, 6, "selector") {
			p.ServiceSelectors = []labels.Selector{labels.Set{"tier": "gold"}.AsSelector()}
		}
		if rarely(t, 10, "invalid") {
			r := lb.PoolInvalid.With("broken")
			p.Invalid = &r
		}
		var b netipx.IPSetBuilder
		for range rapid.IntRange(1, 3).Draw(t, "spans") {
			from := rapid.IntRange(0, len(universe)-1).Draw(t, "from")
			to := min(len(universe)-1, from+rapid.IntRange(0, 4).Draw(t, "length"))
			for _, x := range universe[from : to+1] {
				b.Add(x)
			}
		}
		if p.SinglePool {
			p.MayOverlap = false
		}
		switch { // or all SinglePools would be refused
		case rarely(t, 8, "overlaps"):
		case p.SinglePool:
			b.RemoveSet(must(all.IPSet()))
		default:
			b.RemoveSet(must(single.IPSet()))
		}
		set := must(b.IPSet())
		if all.AddSet(set); p.SinglePool {
			single.AddSet(set)
		}
		p.Spans = set.Ranges()
		if !p.SinglePool && rarely(t, 4, "withholds") {
			p.Withheld = rapid.SliceOfN(rapid.SampledFrom(universe), 1, 3).Draw(t, "withheld")
		}
		if !p.SinglePool && rarely(t, 3, "reserves") {
			p.Reserved = map[netip.Addr]types.NamespacedName{rapid.SampledFrom(universe).Draw(t, "reserved"): rapid.SampledFrom(names).Draw(t, "for")}
		}
		pools = append(pools, p)
	}
	return pools
}

func drawRequest(t *rapid.T, n types.NamespacedName) lb.Request {
	r := lb.Request{
		Service:  n,
		UID:      types.UID(n.String()),
		Created:  time.Unix(int64(slices.Index(names, n)*7%4), 0),
		Dialects: rapid.SampledFrom([][]lb.Dialect{{lb.Native}, {"metallb"}, {lb.Native, "metallb"}, {"metallb", lb.Native}}).Draw(t, "dialects"),
		Policy:   rapid.SampledFrom([]lb.FamilyPolicy{lb.SingleStack, lb.PreferDualStack, lb.RequireDualStack}).Draw(t, "policy"),
		Families: rapid.SampledFrom([][]lb.Family{{lb.IPv4}, {lb.IPv6}, {lb.IPv4, lb.IPv6}, {lb.IPv6, lb.IPv4}}).Draw(t, "families"),

		Reallocate: rarely(t, 4, "reallocate"),
	}
	if rarely(t, 10, "another UID") {
		r.UID += "-2"
	}
	if rarely(t, 3, "named") {
		for range rapid.IntRange(1, 2).Draw(t, "how many") {
			r.Addresses = append(r.Addresses, rapid.SampledFrom(universe).Draw(t, "address"))
		}
	}
	if rarely(t, 4, "pool") {
		r.Pool = rapid.SampledFrom([]string{"a", "b", "c", "nowhere"}).Draw(t, "pool name")
	}
	if rarely(t, 4, "from") {
		r.From = rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 2).Draw(t, "from pools")
	}
	if rarely(t, 3, "gold") {
		r.Labels = labels.Set{"tier": "gold"}
	}
	if rarely(t, 2, "shares") {
		r.ShareKey = rapid.SampledFrom([]string{"k", "j"}).Draw(t, "key")
		r.Backends = rapid.SampledFrom([]string{"", "", "app=x"}).Draw(t, "backends")
		r.Alone = rarely(t, 4, "alone")
		if rarely(t, 3, "shares among some") {
			r.ShareAmong = rapid.SampledFrom([]string{"m", "n"}).Draw(t, "among")
		}
		if rarely(t, 4, "shares one family") {
			r.ShareOnly = &lb.Families[lb.IPv4]
		}
	}
	r.Anywhere = rarely(t, 3, "anywhere")
	if r.Anywhere && rarely(t, 3, "outside") {
		r.Addresses = append(r.Addresses, rapid.SampledFrom([]netip.Addr{strange[0], strange[3]}).Draw(t, "outside address"))
	}
	if rarely(t, 6, "asks for dhcp") {
		r.DHCP[rapid.SampledFrom(lb.Families[:]).Draw(t, "asked by dhcp")] = true
	}
	if rarely(t, 4, "leased") {
		r.Leased = rapid.SliceOfN(rapid.SampledFrom(append([]netip.Addr{strange[0], strange[3]}, universe...)), 1, 2).Draw(t, "leases")
	}
	r.Ports = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lb.Port {
		return lb.Port{Protocol: "TCP", Number: uint16(rapid.IntRange(1, 4).Draw(t, "port"))}
	}), 1, 2).Draw(t, "ports")
	if rarely(t, 12, "not understood") {
		reason := lb.InvalidRequest.With("what")
		r.Invalid = &reason
	}
	return r
}

// world is an allocator, the model, and what is published about Services. The
// publishing is late: a status shows any verdict since it was last written.
type world struct {
	a      *Allocator
	m      *model
	pools  []lb.Pool
	owners Owners
	status map[types.NamespacedName][]netip.Addr
	told   map[types.NamespacedName]lb.Verdict // what changed lists imply
}

// TestAgainstModel does anything that can be done, and checks after each step
// that the allocator answers as the model does, that it told of every change,
// and that its books are right.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{a: New(), m: newModel(), status: map[types.NamespacedName][]netip.Addr{}, told: map[types.NamespacedName]lb.Verdict{}}
		w.setPools(t)
		t.Repeat(map[string]func(*rapid.T){
			"":          w.check,
			"set pools": w.setPools,
			"set nodes": w.setNodes,
			"settle":    w.settle,
			"settle 2":  w.settle, // twice as often as the rest
			"settle 3":  w.settle,
			"again":     w.again,
			"publish":   w.publish,
			"tamper":    w.tamper,
			"forget":    w.forget,
			"restart":   w.restart,
		})
	})
}

func (w *world) hear(changed []types.NamespacedName) {
	for _, n := range changed {
		w.told[n], _ = w.a.Verdict(n)
	}
}

func (w *world) setPools(t *rapid.T) {
	w.pools = drawPools(t)
	w.hear(w.a.SetPools(w.pools))
	w.m.setPools(w.pools)
}

func (w *world) setNodes(t *rapid.T) {
	w.owners = Owners{Nodes: map[netip.Addr]string{}, Others: map[netip.Addr]string{}}
	out := map[netip.Addr]string{} // of what is free, whoever's it is
	for _, x := range rapid.SliceOfN(rapid.SampledFrom(universe), 0, 2).Draw(t, "nodes") {
		out[x] = "worker"
		switch rapid.IntRange(0, 2).Draw(t, "whose") {
		case 0:
			w.owners.Nodes[x] = "worker"
		case 1:
			w.owners.Others[x] = "the gateway of node worker"
		case 2:
			n := Network{netip.PrefixFrom(x, x.BitLen()-1).Masked(), "a network"}
			w.owners.Networks = append(w.owners.Networks, n)
			for _, y := range universe {
				if n.Contains(y) {
					out[y] = "worker"
				}
			}
		}
	}
	w.hear(w.a.SetOwners(w.owners))
	w.m.setNodes(out)
}

func (w *world) settle(t *rapid.T) {
	n := rapid.SampledFrom(names).Draw(t, "name")
	r := drawRequest(t, n)
	if o := w.m.services[n]; o != nil && o.req.UID != r.UID {
		delete(w.status, n)
	}
	w.settleWith(t, r)
}

// again reconciles a Service that has not changed.
func (w *world) again(t *rapid.T) {
	n := rapid.SampledFrom(names).Draw(t, "name")
	if o := w.m.services[n]; o != nil {
		w.settleWith(t, o.req)
	}
}

func (w *world) settleWith(t *rapid.T, r lb.Request) {
	var had [len(lb.Families)]netip.Addr
	if s := w.a.services[r.Service]; s != nil {
		had = s.has
	}
	v, changed := w.a.Settle(r, w.status[r.Service])
	if s := w.a.services[r.Service]; s.has != had && len(v.Addresses) > len(w.status[r.Service]) && !w.a.compatible(s, s.has[lb.IPv4], s.has[lb.IPv6]) {
		t.Errorf("%s: given %v from two pools of which one is SinglePools", r.Service, v.Addresses)
	}
	w.told[r.Service] = v
	w.hear(changed)
	if slices.Contains(changed, r.Service) {
		t.Errorf("%s is among the others", r.Service)
	}
	w.m.settle(r, w.status[r.Service])
	w.a.Contests()
	again, changed := w.a.Settle(r, w.status[r.Service])
	w.m.settle(r, w.status[r.Service])
	if !sameVerdict(&v, &again) || changed != nil || len(w.a.Contests()) > 0 {
		t.Errorf("%s: not idempotent: %v, then %v, changed %v", r.Service, v, again, changed)
	}
}

func (w *world) publish(t *rapid.T) {
	n := rapid.SampledFrom(names).Draw(t, "name")
	if v, ok := w.a.Verdict(n); ok {
		w.status[n] = v.Addresses
	}
}

func (w *world) tamper(t *rapid.T) {
	n := rapid.SampledFrom(names).Draw(t, "name")
	if o := w.m.services[n]; o != nil {
		w.status[n] = rapid.SliceOfN(rapid.SampledFrom(append(slices.Clone(strange), universe...)), 0, 3).Draw(t, "published")
		w.settleWith(t, o.req)
	}
}

func (w *world) forget(t *rapid.T) {
	n := rapid.SampledFrom(names).Draw(t, "name")
	delete(w.status, n)
	delete(w.told, n)
	w.hear(w.a.Forget(n))
	w.m.forget(n)
}

// restart loses everything but what is published, and imports in any order,
// with the pools first or last.
func (w *world) restart(t *rapid.T) {
	var all []lb.Request
	for _, o := range w.m.byAge() {
		all = append(all, o.req)
	}
	if rapid.Bool().Draw(t, "published before") {
		for n := range w.m.services {
			if v, ok := w.a.Verdict(n); ok {
				w.status[n] = v.Addresses
			}
		}
	}
	w.a, w.told = New(), map[types.NamespacedName]lb.Verdict{}
	steps := []func(){
		func() { w.hear(w.a.SetPools(w.pools)) },
		func() { w.hear(w.a.SetOwners(w.owners)) },
	}
	// What needs no pool would be taken before they are there.
	needless := func(r lb.Request) bool { return r.Anywhere || len(r.Leased) > 0 || choosy(&r) }
	late := rapid.Bool().Draw(t, "pools last") && !slices.ContainsFunc(all, needless)
	if !late {
		for _, step := range steps {
			step()
		}
	}
	for _, r := range rapid.Permutation(all).Draw(t, "order") {
		w.a.Import(r, w.status[r.Service])
	}
	w.hear(w.a.SettleAll())
	if late {
		// Nodes before pools: what has been given cannot be taken back.
		steps[1]()
		steps[0]()
	}
	w.a.Contests()
	w.m.restart(w.status)
}

func (w *world) check(t *rapid.T) {
	checkInvariants(t, w.a)
	for _, o := range w.m.byAge() {
		want := o.told
		v, ok := w.a.Verdict(o.req.Service)
		if !ok || !slices.Equal(v.Addresses, want) {
			t.Errorf("%s has %v, want %v; %s", o.req.Service, v.Addresses, want, v.Reason)
		}
		if told := w.told[o.req.Service]; !sameVerdict(&v, &told) {
			t.Errorf("%s: was told %v, but is %v", o.req.Service, told, v)
		}
		out := slices.ContainsFunc(want, func(x netip.Addr) bool {
			return !w.m.inPool(o, x) && !o.leased[lb.FamilyOf(x)] && !w.m.anywhere(o, x)
		})
		if v.Reason.Code == lb.Ready && out || v.Reason.Code == lb.OutOfPool && !out {
			t.Errorf("%s: out of pool is %v, but %s", o.req.Service, out, v.Reason)
		}
		if o.req.Invalid == nil && v.DHCP != o.leased {
			t.Errorf("%s: by DHCP %v, want %v; %s", o.req.Service, v.DHCP, o.leased, v.Reason)
		}
		if v.Reason.Code == lb.OutsidePools && !slices.ContainsFunc(want, func(x netip.Addr) bool { return w.m.anywhere(o, x) && !w.m.inPool(o, x) }) {
			t.Errorf("%s: %s, but has %v", o.req.Service, v.Reason, want)
		}
		if v.Reason.Code == lb.Ready && len(want) != len(wanted(&o.req)) {
			t.Errorf("%s: ready with %v", o.req.Service, want)
		}
	}
	if len(w.a.services) != len(w.m.services) {
		t.Errorf("%d Services, want %d", len(w.a.services), len(w.m.services))
	}
	n := 0
	for _, c := range w.a.CountByReason() {
		n += c
	}
	if n != len(w.m.services) {
		t.Errorf("%d counted by reason, want %d", n, len(w.m.services))
	}
}

// TestGiveAndTakeBack: to settle and to forget is to do nothing.
func TestGiveAndTakeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := New()
		a.SetPools(drawPools(t))
		for _, n := range names[:4] {
			a.Settle(drawRequest(t, n), nil)
		}
		before := books(a)
		r := drawRequest(t, names[5])
		a.Settle(r, nil)
		a.Forget(r.Service)
		if after := books(a); after != before {
			t.Errorf("before %s\nafter  %s", before, after)
		}
	})
}

// books writes down all that is free and held.
func books(a *Allocator) string {
	s := fmt.Sprint(a.waiters, len(a.shared), len(a.held))
	for _, p := range a.pools {
		s += fmt.Sprint(" ", p.name, p.used, p.out, p.perNamespace)
		for _, f := range lb.Families {
			p.free[f].tree.Ascend(func(i interval) bool {
				s += fmt.Sprint(p.addr(f, i.from), "-", p.addr(f, i.to), ",")
				return true
			})
		}
	}
	for _, n := range slices.SortedFunc(maps.Keys(a.services), func(x, y types.NamespacedName) int {
		return slices.Index(names, x) - slices.Index(names, y)
	}) {
		s += fmt.Sprint(" ", n, a.services[n].has)
	}
	return s
}
