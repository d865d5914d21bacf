package elect

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

// How a node announces to routers: neither interfaces nor refusals of the kernel matter.
func TestAnnounces(t *testing.T) {
	for _, test := range []struct {
		name   string
		node   func(*Node)
		change func(*Address)
		reach  Reach
		why    Obstacle
	}{
		{name: "any node", reach: Reached},
		{name: "without interfaces", node: func(n *Node) { n.Interfaces = nil }, reach: Reached},
		{name: "refused by the kernel", change: func(a *Address) { a.Refused = sets.New("iris1") }, reach: Reached},
		{name: "cordoned", node: func(n *Node) { n.Cordoned = true }, reach: Draining},
		{name: "leaving", node: func(n *Node) { n.Leaving = true }, reach: Draining},
		{name: "its proxy was healthy", node: func(n *Node) { n.ProxyHealthy, n.ProxyWasHealthy = false, true }, reach: Draining},
		{name: "its proxy never was", node: func(n *Node) { n.ProxyHealthy = false }, why: ProxyUnhealthy},
		{name: "excluded", node: func(n *Node) { n.Excluded = true }, why: Excluded},
		{name: "without a network", node: func(n *Node) { n.NetworkUnavailable = true }, why: NetworkUnavailable},
		{name: "dead", node: func(n *Node) { n.Alive = false }, why: NotAlive},
		{name: "local, and no pod", change: func(a *Address) { a.NeedsLocal, a.ServingNodes = true, sets.New("iris2") }, why: NoLocalEndpoint},
		{name: "local, with a pod", change: func(a *Address) { a.NeedsLocal, a.ServingNodes = true, sets.New("iris1") }, reach: Reached},
		{name: "local, its pods are about to end", change: func(a *Address) {
			a.NeedsLocal, a.ServingNodes, a.StayingNodes = true, sets.New("iris1", "iris2"), sets.New("iris2")
		}, reach: Draining},
		{name: "local, all pods are about to end", change: func(a *Address) { a.NeedsLocal, a.ServingNodes = true, sets.New("iris1", "iris2") }, reach: Reached},
		{name: "its pods are about to end, others are as good", change: func(a *Address) { a.ServingNodes, a.StayingNodes = sets.New("iris1", "iris2"), sets.New("iris2") }, reach: Reached},
		{name: "about to go", node: func(n *Node) { n.Departing = true }, reach: Draining},
		{name: "not selected", change: func(a *Address) {
			*a = a.ForRoutes([]lb.Route{{NodeSelectors: []labels.Selector{selector(t, "name=iris2")}}})
		}, why: NotSelected},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, n := address(), node("iris1")
			a = a.ForRoutes([]lb.Route{{}})
			if test.change != nil {
				test.change(&a)
			}
			if test.node != nil {
				test.node(&n)
			}
			if reach, why := a.Announces(&n); reach != test.reach || why != test.why {
				t.Errorf("got %v, %v", reach, why)
			}
			routed := Routed(a, []Node{n})
			if (routed.Owner != "") != (test.reach != Unreached) || routed.Owner == "" && routed.Refusals[0].Why != test.why {
				t.Errorf("got %s", routed)
			}
		})
	}
	if o := Routed(address(func(a *Address) { a.AnyServing = false }), []Node{node("iris1")}); o.Why != NoEndpoint {
		t.Errorf("without a pod: %s", o)
	}
	// A route is for one Service, whatever advertisements on the LAN may be for.
	shared := address(func(a *Address) { a.Unshareable = true }).ForRoutes([]lb.Route{{}})
	if o := Elect(shared, []Node{node("iris1")}, nil); o.Owner != "iris1" {
		t.Errorf("shared, with serviceSelectors on the LAN: %s", o)
	}
}
