package lb

import "k8s.io/apimachinery/pkg/labels"

// Advertisement says which nodes may announce an address, and how. The zero value
// is: any node, by layer 2, on the interface whose network has the address. Where
// several apply to an address, each adds nodes, with its own interfaces for them
// and its own preferences among them.
type Advertisement struct {
	// ServiceSelectors, any of which must match the Service; if empty, all do.
	ServiceSelectors []labels.Selector
	// NodeSelectors, any of which must match a node; if empty, all do.
	NodeSelectors []labels.Selector

	Layer2
}

// Layer2 is announcing by ARP and NDP: one node at a time has the address.
type Layer2 struct {
	// Interfaces by name; empty means those whose own network has the address
	// or, if a node has none such, all its interfaces to the outside.
	Interfaces []string
	// Preferred nodes come first; the weights of all that match a node add up.
	Preferred []PreferredNodes
	// Failback lets a node that comes back have its addresses again. Otherwise
	// they stay where they are: a move costs something.
	Failback bool
}

// PreferredNodes are nodes that should have an address rather than others.
type PreferredNodes struct {
	Weight   int32
	Selector labels.Selector
}
