package elect

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

// Made with: printf '%s#%s' NODE KEY | sha256sum.
var vectors = []struct{ node, key, sum string }{
	{"node-c", "192.0.2.1", "22e614dd15c80d920cc5a45f133d369185bf386900ff66db85b9fd71bcb09f9f"},
	{"node-a", "192.0.2.1", "9028b03eebd9c50f45e3cb24b507db170990cd5f206b44ba22be4e1dc2acad0a"},
	{"node-b", "192.0.2.1", "fbbfaaba2b58d26b076a64fae458676a5ce2415345e17448dc1372240a0b4002"},
	{"node-b", "2001:db8::1", "1aee61dde2bd8a0c8b0177a52ced9e0a52e8108284e6e3f14220d9f9d98cbc2e"},
	{"node-a", "2001:db8::1", "3c9f88a7e2ef52a1c015be314124ea3ab99785b842ce9ee37afdf6470837efbe"},
	{"node-c", "2001:db8::1", "bb833059784d34c0c3dfacf003bec741b65be19b7102e7316af458b26d6ed31a"},
	{"worker-1.example.org", "10.20.30.40", "d3a82cc856d00ec5665fe5b951e5f6bc5e40675546d1892cddda178e4a7f87e5"},
}

func TestHashIsMetalLBs(t *testing.T) {
	for _, v := range vectors {
		key := netip.MustParseAddr(v.key)
		for _, a := range []Address{{Addr: key}, {Addr: netip.MustParseAddr("198.51.100.9"), HashKey: key.String()}} {
			sum := hash(&a, v.node)
			if got := hex.EncodeToString(sum[:]); got != v.sum {
				t.Errorf("%s#%s: got %s, want %s", v.node, v.key, got, v.sum)
			}
		}
	}
}

func node(name string, change ...func(*Node)) Node {
	n := Node{
		Name: name, Labels: labels.Set{"name": name}, Alive: true, ProxyHealthy: true,
		Interfaces: map[lb.Family]sets.Set[string]{lb.IPv4: sets.New("eth0", "eth1"), lb.IPv6: sets.New("eth0")},
	}
	for _, c := range change {
		c(&n)
	}
	return n
}

func address(change ...func(*Address)) Address {
	a := Address{Addr: netip.MustParseAddr("192.0.2.1"), AnyServing: true, Advertisements: make([]lb.Advertisement, 1)}
	for _, c := range change {
		c(&a)
	}
	return a
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestElect(t *testing.T) {
	a, b, c := node("node-a"), node("node-b"), node("node-c") // 192.0.2.1: c, a, b
	dead := func(n *Node) { n.Alive = false }
	cordoned := func(n *Node) { n.Cordoned = true }
	leaving := func(n *Node) { n.Leaving = true }
	was := func(n *Node) { n.ProxyHealthy, n.ProxyWasHealthy = false, true }
	silent := func(n *Node) { n.Interfaces[lb.IPv4], n.Silence = nil, map[lb.Family]string{lb.IPv4: "eth0: mute"} }
	up := func(node string, epoch uint64) Claim { return Claim{node, epoch, true} }
	gone := func(node string, epoch uint64) Claim { return Claim{node, epoch, false} }
	on := func(interfaces ...string) func(*Address) {
		return func(a *Address) { a.Advertisements[0].Interfaces = interfaces }
	}
	prefer := func(weights map[string]int) func(*Address) {
		return func(a *Address) {
			for name, w := range weights {
				p := &a.Advertisements[0].Preferred
				*p = append(*p, lb.PreferredNodes{Weight: int32(w), Selector: selector(t, "name in ("+name+")")})
			}
		}
	}
	v6 := func(a *Address) { a.Addr = netip.MustParseAddr("2001:db8::1") }
	unsticky := func(a *Address) { a.Advertisements[0].Failback = true }

	for _, test := range []struct {
		name   string
		a      Address
		nodes  []Node
		claims []Claim
		want   Outcome
	}{
		{"first by hash", address(), []Node{a, b, c}, nil, Outcome{"node-c", ByHash, 1, nil}},
		{"both families move as one", address(v6, func(a *Address) { a.HashKey = "192.0.2.1" }),
			[]Node{a, b, c}, nil, Outcome{"node-c", ByHash, 1, nil}},
		{"IPv6 by its own hash", address(v6), []Node{a, b, c}, nil, Outcome{"node-b", ByHash, 1, nil}},
		{"the owner keeps it", address(), []Node{a, b, c}, []Claim{up("node-b", 4), gone("node-c", 3)}, Outcome{"node-b", Kept, 4, nil}},
		{"without stickiness it goes back", address(unsticky), []Node{a, b, c}, []Claim{up("node-b", 4)}, Outcome{"node-c", ByHash, 5, nil}},
		{"without stickiness it stays where it belongs", address(unsticky), []Node{a, b, c}, []Claim{up("node-c", 4)}, Outcome{"node-c", ByHash, 4, nil}},
		{"who gave it up has it no more", address(), []Node{a, b, c}, []Claim{gone("node-b", 4)}, Outcome{"node-c", ByHash, 5, nil}},
		{"who is about to take it does not disturb the owner", address(), []Node{a, b, c}, []Claim{up("node-a", 4), gone("node-b", 5)}, Outcome{"node-a", Kept, 4, nil}},
		{"two claim: higher epoch", address(), []Node{a, b, c}, []Claim{up("node-c", 4), up("node-b", 5)}, Outcome{"node-b", Kept, 5, nil}},
		{"two claim with one epoch: hash", address(), []Node{a, b, c}, []Claim{up("node-b", 5), up("node-a", 5)}, Outcome{"node-a", Kept, 5, nil}},
		{"a dead owner loses it", address(), []Node{a, node("node-b", dead), c}, []Claim{up("node-b", 4)}, Outcome{"node-c", ByHash, 5, nil}},
		{"an unknown owner loses it", address(), []Node{a, b}, []Claim{up("node-x", 4)}, Outcome{"node-a", ByHash, 5, nil}},
		{"a dead claim of a higher epoch is outbid", address(), []Node{a, node("node-b", dead), c}, []Claim{up("node-a", 3), up("node-b", 4)}, Outcome{"node-a", Kept, 5, nil}},

		{"cordoned owner", address(), []Node{a, node("node-b", cordoned), c}, []Claim{up("node-b", 4)}, Outcome{"node-c", ByHash, 5, nil}},
		{"leaving owner", address(), []Node{a, b, node("node-c", leaving)}, []Claim{up("node-c", 4)}, Outcome{"node-a", ByHash, 5, nil}},
		{"cordoned before leaving", address(), []Node{node("node-b", cordoned), node("node-c", leaving)}, nil, Outcome{"node-b", ByHash, 1, nil}},
		{"all cordoned: the owner keeps it", address(), []Node{node("node-b", cordoned), node("node-c", cordoned)}, []Claim{up("node-b", 4)}, Outcome{"node-b", Kept, 4, nil}},
		{"cordoned although preferred", address(prefer(map[string]int{"node-b": 9})), []Node{a, node("node-b", cordoned)}, nil, Outcome{"node-a", ByHash, 1, nil}},
		{"only a leaving one", address(), []Node{node("node-b", leaving)}, nil, Outcome{"node-b", ByHash, 1, nil}},

		{"preferred", address(prefer(map[string]int{"node-b": 1})), []Node{a, b, c}, nil, Outcome{"node-b", ByHash, 1, nil}},
		{"preferred to the owner", address(prefer(map[string]int{"node-b": 1})), []Node{a, b, c}, []Claim{up("node-a", 1)}, Outcome{"node-b", ByHash, 2, nil}},
		{"weights add up", address(prefer(map[string]int{"node-a": 5, "node-b": 4, "node-b,node-c": 2})), []Node{a, b, c}, nil, Outcome{"node-b", ByHash, 1, nil}},
		{"equally preferred: the owner keeps it", address(prefer(map[string]int{"node-a,node-b": 1})), []Node{a, b, c}, []Claim{up("node-b", 1)}, Outcome{"node-b", Kept, 1, nil}},
		{"a negative weight", address(prefer(map[string]int{"node-c": -1})), []Node{a, b, c}, nil, Outcome{"node-a", ByHash, 1, nil}},

		{"interface of the advertisement", address(on("eth9", "eth1")), []Node{a, b, node("node-c", func(n *Node) { n.Interfaces[lb.IPv4] = sets.New("eth0") })}, nil, Outcome{"node-a", ByHash, 1, nil}},
		{"interfaces are by family", address(v6, on("eth1")), []Node{a}, nil, Outcome{"", NoNode, 0, []Refusal{{"node-a", NoInterface, ""}}}},
		{"any interface, but none", address(), []Node{node("node-a", func(n *Node) { n.Interfaces = nil })}, nil, Outcome{"", NoNode, 0, []Refusal{{"node-a", NoInterface, ""}}}},
		{"one selector is enough", address(func(a *Address) {
			a.Advertisements[0].NodeSelectors = []labels.Selector{selector(t, "name=node-x"), selector(t, "name=node-b")}
		}), []Node{a, b, c}, nil, Outcome{"node-b", ByHash, 1, nil}},

		{"a bare interface is not any interface", address(), []Node{a, b, node("node-c", func(n *Node) { n.Bare = map[lb.Family]sets.Set[string]{lb.IPv4: sets.New("eth0", "eth1")} })}, nil, Outcome{"node-a", ByHash, 1, nil}},
		{"a bare interface that is named", address(on("eth1")), []Node{a, b, node("node-c", func(n *Node) { n.Bare = map[lb.Family]sets.Set[string]{lb.IPv4: sets.New("eth0", "eth1")} })}, nil, Outcome{"node-c", ByHash, 1, nil}},
		{"bare is by family", address(v6), []Node{a, node("node-b", func(n *Node) { n.Bare = map[lb.Family]sets.Set[string]{lb.IPv4: sets.New("eth0")} })}, nil, Outcome{"node-b", ByHash, 1, nil}},
		{"a bare interface is not any interface, IPv6", address(v6), []Node{a, node("node-b", func(n *Node) { n.Bare = map[lb.Family]sets.Set[string]{lb.IPv6: sets.New("eth0")} })}, nil, Outcome{"node-a", ByHash, 1, nil}},
		{"a bare interface that is named, IPv6", address(v6, on("eth0")), []Node{a, node("node-b", func(n *Node) { n.Bare = map[lb.Family]sets.Set[string]{lb.IPv6: sets.New("eth0")} })}, nil, Outcome{"node-b", ByHash, 1, nil}},

		{"a kernel refuses", address(func(a *Address) { a.Refused = sets.New("node-c") }), []Node{a, b, c}, []Claim{gone("node-c", 2)}, Outcome{"node-a", ByHash, 3, nil}},
		{"all kernels refuse", address(func(a *Address) { a.Refused = sets.New("node-c") }), []Node{c}, nil, Outcome{"", NoNode, 0, []Refusal{{"node-c", KernelRefuses, ""}}}},
		{"silenced", address(), []Node{node("node-c", silent)}, nil, Outcome{"", NoNode, 0, []Refusal{{"node-c", Silenced, "eth0: mute"}}}},
		{"silenced in the other family", address(v6), []Node{node("node-c", silent, func(n *Node) { n.Interfaces = nil })}, nil, Outcome{"", NoNode, 0, []Refusal{{"node-c", NoInterface, ""}}}},
		{"silenced on one of its interfaces", address(on("eth1")), []Node{node("node-c", silent, func(n *Node) { n.Interfaces[lb.IPv4] = sets.New("eth1") })}, nil, Outcome{"node-c", ByHash, 1, nil}},

		{"a proxy that was healthy comes last", address(), []Node{a, b, node("node-c", was)}, nil, Outcome{"node-a", ByHash, 1, nil}},
		{"an owner whose proxy is not healthy any more loses it", address(), []Node{a, b, node("node-c", was)}, []Claim{up("node-c", 4)}, Outcome{"node-a", ByHash, 5, nil}},
		{"no proxy is healthy any more: nothing moves", address(), []Node{node("node-a", was), node("node-b", was), node("node-c", was)}, []Claim{up("node-b", 4)}, Outcome{"node-b", Kept, 4, nil}},
		{"no proxy is healthy any more: by hash", address(), []Node{node("node-a", was), node("node-c", was)}, nil, Outcome{"node-c", ByHash, 1, nil}},
		{"healthy before preferred", address(prefer(map[string]int{"node-c": 9})), []Node{a, node("node-c", was)}, nil, Outcome{"node-a", ByHash, 1, nil}},
		{"cordoned before unhealthy", address(), []Node{node("node-a", cordoned), node("node-c", was)}, nil, Outcome{"node-a", ByHash, 1, nil}},
		{"unhealthy before leaving", address(), []Node{node("node-a", leaving), node("node-c", was)}, nil, Outcome{"node-c", ByHash, 1, nil}},
		{"never healthy is an obstacle", address(), []Node{node("node-c", was, func(n *Node) { n.ProxyWasHealthy = false })}, nil, Outcome{"", NoNode, 0, []Refusal{{"node-c", ProxyUnhealthy, ""}}}},

		{"no advertisement", address(func(a *Address) { a.Advertisements = nil }), []Node{a}, []Claim{up("node-a", 1)}, Outcome{"", NotAdvertised, 0, nil}},
		{"no advertisement and no endpoint", address(func(a *Address) { a.Advertisements, a.AnyServing = nil, false }), []Node{a}, nil, Outcome{"", NotAdvertised, 0, nil}},
		{"shared, and for some Services only", address(func(a *Address) { a.Unshareable = true }), []Node{a}, []Claim{up("node-a", 1)}, Outcome{"", Unshareable, 0, nil}},
		{"no endpoint", address(func(a *Address) { a.AnyServing = false }), []Node{a}, []Claim{up("node-a", 1)}, Outcome{"", NoEndpoint, 0, nil}},
		{"only where it is served", address(func(a *Address) { a.NeedsLocal, a.ServingNodes = true, sets.New("node-b") }), []Node{a, b, c}, []Claim{up("node-a", 1)}, Outcome{"node-b", ByHash, 2, nil}},
		{"no node at all", address(), nil, nil, Outcome{"", NoNode, 0, nil}},
		{"everybody's obstacle, by name", address(func(a *Address) {
			a.Advertisements[0].NodeSelectors = []labels.Selector{selector(t, "name!=h")}
			a.NeedsLocal, a.ServingNodes = true, sets.New("c", "d", "e", "f", "g", "h")
		}), []Node{
			node("h"),
			node("g", dead),
			node("f", func(n *Node) { n.Excluded = true }),
			node("e", func(n *Node) { n.NetworkUnavailable = true }),
			node("d", func(n *Node) { n.ProxyHealthy = false }),
			node("c", func(n *Node) { n.Interfaces[lb.IPv4].Delete("eth0", "eth1") }),
			node("b"),
		}, nil, Outcome{"", NoNode, 0, []Refusal{
			{"b", NoLocalEndpoint, ""}, {"c", NoInterface, ""}, {"d", ProxyUnhealthy, ""}, {"e", NetworkUnavailable, ""},
			{"f", Excluded, ""}, {"g", NotAlive, ""}, {"h", NotSelected, ""},
		}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Elect(test.a, test.nodes, test.claims)); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
		})
	}
}

func TestOutcomeIsToldInASentence(t *testing.T) {
	for _, test := range []struct {
		o    Outcome
		want string
	}{
		{Outcome{Owner: "a", Why: Kept}, "Node a keeps it."},
		{Outcome{Owner: "a", Why: ByHash}, "Node a is the first by hash."},
		{Outcome{Why: NoEndpoint}, "No node announces it, because no endpoint is serving."},
		{Outcome{Why: NotAdvertised}, "No node announces it, because there is no advertisement for it."},
		{Outcome{Why: Unshareable}, "No node announces it, because its Service may share it with others, and an advertisement with serviceSelectors applies, which cannot be for one and not for another."},
		{Outcome{Why: NoNode}, "No node can announce it, because there is none."},
		{Outcome{Why: NoNode, Refusals: []Refusal{{"a", NotAlive, ""}, {"b", NotSelected, ""}, {"c", NotAlive, ""}}},
			"No node can announce it: b is not selected by any nodeSelectors; a, c: each does not answer."},
		{Outcome{Why: NoNode, Refusals: []Refusal{{"a", NotAlive, ""}, {"b", NotAlive, ""}, {"c", NotAlive, ""}}},
			"No node can announce it: a, b, c: each does not answer."},
		{Outcome{Why: NoNode, Refusals: []Refusal{{"a", NotAlive, ""}, {"b", NotAlive, ""}, {"c", NotAlive, ""}, {"d", NotAlive, ""}, {"e", NotAlive, ""}}},
			"No node can announce it: a, b, c and 2 more: each does not answer."},
		{Outcome{Why: NoNode, Refusals: []Refusal{{"a", Silenced, "eth0: mute"}, {"b", KernelRefuses, ""}, {"c", Silenced, "eth1: mute"}, {"d", Silenced, "eth0: mute"}}},
			"No node can announce it: a, d: each has no interface that answers for it (eth0: mute); c has no interface that answers for it (eth1: mute); b cannot add it to an interface."},
		{Outcome{Why: NoNode, Refusals: []Refusal{{"a", NotPlaced, ""}, {"b", NotAlive, ""}, {"c", NotPlaced, ""}}},
			"The controller has chosen a node that cannot announce it: b does not answer."},
		{Outcome{Why: NoNode, Refusals: []Refusal{{"a", NotPlaced, ""}, {"c", NotPlaced, ""}}},
			"No node can announce it: a, c: each is not the node that the controller has chosen."},
	} {
		if got := test.o.String(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
	for advice, refusals := range map[string][]Refusal{
		"The controller moves the address":  {{"a", NotPlaced, ""}, {"b", NotAlive, ""}},
		"change how the pool is advertised": {{"a", NotAlive, ""}},
	} {
		if got := (Outcome{Why: NoNode, Refusals: refusals}).Advice(); !strings.Contains(got, advice) {
			t.Errorf("got %s, want %s", got, advice)
		}
	}
}

func TestTask(t *testing.T) {
	for _, test := range []struct {
		name   string
		o      Outcome
		claims []Claim
		want   Task
	}{
		{"ours and held", Outcome{Owner: "me", Epoch: 3}, []Claim{{"me", 3, true}}, Keep},
		{"ours and not held", Outcome{Owner: "me", Epoch: 3}, nil, Take},
		{"ours and given up before", Outcome{Owner: "me", Epoch: 4}, []Claim{{"me", 3, false}}, Take},
		{"ours and outbid by the dead", Outcome{Owner: "me", Epoch: 5}, []Claim{{"me", 3, true}, {"x", 4, true}}, Take},
		{"another's", Outcome{Owner: "x", Epoch: 3}, nil, Nothing},
		{"another's, who is not ready", Outcome{Owner: "x", Epoch: 4}, []Claim{{"me", 3, true}, {"x", 4, false}}, HandOver},
		{"another's, who has not bid enough", Outcome{Owner: "x", Epoch: 4}, []Claim{{"me", 3, true}, {"x", 2, true}}, HandOver},
		{"another's, who has it", Outcome{Owner: "x", Epoch: 4}, []Claim{{"me", 3, true}, {"x", 4, true}}, Drop},
		{"another's, who claims it with our epoch", Outcome{Owner: "x", Epoch: 3}, []Claim{{"me", 3, true}, {"x", 3, true}}, Drop},
		{"nobody's", Outcome{}, []Claim{{"me", 3, true}}, Drop},
		{"nobody's and not held", Outcome{}, nil, Nothing},
	} {
		if got := test.o.Task("me", test.claims); got != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got, test.want)
		}
	}
}
