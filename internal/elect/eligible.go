package elect

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/lb"
)

// Obstacle is why a node cannot have an address.
type Obstacle uint8

// In the order in which they are looked for: what somebody wants comes before
// what is broken, so that faults are reported only where they matter.
const (
	None Obstacle = iota
	NotSelected
	NotPlaced
	Excluded
	NotAlive
	NetworkUnavailable
	NoInterface
	Silenced
	KernelRefuses
	NoLocalEndpoint
	ProxyUnhealthy
)

// obstacles are shown as the end of a sentence that begins with a node.
var obstacles = [...]string{
	None:               "can have it",
	NotSelected:        "is not selected by any nodeSelectors",
	NotPlaced:          "is not the node that the controller has chosen",
	Excluded:           "has the label node.kubernetes.io/exclude-from-external-load-balancers",
	NotAlive:           "does not answer",
	NetworkUnavailable: "has the condition NetworkUnavailable",
	NoInterface:        "has no interface for it that is up",
	Silenced:           "has no interface that answers for it",
	KernelRefuses:      "cannot add it to an interface",
	NoLocalEndpoint:    "has no serving endpoint, which externalTrafficPolicy: Local asks for",
	ProxyUnhealthy:     "has no healthy kube-proxy",
}

func (o Obstacle) String() string { return obstacles[o] }

// Obstacle returns what keeps n from having the address.
func (a *Address) Obstacle(n *Node) Obstacle { return obstacle(a, n) }

// obstacle returns what keeps n from having a.
func obstacle(a *Address, n *Node) Obstacle {
	switch {
	case !selected(a, n.Labels):
		return NotSelected
	case a.Placed && !a.Carriers.Has(n.Name) && !a.Carriers.Has(lb.AnyNode):
		return NotPlaced
	case n.Excluded:
		return Excluded
	case !n.Alive:
		return NotAlive
	case n.NetworkUnavailable:
		return NetworkUnavailable
	case !connected(a, n) && n.Silence[a.FamilyOf()] != "":
		return Silenced
	case !connected(a, n):
		return NoInterface
	case a.Refused.Has(n.Name):
		return KernelRefuses
	case a.NeedsLocal && !a.ServingNodes.Has(n.Name):
		return NoLocalEndpoint
	case !n.ProxyHealthy && !n.ProxyWasHealthy:
		return ProxyUnhealthy
	}
	return None
}

// selected says whether any advertisement is for nodes with these labels.
func selected(a *Address, node labels.Set) bool {
	for i := range a.Advertisements {
		if selects(&a.Advertisements[i], node) {
			return true
		}
	}
	return false
}

// selects says whether the advertisement is for nodes with these labels.
func selects(ad *lb.Advertisement, node labels.Set) bool {
	for _, s := range ad.NodeSelectors {
		if s.Matches(node) {
			return true
		}
	}
	return len(ad.NodeSelectors) == 0
}

func connected(a *Address, n *Node) bool {
	f := a.FamilyOf()
	usable := n.Interfaces[f]
	if named := a.InterfacesOn(n.Labels); named != nil {
		return usable.HasAny(named...)
	}
	return len(usable.Difference(n.Bare[f])) > 0
}

// InterfacesOn returns the names of the interfaces on which a node with these
// labels has the address: those of all advertisements that select the node; nil
// if one of them is for any interface. A node that none selects, and that has the
// address until another one is up, has it where any advertisement says.
func (a *Address) InterfacesOn(node labels.Set) []string {
	none := !selected(a, node)
	var names []string
	for i := range a.Advertisements {
		ad := &a.Advertisements[i]
		if !none && !selects(ad, node) {
			continue
		}
		if len(ad.Interfaces) == 0 {
			return nil
		}
		names = append(names, ad.Interfaces...)
	}
	return names
}

// Refusal says of one node why it cannot have the address.
type Refusal struct {
	Node string
	Why  Obstacle
	// Silence is the node's, if it is Silenced.
	Silence string
}

func (r Refusal) text() string {
	if r.Why == Silenced {
		return r.Why.String() + " (" + r.Silence + ")"
	}
	return r.Why.String()
}

// refusals of all nodes, by node.
func refusals(a *Address, nodes []Node) []Refusal {
	var all []Refusal
	for i := range nodes {
		if why := obstacle(a, &nodes[i]); why != None {
			r := Refusal{Node: nodes[i].Name, Why: why}
			if why == Silenced {
				r.Silence = nodes[i].Silence[a.FamilyOf()]
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(x, y Refusal) int { return strings.Compare(x.Node, y.Node) })
	return all
}
