package agent

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
)

func poolOf(t *testing.T, spec string) *v1alpha1.Pool {
	t.Helper()
	var p v1alpha1.Pool
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestPlaces(t *testing.T) {
	nic := func(name string, up bool, prefixes ...string) link.Link {
		l := link.Link{Name: name, Up: up, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}}
		for _, text := range prefixes {
			p := netip.MustParsePrefix(text)
			l.Prefixes = append(l.Prefixes, p)
			l.Global[familyIndex(p)] = true
		}
		return l
	}
	links := []link.Link{
		{Name: "lo", Up: true, Loopback: true},
		nic("eth0", true, "192.0.2.10/24", "2001:db8::10/64"),
		nic("eth1", true, "198.51.100.10/24"),
		nic("eth2", false, "192.0.2.11/24"),
		nic("cni0", true, "10.244.0.1/24"),
		{Name: "eth3", Up: true, Slave: true, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}},
		nic("bare", true),
	}
	tests := []struct {
		name, address string
		named         []string
		want          string
	}{
		{name: "where its network is", address: "192.0.2.200", want: "[eth0]"},
		{name: "nowhere near: all that lead outside", address: "203.0.113.1", want: "[eth0 eth1]"},
		{name: "as the pool says", address: "192.0.2.200", named: []string{"eth1"}, want: "[eth1]"},
		{name: "also inward, and without an address", address: "192.0.2.200", named: []string{"cni0", "bare"}, want: "[bare cni0]"},
		{name: "not where it is down", address: "192.0.2.200", named: []string{"eth2"}, want: "[]"},
		{name: "not on a port of a bridge, nor on the loopback", address: "192.0.2.200", named: []string{"eth3", "lo"}, want: "[]"},
		{name: "IPv6 only next to an address of its own", address: "2001:db8::200", named: []string{"eth0", "eth1"}, want: "[eth0]"},
		{name: "IPv6 nowhere near", address: "2001:db8:1::1", want: "[eth0]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			same(t, "ifaces", carriers(netip.MustParseAddr(test.address), test.named, links, inward), test.want)
		})
	}
	m := metaOf(links, &scope{excluded: inward, named: map[string]bool{"cni0": true}}, true, false)
	same(t, "links that others may count on", m.Links, "[{eth0 true true} {eth1 true false} {cni0 false false} {bare false false}]")
}

func familyIndex(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 0
	}
	return 1
}

// A link without an IPv4 address of its own is bare: only pools that name it would
// put an address there.
func TestFillCountsOnlyLinksThatWouldBeUsed(t *testing.T) {
	m := member.Meta{Links: []member.Link{{Name: "eth0", V6: true}, {Name: "bare"}}}
	var n elect.Node
	fill(&n, m)
	same(t, "interfaces", n.Interfaces, "map[IPv4:map[bare:{} eth0:{}] IPv6:map[eth0:{}]]")
	same(t, "bare", n.Bare, "map[bare:{} eth0:{}]")
}

func TestVoter(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		change(n)
		return n
	}
	label := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: value} }
	}
	tests := []struct {
		name               string
		node               *corev1.Node
		excluded, cordoned bool
		unavailable        bool
	}{
		{name: "plain", node: node(func(*corev1.Node) {})},
		{name: "excluded", node: node(label("")), excluded: true},
		{name: "excluded, says true", node: node(label("true")), excluded: true},
		{name: "not excluded", node: node(label("false"))},
		{name: "cordoned", node: node(func(n *corev1.Node) { n.Spec.Unschedulable = true }), cordoned: true},
		{name: "to be deleted", node: node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
		}), cordoned: true},
		{name: "no network", node: node(func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue}}
		}), unavailable: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := voter(test.node)
			if v.Excluded != test.excluded || v.Cordoned != test.cordoned || v.NetworkUnavailable != test.unavailable {
				t.Errorf("%+v", v)
			}
		})
	}
}

// An interface that is excluded is used if an administrator names it, not if only a
// Service does.
func TestExcludedInterfaceNamedByAService(t *testing.T) {
	links := []link.Link{eth0("a"), {Name: "docker0", Index: 7, Up: true, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 7}}}
	links[1].Global[lb.IPv4] = true
	for _, named := range []bool{false, true} {
		a := &agent{world: world{scope: scope{excluded: inward, named: map[string]bool{}}}, directory: newDirectory(noLeases{})}
		key := types.NamespacedName{Namespace: "shop", Name: "web"}
		a.directory.services[key] = &offer{Service: &sources.Service{Interface: "docker0", Named: named}}
		a.nameInterface(key)
		has := slices.ContainsFunc(metaOf(links, &a.scope, true, false).Links, func(l member.Link) bool { return l.Name == "docker0" })
		if has != named {
			t.Errorf("named by an administrator %v: used %v", named, has)
		}
	}
}
