package elect

import "fairlead.io/internal/lb"

// Reach is how a node announces an address to routers.
type Reach uint8

const (
	Unreached Reach = iota
	// Draining: routers should use other nodes. They use this one if there is none.
	Draining
	Reached
)

// Announces says how node n announces an address to routers, and if it does not, why. Of
// routes every eligible node announces one: there is no owner, no claim and no epoch. The
// advertisements of the address are its routes' (see ForRoutes); interfaces do not matter.
func (a *Address) Announces(n *Node) (Reach, Obstacle) {
	switch {
	case !selected(a, n.Labels):
		return Unreached, NotSelected
	case n.NetworkUnavailable:
		return Unreached, NetworkUnavailable
	case n.Excluded:
		return Unreached, Excluded
	case !n.Alive:
		return Unreached, NotAlive
	case a.NeedsLocal && !a.ServingNodes.Has(n.Name):
		return Unreached, NoLocalEndpoint
	case !n.ProxyHealthy && !n.ProxyWasHealthy:
		return Unreached, ProxyUnhealthy
	case n.Leaving, n.Cordoned, n.Departing, !n.ProxyHealthy, a.Moving(n):
		return Draining, None
	}
	return Reached, None
}

// Moving says whether all endpoints on a node are about to end, while other nodes have some that
// stay. Only endpoints of the node itself count.
func (a *Address) Moving(n *Node) bool {
	return a.NeedsLocal && a.ServingNodes.Has(n.Name) && len(a.StayingNodes) > 0 && !a.StayingNodes.Has(n.Name)
}

// Routed returns whether any node announces an address to routers: Owner is the first that
// does.
func Routed(a Address, nodes []Node) Outcome {
	switch {
	case len(a.Advertisements) == 0:
		return Outcome{Why: NotAdvertised}
	case !a.AnyServing:
		return Outcome{Why: NoEndpoint}
	}
	out := Outcome{Why: NoNode}
	for i := range nodes {
		reach, why := a.Announces(&nodes[i])
		if reach != Unreached {
			return Outcome{Owner: nodes[i].Name, Why: Kept}
		}
		out.Refusals = append(out.Refusals, Refusal{Node: nodes[i].Name, Why: why})
	}
	return out
}

// ForRoutes returns the address as its routes have it: for the nodes that these select.
func (a Address) ForRoutes(routes []lb.Route) Address {
	a.Advertisements, a.Unshareable = nil, false
	for i := range routes {
		a.Advertisements = append(a.Advertisements, lb.Advertisement{NodeSelectors: routes[i].NodeSelectors})
	}
	return a
}
