package agent

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/agent/write"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// fakeRouters take what they are told.
type fakeRouters struct {
	mu      sync.Mutex
	peers   []lb.Peer
	tables  map[string]bgp.Table
	history []string
	sets    int // calls of Set
	stopped string
}

func (f *fakeRouters) Follow([]link.Link)    {}
func (f *fakeRouters) News() <-chan struct{} { return nil }
func (f *fakeRouters) Close()                {}

func (f *fakeRouters) Freeze(context.Context) ([]byte, []int) { return nil, nil }
func (f *fakeRouters) Continue([]byte, []int)                 {}

func (f *fakeRouters) Set(_ netip.Addr, peers []lb.Peer, tables map[string]bgp.Table) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.peers, f.tables = peers, tables
	f.sets++
	if text := f.text(); len(f.history) == 0 || f.history[len(f.history)-1] != text {
		f.history = append(f.history, text)
	}
}

func (f *fakeRouters) Statuses() (out []PeerStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		s := PeerStatus{Name: p.Name, Peer: p}
		s.State, s.Synced = bgp.Established, true
		out = append(out, s)
	}
	return out
}

func (f *fakeRouters) Stop(_ context.Context, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped, f.peers = why, nil
}

// text is all tables in a line.
func (f *fakeRouters) text() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(f.tables)) {
		for _, p := range slices.SortedFunc(maps.Keys(f.tables[name]), netip.Prefix.Compare) {
			a := f.tables[name][p]
			text := fmt.Sprintf("%s %s", name, p)
			if a.Draining {
				text += " draining"
			}
			if a.LocalPref > 0 {
				text += fmt.Sprintf(" %d", a.LocalPref)
			}
			for _, c := range a.Communities {
				text += " " + c.String()
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

// sessions are the names of the peers that there are.
func (f *fakeRouters) sessions() (out []string) {
	for _, s := range f.Statuses() {
		out = append(out, s.Name)
	}
	return out
}

func (f *fakeRouters) now() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text()
}

// routedPools has the address of the Service in a pool with these routes and peers.
func routedPools(routes []lb.Route, peers ...lb.Peer) *sources.Pools {
	p := sources.NewPools([]lb.Pool{{Key: lb.PoolKey{Dialect: lb.Native, Name: "edge"}, Spans: []netipx.IPRange{netipx.IPRangeFrom(vip, vip)}, Routes: routes}}, nil)
	p.Peers = peers
	return p
}

func plainRoute(change ...func(*lb.Route)) lb.Route {
	r := lb.Route{Name: "edge", Aggregation: [...]int{lb.IPv4: 32, lb.IPv6: 128}}
	for _, f := range change {
		f(&r)
	}
	return r
}

// startRouted runs the loop with routers.
func startRouted(t *testing.T, cluster *fakeCluster, routes ...lb.Route) (*running, *fakeRouters) {
	t.Helper()
	routers := &fakeRouters{}
	r := start(t, cluster, []string{"b"}, func(p *parts) { p.routers = routers })
	if len(routes) == 0 {
		routes = []lb.Route{plainRoute()}
	}
	r.poolsAre(routedPools(routes, lb.Peer{Name: "tor"}))
	after(5 * time.Second)
	return r, routers
}

// poolsAre replaces the pools while the loop waits.
func (r *running) poolsAre(p *sources.Pools) {
	synctest.Wait()
	r.directory.pools, r.allDirty, r.routesDirty = p, true, true
	write.Wake(r.poke)
}

func expectRoutes(t *testing.T, f *fakeRouters, want string) {
	t.Helper()
	if got := f.now(); got != want {
		t.Errorf("announced is %q, want %q", got, want)
	}
}

// Next hops, and addresses that sessions begin at, may come with an interface: sessions are
// looked at again.
func TestRoutesFollowInterfaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, routers := startRouted(t, newCluster())
		before := routers.sets
		changed := eth0("a")
		changed.Prefixes = append(slices.Clone(changed.Prefixes), netip.MustParsePrefix("2001:db8::11/64"))
		r.kernel.SetLinks(changed)
		after(time.Second)
		routers.mu.Lock()
		defer routers.mu.Unlock()
		if routers.sets == before {
			t.Error("routers hear nothing of an address that came")
		}
	})
}

// A node announces an address that is served somewhere, unless something about the node keeps
// it from doing so. It is not on an interface, and not claimed.
func TestRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster()
		r, routers := startRouted(t, cluster)
		plain := "tor " + vip.String() + "/32"
		expectRoutes(t, routers, plain)
		if len(r.kernel.Ours()) > 0 {
			t.Errorf("addresses on interfaces: %v", r.kernel.Ours())
		}
		if _, claimed := r.group.own(vip); claimed {
			t.Error("the address is claimed")
		}
		if v, _ := r.tables.VIP(vip); v.Unclaimed || len(v.Interfaces) > 0 {
			t.Errorf("the tables say %+v", v)
		}
		if got := r.tables.Routed(); len(got) != 1 || got[0].From() != vip || got[0].To() != vip {
			t.Errorf("refused are %v", got)
		}
		node := func(change func(*corev1.Node)) {
			n := nodeObject("a", "192.0.2.1")
			change(n)
			cluster.put(n)
			r.changed(n)
			after(time.Second)
		}
		node(func(n *corev1.Node) { n.Spec.Unschedulable = true })
		expectRoutes(t, routers, plain+" draining")
		node(func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} })
		expectRoutes(t, routers, "")
		node(func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue})
		})
		expectRoutes(t, routers, "")
		node(func(*corev1.Node) {})
		expectRoutes(t, routers, plain)

		// No pod serves any more; packets that still come are not sent back for a while.
		gone := sliceOf("web", "web-1")
		cluster.put(gone)
		r.changed(gone)
		after(time.Second)
		expectRoutes(t, routers, "")
		if len(r.tables.Routed()) != 1 {
			t.Error("a withdrawn address may loop at once")
		}
		after(routeGrace + time.Second)
		if got := r.tables.Routed(); len(got) > 0 {
			t.Errorf("refused for ever: %v", got)
		}
	})
}

// With policy Local only nodes with a pod announce.
func TestRoutesLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster()
		web := serviceOf("web", 1, "", 80, vip.String())
		web.Spec.Type, web.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
		cluster.put(web)
		r, routers := startRouted(t, cluster)
		expectRoutes(t, routers, "")
		here := sliceOf("web", "web-1", "a")
		cluster.put(here)
		r.changed(here)
		after(time.Second)
		expectRoutes(t, routers, "tor "+vip.String()+"/32")
	})
}

// An agent that ends has routers prefer other nodes, then withdraws, then ends its sessions.
func TestRoutesOfALeavingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, routers := startRouted(t, newCluster())
		plain := "tor " + vip.String() + "/32"
		expectRoutes(t, routers, plain)
		began := time.Now()
		r.end()
		<-r.ended
		if took := time.Since(began); took < drainTime+withdrawTime || took > leaveDeadline {
			t.Errorf("it took %v", took)
		}
		if routers.stopped == "" {
			t.Error("routers were not told")
		}
		if got := routers.history[len(routers.history)-3:]; !slices.Equal(got, []string{plain, plain + " draining", ""}) {
			t.Errorf("routers heard %q", got)
		}
	})
}

// Where a peer takes few prefixes, the oldest Services have them, whenever an agent came to know
// of them.
func TestRoutesAreAsOldAsTheirServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		born := time.Unix(1000, 0)
		old := netip.MustParseAddr("192.0.2.51")
		pools := sources.NewPools([]lb.Pool{{Key: lb.PoolKey{Dialect: lb.Native, Name: "edge"}, Spans: []netipx.IPRange{netipx.IPRangeFrom(vip, vip), netipx.IPRangeFrom(old, old)}, Routes: []lb.Route{plainRoute()}}}, nil)
		pools.Peers = []lb.Peer{{Name: "tor", MaxPrefixes: 1}}
		service := func(name, uid string, addr netip.Addr, age time.Duration) *corev1.Service {
			s := serviceOf(name, 1, uid, 80, addr.String())
			s.Spec.Type, s.CreationTimestamp = corev1.ServiceTypeLoadBalancer, metav1.NewTime(born.Add(-age))
			return s
		}
		cluster := newCluster()
		cluster.put(service("web", "", vip, time.Hour))
		r, routers := startRouted(t, cluster)
		r.poolsAre(pools)
		after(time.Minute)
		earlier, slice := service("shop", "2", old, 24*time.Hour), sliceOf("shop", "shop-1", "b")
		cluster.put(earlier, slice)
		r.changed(earlier, slice)
		after(time.Second)
		routers.mu.Lock()
		table := routers.tables["tor"]
		routers.mu.Unlock()
		for addr, age := range map[netip.Addr]time.Duration{vip: time.Hour, old: 24 * time.Hour} {
			if got, has := table[netip.PrefixFrom(addr, 32)]; !has || !got.Since.Equal(born.Add(-age)) {
				t.Errorf("%s is announced since %v (%t)", addr, got.Since, has)
			}
		}
	})
}

// What several addresses make of an aggregate, and of the attributes.
func TestTablesOfAggregates(t *testing.T) {
	one, two := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	all := netip.MustParsePrefix("192.0.2.0/24")
	paths := func(a netip.Addr, communities ...lb.Community) []lb.Path {
		p, _ := lb.Paths(a, []labels.Set{{}}, nil, []lb.Route{plainRoute(func(r *lb.Route) { r.Aggregation[lb.IPv4], r.Communities = 24, communities })}, []string{"tor"})
		return p
	}
	tables := map[string]bgp.Table{"tor": {}}
	since := time.Unix(1, 0)
	fillTables(tables, map[netip.Addr]*routedAddr{
		one: {paths: paths(one, lb.Community{A: 1, B: 2}), reach: elect.Draining, created: since},
		two: {paths: paths(two, lb.Community{A: 3, B: 4}), reach: elect.Reached, created: since.Add(time.Hour)},
	})
	got := tables["tor"][all]
	if len(tables["tor"]) != 1 || got.Draining || got.Since != since || len(got.Communities) != 2 {
		t.Errorf("%+v", tables)
	}
}
