package lb

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
)

// Nodes of different racks may reach one router by peers of their own. Address, port and VRF tell
// routers apart. A router without an address is known by the peer's name.
func TestSameRouter(t *testing.T) {
	router := netip.MustParseAddr("192.0.2.1")
	base := Peer{Name: "tor", Address: router, Port: 179, VRF: "red"}
	for what, c := range map[string]struct {
		p, q Peer
		want bool
	}{
		"itself":                            {base, base, true},
		"a peer of another rack":            {base, Peer{Name: "tor-b", Address: router, Port: 179, VRF: "red"}, true},
		"another address":                   {base, Peer{Name: "tor-b", Address: router.Next(), Port: 179, VRF: "red"}, false},
		"another port":                      {base, Peer{Name: "tor-b", Address: router, Port: 1179, VRF: "red"}, false},
		"another VRF":                       {base, Peer{Name: "tor-b", Address: router, Port: 179, VRF: "blue"}, false},
		"unnumbered, itself":                {Peer{Name: "tor", Interface: "eth0", Port: 179}, Peer{Name: "tor", Interface: "eth0", Port: 179}, true},
		"two that are unnumbered":           {Peer{Name: "tor", Interface: "eth0", Port: 179}, Peer{Name: "tor-b", Interface: "eth0", Port: 179}, false},
		"one that is unnumbered":            {base, Peer{Name: "tor-b", Interface: "eth0", Port: 179, VRF: "red"}, false},
		"nothing in common but port or VRF": {base, Peer{Name: "tor-b", Address: router.Next(), Port: 1179, VRF: "red"}, false},
	} {
		if c.p.SameRouter(&c.q) != c.want || c.q.SameRouter(&c.p) != c.want {
			t.Errorf("%s: one router: %t, want %t", what, !c.want, c.want)
		}
	}
}

// A route is for the peers that it names, else for all but those that must be named, and there for
// the Services and nodes that it selects, as far as these nodes have the session.
func TestUses(t *testing.T) {
	const rackA, rackB, gold = "rack=a", "rack=b", "tier=gold"
	session := func(named bool, nodes string) Peer {
		p := Peer{Name: "tor", NamedOnly: named}
		if nodes != "" {
			p.NodeSelectors = []labels.Selector{parsed(nodes)}
		}
		return p
	}
	for what, c := range map[string]struct {
		r    Route
		p    Peer
		want bool
	}{
		"all peers":                             {aRoute("r", 1), session(false, ""), true},
		"all peers, but it must be named":       {aRoute("r", 1), session(true, ""), false},
		"it is named":                           {aRoute("r", 1, to("spine", "tor")), session(false, ""), true},
		"it is named, and must be":              {aRoute("r", 1, to("tor")), session(true, ""), true},
		"another is named":                      {aRoute("r", 1, to("spine")), session(false, ""), false},
		"another is named, and it must be":      {aRoute("r", 1, to("spine")), session(true, ""), false},
		"the node has the session":              {aRoute("r", 1), session(false, rackA), true},
		"only other nodes have the session":     {aRoute("r", 1), session(false, rackB), false},
		"it is named, but other nodes have it":  {aRoute("r", 1, to("tor")), session(false, rackB), false},
		"the route is for the node":             {aRoute("r", 1, onNodes(rackA)), session(false, ""), true},
		"the route is for other nodes":          {aRoute("r", 1, onNodes(rackB)), session(false, ""), false},
		"the route is for the Service":          {aRoute("r", 1, ofServices(gold)), session(false, ""), true},
		"the route is for other Services":       {aRoute("r", 1, ofServices("tier=tin")), session(false, ""), false},
		"for the Service, but another is named": {aRoute("r", 1, to("spine"), ofServices(gold)), session(false, ""), false},
	} {
		if got := c.r.Uses(&c.p, labels.Set{"tier": "gold"}, labels.Set{"rack": "a"}); got != c.want {
			t.Errorf("%s: %t, want %t", what, got, c.want)
		}
	}
}
