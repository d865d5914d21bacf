package elect

import (
	"slices"
	"strings"

	"fairlead.io/internal/lb"
)

// Obstacle is why a node cannot have an address.
type Obstacle uint8

// In the order in which they are looked for: what somebody wants comes before
// what is broken, so that a person is told of faults only where they matter.
const (
	None Obstacle = iota
	NotSelected
	Excluded
	NotAlive
	NetworkUnavailable
	NoInterface
	NoLocalEndpoint
	ProxyUnhealthy
)

// obstacles are told as the end of a sentence that begins with a node.
var obstacles = [...]string{
	None:               "can have it",
	NotSelected:        "is not selected by any nodeSelectors",
	Excluded:           "has the label node.kubernetes.io/exclude-from-external-load-balancers",
	NotAlive:           "does not answer",
	NetworkUnavailable: "has the condition NetworkUnavailable",
	NoInterface:        "has no interface for it that is up",
	NoLocalEndpoint:    "has no serving endpoint, which externalTrafficPolicy: Local asks for",
	ProxyUnhealthy:     "has no healthy kube-proxy",
}

func (o Obstacle) String() string { return obstacles[o] }

// obstacle returns what keeps n from having a.
func obstacle(a *Address, n *Node) Obstacle {
	switch {
	case !selected(a, n):
		return NotSelected
	case n.Excluded:
		return Excluded
	case !n.Alive:
		return NotAlive
	case n.NetworkUnavailable:
		return NetworkUnavailable
	case !connected(a, n):
		return NoInterface
	case a.NeedsLocal && !a.ServingNodes.Has(n.Name):
		return NoLocalEndpoint
	case !n.ProxyHealthy:
		return ProxyUnhealthy
	}
	return None
}

func selected(a *Address, n *Node) bool {
	for _, s := range a.NodeSelectors {
		if s.Matches(n.Labels) {
			return true
		}
	}
	return len(a.NodeSelectors) == 0
}

func connected(a *Address, n *Node) bool {
	usable := n.Interfaces[lb.FamilyOf(a.Addr)]
	if len(a.Interfaces) == 0 {
		return usable.Len() > 0
	}
	return usable.HasAny(a.Interfaces...)
}

// Refusal says of one node why it cannot have the address.
type Refusal struct {
	Node string
	Why  Obstacle
}

// refusals of all nodes, by node.
func refusals(a *Address, nodes []Node) []Refusal {
	var all []Refusal
	for i := range nodes {
		if why := obstacle(a, &nodes[i]); why != None {
			all = append(all, Refusal{nodes[i].Name, why})
		}
	}
	slices.SortFunc(all, func(x, y Refusal) int { return strings.Compare(x.Node, y.Node) })
	return all
}
