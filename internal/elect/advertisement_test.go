package elect

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

// In which order MetalLB's speakers would have each address.
func TestOrderIsMetalLBs(t *testing.T) {
	for _, test := range []struct{ addr, order string }{
		{"10.0.0.1", "node-b node-a node-c"},
		{"10.0.0.2", "node-b node-c node-a"},
		{"10.20.30.1", "iris2 iris1"},
		{"10.20.30.2", "iris1 iris2"},
		{"10.20.30.1", "edge-b worker-a edge-a worker-b"},
		{"192.168.1.240", "node5 node3 node4 node1 node2"},
		{"192.168.1.241", "node1 node4 node3 node2 node5"},
		{"192.168.1.242", "node1 node3 node4 node2 node5"},
		{"fc00:f853:ccd:e799::", "node2 node1 node3"},
	} {
		a := address(func(a *Address) { a.Addr = netip.MustParseAddr(test.addr) })
		names := strings.Fields(test.order)
		slices.Sort(names)
		slices.SortFunc(names, func(x, y string) int {
			hx, hy := hash(&a, x), hash(&a, y)
			return bytes.Compare(hx[:], hy[:])
		})
		if got := strings.Join(names, " "); got != test.order {
			t.Errorf("%s: got %s, want %s", test.addr, got, test.order)
		}
	}
}

// Of two nodes one has each address of a network, wherever the pods are, and
// both have some.
func TestEveryAddressHasOneOwner(t *testing.T) {
	nodes := []Node{node("iris1"), node("iris2")}
	has := map[string]int{}
	for i := range 255 {
		addr := netip.AddrFrom4([4]byte{10, 20, 30, byte(i + 1)})
		var owners []string
		for _, serving := range []string{"iris1", "iris2"} {
			o := Elect(address(func(a *Address) { a.Addr, a.ServingNodes = addr, sets.New(serving) }), nodes, nil)
			owners = append(owners, o.Owner)
		}
		if owners[0] == "" || owners[0] != owners[1] {
			t.Errorf("%s has owners %q", addr, owners)
		}
		has[owners[0]]++
	}
	if has["iris1"] == 0 || has["iris2"] == 0 {
		t.Errorf("%v", has)
	}
}

// adOf reads an advertisement: nodes by name before a slash, interfaces after it,
// and preferred nodes as name=weight. "iris1,iris2/eth0 iris1=5".
func adOf(t *testing.T, text string) lb.Advertisement {
	t.Helper()
	head, preferred, _ := strings.Cut(text, " ")
	nodes, interfaces, _ := strings.Cut(head, "/")
	var ad lb.Advertisement
	for name := range strings.SplitSeq(nodes, ",") {
		if name != "" {
			ad.NodeSelectors = append(ad.NodeSelectors, selector(t, "name="+name))
		}
	}
	for name := range strings.SplitSeq(interfaces, ",") {
		if name != "" {
			ad.Interfaces = append(ad.Interfaces, name)
		}
	}
	for _, p := range strings.Fields(preferred) {
		name, weight, _ := strings.Cut(p, "=")
		s := labels.Everything()
		if name != "*" {
			s = selector(t, "name="+name)
		}
		ad.Preferred = append(ad.Preferred, lb.PreferredNodes{Weight: int32(len(weight)), Selector: s})
	}
	return ad
}

// What several advertisements come to. A weight is as many x as it says.
func TestAdvertisements(t *testing.T) {
	up := func(node string) []Claim { return []Claim{{node, 1, true}} }
	for _, test := range []struct {
		name   string
		addr   string
		ads    string // separated by semicolons
		nodes  []Node
		claims []Claim
		owner  string
		on     string // the owner's interfaces; empty for any
	}{
		{name: "for all nodes", addr: "10.20.30.1", ads: "/", owner: "iris2"},
		{name: "for one node", addr: "10.20.30.1", ads: "iris1/", owner: "iris1"},
		{name: "for each node one", addr: "10.20.30.1", ads: "iris1/;iris2/", owner: "iris2"},
		{name: "for a node that is not there", addr: "10.20.30.1", ads: "ghost/", owner: ""},
		{name: "each node has its own interface", addr: "10.20.30.1", ads: "iris1/eth0;iris2/eth1", owner: "iris2", on: "eth1"},
		{name: "interfaces add up", addr: "10.20.30.1", ads: "/eth0,eth1;/eth0,eth2", owner: "iris2", on: "eth0 eth1 eth2"},
		{name: "one for any interface", addr: "10.20.30.1", ads: "/eth0,eth1;/", owner: "iris2"},
		{name: "any interface, but on another node", addr: "10.20.30.1", ads: "/eth1;iris1/", owner: "iris2", on: "eth1"},
		{name: "an interface that is nowhere", addr: "10.20.30.1", ads: "/foo", owner: ""},
		{name: "an interface that one node lacks", addr: "10.20.30.1", ads: "/eth1", owner: "iris1", on: "eth1",
			nodes: []Node{node("iris1"), node("iris2", func(n *Node) { n.Interfaces[lb.IPv4] = sets.New("eth0") })}},
		{name: "an interface that the owner has lost", addr: "10.20.30.1", ads: "/eth1", claims: up("iris2"), owner: "iris1", on: "eth1",
			nodes: []Node{node("iris1"), node("iris2", func(n *Node) { n.Interfaces[lb.IPv4] = sets.New("eth0") })}},
		{name: "an interface of another node's advertisement", addr: "10.20.30.1", ads: "iris1/eth0;iris2/eth1", owner: "iris1", on: "eth0",
			nodes: []Node{node("iris1"), node("iris2", func(n *Node) { n.Interfaces[lb.IPv4] = sets.New("eth0") })}},

		{name: "preferred", addr: "10.20.30.1", ads: "/ edge-a=xx", nodes: edges(), owner: "edge-a"},
		{name: "preferred alike: the hash", addr: "10.20.30.1", ads: "/ edge-a=xx edge-b=xx", nodes: edges(), owner: "edge-b"},
		{name: "preferred alike: who has it", addr: "10.20.30.1", ads: "/ edge-a=xx edge-b=xx", nodes: edges(), claims: up("edge-a"), owner: "edge-a"},
		{name: "weights add up over advertisements", addr: "10.20.30.1", ads: "/ edge-a=xx edge-b=xxx;/ edge-a=xx", nodes: edges(), owner: "edge-a"},
		{name: "an empty preference is for every node", addr: "10.20.30.1", ads: "/ *=xxx edge-a=x", nodes: edges(), owner: "edge-a"},
		{name: "a preference among nodes that are not selected", addr: "10.20.30.1", ads: "worker-a/ edge-a=xxx;/ worker-b=x", nodes: edges(), owner: "worker-b"},
		{name: "the preferred one is gone", addr: "10.20.30.1", ads: "/ edge-a=xx", nodes: edges()[1:], owner: "edge-b"},
		{name: "the preferred one is back", addr: "10.20.30.1", ads: "/ edge-a=xx", nodes: edges(), claims: up("edge-b"), owner: "edge-a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := address(func(a *Address) { a.Addr, a.Advertisements = netip.MustParseAddr(test.addr), nil })
			for text := range strings.SplitSeq(test.ads, ";") {
				a.Advertisements = append(a.Advertisements, adOf(t, text))
			}
			nodes := test.nodes
			if nodes == nil {
				nodes = []Node{node("iris1"), node("iris2")}
			}
			o := Elect(a, nodes, test.claims)
			if o.Owner != test.owner {
				t.Fatalf("got %q, want %q: %s", o.Owner, test.owner, o)
			}
			on := sets.List(sets.New(a.InterfacesOn(labels.Set{"name": o.Owner})...))
			if got := strings.Join(on, " "); o.Owner != "" && got != test.on {
				t.Errorf("on %q, want %q", got, test.on)
			}
		})
	}
}

func edges() []Node {
	return []Node{node("edge-a"), node("edge-b"), node("worker-a"), node("worker-b")}
}

// A node that no advertisement selects any more has the address where it was,
// until another one has it.
func TestInterfacesUntilItIsHandedOver(t *testing.T) {
	a := address(func(a *Address) {
		a.Advertisements = []lb.Advertisement{adOf(t, "iris1/eth0"), adOf(t, "iris2/eth1")}
	})
	if got := a.InterfacesOn(labels.Set{"name": "iris3"}); !slices.Equal(got, []string{"eth0", "eth1"}) {
		t.Errorf("%v", got)
	}
}
