package agent

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
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
	m := metaOf(links, &scope{excluded: inward, named: map[string]bool{"cni0": true}}, proxyHealthy, false)
	same(t, "links that others may count on", m.Links, "[{eth0 true true true false} {eth1 true false false false} {cni0 false false false false} {bare false false false false}]")
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
	same(t, "bare", n.Bare, "map[IPv4:map[bare:{} eth0:{}] IPv6:map[]]")
}

// An interface that is excluded and yet named carries only addresses of pools that
// name it, in both families: what is elected here has somewhere to be.
func TestExcludedInterfacesAreBareInBothFamilies(t *testing.T) {
	cni := link.Link{Name: "cni0", Up: true, MAC: macs["a"], Global: [2]bool{true, true},
		Prefixes: []netip.Prefix{netip.MustParsePrefix("10.244.0.1/24"), netip.MustParsePrefix("fd00::1/64")}}
	s := &scope{excluded: inward, named: map[string]bool{"cni0": true}}
	for _, text := range []string{"192.0.2.7", "2001:db8::7"} {
		for _, named := range [][]string{nil, {"cni0"}} {
			n := elect.Node{Name: "a", ProxyHealthy: true}
			fill(&n, metaOf([]link.Link{cni}, s, proxyHealthy, false))
			addr := elect.Address{Addr: netip.MustParseAddr(text), AnyServing: true, Advertisements: []lb.Advertisement{{Layer2: lb.Layer2{Interfaces: named}}}}
			elected := elect.Elect(addr, []elect.Node{n}, nil).Owner == "a"
			place := len(carriers(addr.Addr, named, []link.Link{cni}, inward)) > 0
			if elected != place || place != (named != nil) {
				t.Errorf("%s, named %v: elected %t, has an interface %t", text, named, elected, place)
			}
		}
	}
}

// A kernel that is silent on an interface makes it unusable, and everybody knows why.
func TestSilentInterfaces(t *testing.T) {
	l := eth0("a")
	l.Silent[lb.IPv4] = "net.ipv4.conf.all.arp_ignore is 3"
	var n elect.Node
	fill(&n, metaOf([]link.Link{l}, &scope{excluded: inward}, proxyHealthy, false))
	same(t, "interfaces", n.Interfaces, "map[IPv4:map[] IPv6:map[eth0:{}]]")
	same(t, "why", n.Silence, "map[IPv4:eth0: net.ipv4.conf.all.arp_ignore is 3]")
	same(t, "carriers", carriers(vip, nil, []link.Link{l}, inward), "[]")
	l.Silent[lb.IPv6] = "net.ipv6.conf.eth0.disable_ipv6 is 1"
	m := metaOf([]link.Link{l}, &scope{excluded: inward}, proxyHealthy, false)
	same(t, "links", m.Links, "[]")
	same(t, "silences", len(m.Silences), 2)
}

// What an agent says of kube-proxy.
func TestProxyInMeta(t *testing.T) {
	for state, want := range map[proxyState][2]bool{proxyHealthy: {true, false}, proxyAbsent: {true, false}, proxyUnhealthy: {false, true}, proxyNever: {false, false}} {
		m := metaOf(nil, &scope{excluded: inward}, state, false)
		if m.Eligible != want[0] || m.LastResort != want[1] {
			t.Errorf("%s: eligible %t, last resort %t", state, m.Eligible, m.LastResort)
		}
	}
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
			v := sources.Voter(test.node)
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
		has := slices.ContainsFunc(metaOf(links, &a.scope, proxyHealthy, false).Links, func(l member.Link) bool { return l.Name == "docker0" })
		if has != named {
			t.Errorf("named by an administrator %v: used %v", named, has)
		}
	}
}

// Tools that read the report of an agent know the same of its interfaces as the other
// agents, which hear it by gossip.
func TestReportIsWhatGossipSays(t *testing.T) {
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, x := range texts {
			out = append(out, netip.MustParsePrefix(x))
		}
		return out
	}
	links := []link.Link{
		{Name: "eth0", Up: true, Global: [2]bool{true, true}, Prefixes: prefixes("192.0.2.1/24", "2001:db8::1/64")},
		{Name: "eth1", Up: true, Global: [2]bool{true, false}, Prefixes: prefixes("198.51.100.1/24")},
		{Name: "eth2", Up: true},
		{Name: "eth3", Global: [2]bool{true, true}, Prefixes: prefixes("203.0.113.1/24")},
		{Name: "eth4", Up: true, Silent: [2]string{"arp_ignore is 3", ""}, Global: [2]bool{true, true}, Prefixes: prefixes("192.0.2.65/26", "2001:db8:1::1/64")},
		{Name: "eth5", Up: true, Slave: true},
		{Name: "dummy0", Up: true, Global: [2]bool{true, true}, Prefixes: prefixes("192.0.2.129/32", "2001:db8:2::1/64")},
		{Name: "docker0", Up: true, Global: [2]bool{true, false}, Prefixes: prefixes("172.17.0.1/16")},
		{Name: "lo", Up: true, Loopback: true, Prefixes: prefixes("127.0.0.1/8")},
	}
	s := &scope{excluded: inward, named: map[string]bool{"dummy0": true}}
	for _, proxy := range []proxyState{proxyHealthy, proxyUnhealthy, proxyNever, proxyAbsent} {
		var heard, read elect.Node
		fill(&heard, metaOf(links, s, proxy, false))
		status := v1alpha1.AgentStatus{KubeProxy: string(proxy), Interfaces: interfacesOf(links, s, func(netip.Addr) bool { return false })}
		sources.Report(&read, &status)
		heard.Alive, heard.Silence = false, nil // what an Agent object says otherwise
		if diff := cmp.Diff(heard, read); diff != "" {
			t.Errorf("kube-proxy %s: gossip says -, the report +:\n%s", proxy, diff)
		}
	}
	// An agent that does not report families yet.
	var read elect.Node
	sources.Report(&read, &v1alpha1.AgentStatus{Interfaces: []v1alpha1.Interface{
		{Name: "eth0", Up: true, Addresses: []string{"192.0.2.1/24", "2001:db8::1/64"}}, {Name: "eth1", Up: true}, {Name: "eth2", Up: true, Obstacle: "loopback"},
	}})
	if got := fmt.Sprint(sets.List(read.Interfaces[lb.IPv4]), sets.List(read.Bare[lb.IPv4]), sets.List(read.Interfaces[lb.IPv6]), sets.List(read.Bare[lb.IPv6])); got != "[eth0 eth1] [eth1] [eth0] []" {
		t.Error(got)
	}
}
