package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/member"
)

// useMetalLB has d know the pool "edge" of MetalLB's kind with 10.20.30.0/24, and
// advertisements, each the spec of one.
func useMetalLB(t *testing.T, d *directory, pool bool, specs ...string) []lb.Pool {
	t.Helper()
	o := metallb.Objects{Namespace: "metallb-system"}
	if pool {
		o.Pools = []apimetallb.IPAddressPool{{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: "edge", Labels: map[string]string{"zone": "edge"}},
			Spec:       apimetallb.IPAddressPoolSpec{Addresses: []string{"10.20.30.0/24"}},
		}}
	}
	for i, spec := range specs {
		ad := apimetallb.L2Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: fmt.Sprintf("ad-%d", i)}}
		if err := yaml.UnmarshalStrict([]byte(spec), &ad.Spec); err != nil {
			t.Fatal(err)
		}
		o.Advertisements = append(o.Advertisements, ad)
	}
	pools, problems := o.Translate()
	for _, p := range problems {
		if !p.Reason.Ready() {
			t.Fatal(p)
		}
	}
	d.pools = sources.NewPools(pools, func(pool lb.FormerPool) []lb.Advertisement { return o.Orphans(pool.Key.Name, pool.Labels) })
	return pools
}

// voters are nodes with these names, the label kubernetes.io/hostname, and two
// interfaces.
func voters(ignoreLabel bool, change func(*corev1.Node), names ...string) []elect.Node {
	var out []elect.Node
	for _, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		if change != nil {
			change(n)
		}
		v := sources.Voter(n)
		v.Excluded = v.Excluded && !ignoreLabel
		fill(&v, member.Meta{Eligible: true, Links: []member.Link{{Name: "eth0", V4: true}, {Name: "eth1", V4: true}}})
		out = append(out, v)
	}
	return out
}

// on is an L2Advertisement's nodeSelectors that are for one node.
func on(node string) string {
	return "nodeSelectors: [{matchLabels: {kubernetes.io/hostname: " + node + "}}]"
}

// exclude labels the named nodes.
func exclude(names ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		for _, name := range names {
			if n.Name == name {
				n.Labels[corev1.LabelNodeExcludeBalancers] = ""
			}
		}
	}
}

// Which of two nodes MetalLB's speakers would announce a Service from.
func TestAnnouncedAsByMetalLB(t *testing.T) {
	const all = "{}"
	refuse := func(o elect.Obstacle, names ...string) (out []elect.Refusal) {
		for _, n := range names {
			out = append(out, elect.Refusal{Node: n, Why: o})
		}
		return out
	}
	for _, test := range []struct {
		name      string
		address   string // 10.20.30.1 if empty
		local     bool
		endpoints string // as for sliceOf
		labels    map[string]string
		notes     map[string]string
		ads       []string
		gone      bool              // the pool
		had       map[string]string // its labels, as our condition has them
		nodes     func(*corev1.Node)
		ignore    bool // the exclude label
		owner     string
		why       elect.Why
		refusals  []elect.Refusal
		on        string // the owner's interfaces
	}{
		{name: "Local, one node serves", local: true, endpoints: "iris1", ads: []string{all}, owner: "iris1"},
		{name: "Local, none serves", local: true, endpoints: "-iris1 -iris2", ads: []string{all}, why: elect.NoEndpoint},
		{name: "Local, both serve", local: true, endpoints: "iris1 iris2", ads: []string{all}, owner: "iris2"},
		{name: "Local, both serve, another address", address: "10.20.30.2", local: true, endpoints: "iris1 iris2", ads: []string{all}, owner: "iris1"},
		{name: "Local, both have pods, one of which serves", local: true, endpoints: "iris1 -iris2", ads: []string{all}, owner: "iris1"},
		{name: "Local, how many pods does not matter", local: true, endpoints: "iris1 iris1 iris1 iris2", ads: []string{all}, owner: "iris2"},
		{name: "Local, one ready and one not on a node", local: true, endpoints: "-iris2 iris2 iris1", ads: []string{all}, owner: "iris2"},
		{name: "no endpoints at all", ads: []string{all}, why: elect.NoEndpoint},

		{name: "Cluster, pods elsewhere", endpoints: "iris1", ads: []string{all}, owner: "iris2"},
		{name: "Cluster, advertised from one node", endpoints: "iris1", ads: []string{"{" + on("iris1") + "}"}, owner: "iris1"},
		{name: "Local, advertised from the other node", local: true, endpoints: "iris1", ads: []string{"{" + on("iris2") + "}"}, why: elect.NoNode,
			refusals: append(refuse(elect.NotSelected, "iris1"), refuse(elect.NoLocalEndpoint, "iris2")...)},
		{name: "two advertisements, one for each node", endpoints: "iris1", ads: []string{"{" + on("iris1") + "}", "{" + on("iris2") + "}"}, owner: "iris2"},
		{name: "no advertisement", endpoints: "iris1", why: elect.NotAdvertised},
		{name: "an advertisement of another pool", endpoints: "iris1", ads: []string{"{ipAddressPools: [core]}"}, why: elect.NotAdvertised},
		{name: "an advertisement by the pool's labels", endpoints: "iris1", ads: []string{"{ipAddressPoolSelectors: [{matchLabels: {zone: edge}}]}"}, owner: "iris2"},

		{name: "an excluded node", endpoints: "iris1", ads: []string{all}, nodes: exclude("iris2"), owner: "iris1"},
		{name: "both excluded", endpoints: "iris1", ads: []string{all}, nodes: exclude("iris1", "iris2"), why: elect.NoNode, refusals: refuse(elect.Excluded, "iris1", "iris2")},
		{name: "both excluded, which does not count", endpoints: "iris1", ads: []string{all}, nodes: exclude("iris1", "iris2"), ignore: true, owner: "iris2"},
		{name: "no network", endpoints: "iris1", ads: []string{all}, owner: "iris1", nodes: func(n *corev1.Node) {
			if n.Name == "iris2" {
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}
			}
		}},

		{name: "for this Service from one node, for others from the other", endpoints: "iris1", labels: map[string]string{"app": "foo"}, owner: "iris1", ads: []string{
			"{serviceSelectors: [{matchLabels: {app: foo}}], " + on("iris1") + "}", "{serviceSelectors: [{matchLabels: {app: bar}}], " + on("iris2") + "}"}},
		{name: "for others from all nodes, for this from one that is not there", endpoints: "iris1", labels: map[string]string{"app": "foo"}, why: elect.NoNode,
			refusals: refuse(elect.NotSelected, "iris1", "iris2"), ads: []string{
				"{serviceSelectors: [{matchLabels: {app: bar}}]}", "{serviceSelectors: [{matchLabels: {app: foo}}], " + on("ghost") + "}"}},
		{name: "only for others", endpoints: "iris1", labels: map[string]string{"app": "foo"}, why: elect.NotAdvertised, ads: []string{"{serviceSelectors: [{matchLabels: {app: bar}}]}"}},
		{name: "any of the selectors", endpoints: "iris1", labels: map[string]string{"app": "foo"}, owner: "iris2", ads: []string{
			"{serviceSelectors: [{matchLabels: {app: bar}}, {matchLabels: {app: foo}}]}"}},
		{name: "for this Service from each node on its own interface", endpoints: "iris1", labels: map[string]string{"app": "foo"}, owner: "iris2", on: "eth1", ads: []string{
			"{serviceSelectors: [{matchLabels: {app: foo}}], interfaces: [eth0], " + on("iris1") + "}", "{serviceSelectors: [{matchLabels: {app: foo}}], interfaces: [eth1], " + on("iris2") + "}"}},
		{name: "may be shared, and for some only", endpoints: "iris1", labels: map[string]string{"app": "foo"}, notes: map[string]string{metallb.AnnotationShare: "k"}, why: elect.Unshareable, ads: []string{
			"{serviceSelectors: [{matchLabels: {app: foo}}]}"}},
		{name: "may be shared, by the prefix of old", endpoints: "iris1", labels: map[string]string{"app": "foo"}, notes: map[string]string{"metallb.universe.tf/allow-shared-ip": "k"}, why: elect.Unshareable, ads: []string{
			"{serviceSelectors: [{matchLabels: {app: foo}}]}", all}},
		{name: "may be shared, by our own annotation", endpoints: "iris1", labels: map[string]string{"app": "foo"}, notes: map[string]string{native.AnnotationShare: "k"}, why: elect.Unshareable, ads: []string{
			"{serviceSelectors: [{matchLabels: {app: foo}}]}"}},
		{name: "may be shared, and what is for some is for others", endpoints: "iris1", labels: map[string]string{"app": "foo"}, notes: map[string]string{metallb.AnnotationShare: "k"}, owner: "iris2", ads: []string{
			"{serviceSelectors: [{matchLabels: {app: bar}}]}", all}},
		{name: "may be shared, and for all", endpoints: "iris1", notes: map[string]string{metallb.AnnotationShare: "k"}, owner: "iris2", ads: []string{all}},

		{name: "interfaces add up", endpoints: "iris1", ads: []string{"{interfaces: [eth0, eth1]}", "{interfaces: [eth0, eth2]}"}, owner: "iris2", on: "eth0 eth1 eth2"},
		{name: "and one without", endpoints: "iris1", ads: []string{"{interfaces: [eth0]}", all}, owner: "iris2"},
		{name: "an interface that is nowhere", endpoints: "iris1", ads: []string{"{interfaces: [foo]}"}, why: elect.NoNode, refusals: refuse(elect.NoInterface, "iris1", "iris2")},

		{name: "preferred", endpoints: "iris1", owner: "iris1", ads: []string{"{preferredNodeSelectors: [{weight: 100, preference: {matchLabels: {kubernetes.io/hostname: iris1}}}]}"}},
		{name: "preferred, but has no pods", local: true, endpoints: "iris2", owner: "iris2", ads: []string{"{preferredNodeSelectors: [{weight: 100, preference: {matchLabels: {kubernetes.io/hostname: iris1}}}]}"}},
		{name: "preferred for another Service", endpoints: "iris1", owner: "iris2", ads: []string{all,
			"{serviceSelectors: [{matchLabels: {app: bar}}], preferredNodeSelectors: [{weight: 100, preference: {matchLabels: {kubernetes.io/hostname: iris1}}}]}"}},
		{name: "one that reaches the pool by name and by labels counts once", endpoints: "iris1", owner: "iris2", ads: []string{
			"{ipAddressPools: [edge], ipAddressPoolSelectors: [{matchLabels: {zone: edge}}], preferredNodeSelectors: [{weight: 20, preference: {matchLabels: {kubernetes.io/hostname: iris1}}}]}",
			"{preferredNodeSelectors: [{weight: 30, preference: {matchLabels: {kubernetes.io/hostname: iris2}}}]}"}},

		{name: "the pool is gone", gone: true, endpoints: "iris1", notes: map[string]string{native.AnnotationAllocatedFrom: "metallb/edge"}, owner: "iris1", ads: []string{
			"{ipAddressPools: [edge], " + on("iris1") + "}", "{ipAddressPools: [core], " + on("iris2") + "}"}},
		{name: "the pool is gone, as MetalLB wrote it", gone: true, endpoints: "iris1", notes: map[string]string{metallb.AnnotationAllocatedFrom: "edge"}, owner: "iris2", ads: []string{all}},
		{name: "the pool and what advertised it are gone", gone: true, endpoints: "iris1", notes: map[string]string{metallb.AnnotationAllocatedFrom: "edge"}, why: elect.NotAdvertised, ads: []string{
			"{ipAddressPools: [core]}"}},
		{name: "the pool is gone that selectors advertised", gone: true, had: map[string]string{"zone": "edge"}, endpoints: "iris1", notes: map[string]string{native.AnnotationAllocatedFrom: "metallb/edge"}, owner: "iris1", ads: []string{
			"{ipAddressPoolSelectors: [{matchLabels: {zone: edge}}], " + on("iris1") + "}", "{ipAddressPoolSelectors: [{matchLabels: {zone: core}}], " + on("iris2") + "}"}},
		{name: "the pool is gone, its labels are not known", gone: true, endpoints: "iris1", notes: map[string]string{native.AnnotationAllocatedFrom: "metallb/edge"}, why: elect.NotAdvertised, ads: []string{
			"{ipAddressPoolSelectors: [{matchLabels: {zone: edge}}]}"}},
		{name: "of a native pool that is gone", gone: true, endpoints: "iris1", notes: map[string]string{native.AnnotationAllocatedFrom: "edge"}, owner: "iris2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDirectory(noLeases{})
			useMetalLB(t, d, !test.gone, test.ads...)
			if test.address == "" {
				test.address = "10.20.30.1"
			}
			s := serviceOf("web", 1, "", 80, test.address)
			s.Labels, s.Annotations = test.labels, test.notes
			if test.had != nil {
				r := lb.FormerPool{Key: lb.PoolKey{Dialect: metallb.Name, Name: "edge"}, Labels: test.had}.Before(lb.OutOfPool.With(test.address, "is in no pool any more"))
				s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionReady, Reason: string(r.Code), Message: r.Text}}
			}
			if test.local {
				s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			}
			put(d, s)
			d.setSlice(types.NamespacedName{Namespace: "shop", Name: "web-1"}, sliceOf("web", "web-1", strings.Fields(test.endpoints)...))
			c := d.candidate(netip.MustParseAddr(test.address))
			o := elect.Elect(c, voters(test.ignore, test.nodes, "iris1", "iris2"), nil)
			why := test.why
			if test.owner != "" {
				why = elect.ByHash
			}
			if o.Owner != test.owner || o.Why != why {
				t.Fatalf("got %q, want %q: %s", o.Owner, test.owner, o)
			}
			if diff := cmp.Diff(test.refusals, o.Refusals); diff != "" {
				t.Error(diff)
			}
			var names []string
			for _, n := range c.InterfacesOn(map[string]string{corev1.LabelHostname: o.Owner}) {
				if !strings.Contains(strings.Join(names, " "), n) {
					names = append(names, n)
				}
			}
			if got := strings.Join(names, " "); test.owner != "" && got != test.on {
				t.Errorf("on %q, want %q", got, test.on)
			}
		})
	}
}

// Which endpoints count.
func TestEndpointsThatServe(t *testing.T) {
	yes, no := ptr.To(true), ptr.To(false)
	for _, test := range []struct {
		ready, serving *bool
		want           bool
	}{
		{nil, nil, true}, {yes, nil, true}, {no, nil, false}, {no, yes, true}, {yes, no, true}, {no, no, false}, {nil, no, true},
	} {
		slice := &discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{NodeName: ptr.To("iris1"), Conditions: discoveryv1.EndpointConditions{Ready: test.ready, Serving: test.serving}}}}
		if got := sources.ServingNodes(slice).Serving.Has("iris1"); got != test.want {
			t.Errorf("ready %v, serving %v: %t", test.ready, test.serving, got)
		}
	}
}

// Two Services share an address. Which of them it is announced for if an
// advertisement is for one only.
func TestSharedAddressOfWhichOneCannotBeAnnounced(t *testing.T) {
	d := newDirectory(noLeases{})
	useMetalLB(t, d, true, "{serviceSelectors: [{matchLabels: {app: foo}}], nodeSelectors: [{matchLabels: {a: b}}]}", "{interfaces: [eth1]}")
	addr := netip.MustParseAddr("10.20.30.1")
	for i, name := range []string{"foo", "bar"} {
		s := serviceOf(name, 2-i, "", int32(80+i), addr.String())
		s.Labels = map[string]string{"app": name}
		s.Annotations = map[string]string{metallb.AnnotationShare: "k"}
		put(d, s)
	}
	d.setSlice(types.NamespacedName{Namespace: "shop", Name: "foo-1"}, sliceOf("foo", "foo-1", "iris1"))
	if c := d.candidate(addr); c.Unshareable || c.AnyServing || len(c.Advertisements) != 1 {
		t.Errorf("the one that is not announced counts: %+v", c)
	}
	d.setSlice(types.NamespacedName{Namespace: "shop", Name: "bar-1"}, sliceOf("bar", "bar-1", "iris1"))
	c := d.candidate(addr)
	same(t, "interfaces", c.InterfacesOn(nil), "[eth1]")
	if o := elect.Elect(c, voters(false, nil, "iris1", "iris2"), nil); o.Owner != "iris2" {
		t.Error(o)
	}
}

// Of two pools that have an address, the one that is written down with it counts.
func TestPoolOfAnAddressThatTwoHave(t *testing.T) {
	d := newDirectory(noLeases{})
	pools := useMetalLB(t, d, true, "{interfaces: [eth1]}")
	pool := poolOf(t, `{addresses: [10.20.30.0/28], advertise: {interfaces: [eth0]}}`)
	pool.Name = "lan"
	d.pools = sources.NewPools(append(pools, native.Pool(pool)), nil)
	addr := netip.MustParseAddr("10.20.30.1")
	for from, want := range map[string]lb.PoolKey{
		"lan": {Dialect: lb.Native, Name: "lan"}, "metallb/edge": {Dialect: metallb.Name, Name: "edge"}, "": {Dialect: lb.Native, Name: "lan"},
	} {
		s := serviceOf("web", 1, "", 80, addr.String())
		s.Annotations = map[string]string{native.AnnotationAllocatedFrom: from}
		put(d, s)
		if key, _ := d.pool(addr, d.addresses[addr][0]); key != want {
			t.Errorf("%q: %v", from, key)
		}
	}
}

// A pool of each kind with the same name and the same addresses: the one that is
// written down counts.
func TestPoolOfAnAddressThatTwoOfOneNameHave(t *testing.T) {
	d := newDirectory(noLeases{})
	pools := useMetalLB(t, d, true, "{interfaces: [eth1]}")
	pool := poolOf(t, `{addresses: [10.20.30.0/28], advertise: {interfaces: [eth0]}}`)
	pool.Name = "edge"
	d.pools = sources.NewPools(append(pools, native.Pool(pool)), nil)
	addr := netip.MustParseAddr("10.20.30.1")
	for from, want := range map[string]lb.Dialect{"edge": lb.Native, "metallb/edge": metallb.Name} {
		s := serviceOf("web", 1, "", 80, addr.String())
		s.Annotations = map[string]string{native.AnnotationAllocatedFrom: from, metallb.AnnotationAllocatedFrom: "edge"}
		put(d, s)
		if key, _ := d.pool(addr, d.addresses[addr][0]); key.Dialect != want {
			t.Errorf("%q: %v", from, key)
		}
	}
}

// An address that its pool has no longer is announced as the pool is, also by an
// advertisement that selects the pool by its labels.
func TestAddressOfAPoolThatWasShrunk(t *testing.T) {
	d := newDirectory(noLeases{})
	useMetalLB(t, d, true, "{ipAddressPoolSelectors: [{matchLabels: {zone: edge}}], interfaces: [eth1]}", "{ipAddressPools: [other], interfaces: [eth0]}")
	addr := netip.MustParseAddr("10.99.99.1") // once in the pool
	s := serviceOf("web", 1, "", 80, addr.String())
	s.Annotations = map[string]string{metallb.AnnotationAllocatedFrom: "edge"}
	put(d, s)
	c := d.candidate(addr)
	same(t, "interfaces", c.InterfacesOn(nil), "[eth1]")
}
