package sources

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/lb"
)

// What is announced to routers, from objects of the API server. Agents and the tools that
// predict what agents do share it.

// PeersOf returns the names of the peers with which a node with these labels has a session, and
// that routes use.
func (p *Pools) PeersOf(node labels.Set, routes []lb.Route) []string {
	var out []string
	for i := range p.Peers {
		peer := &p.Peers[i]
		named := func(r lb.Route) bool { return slices.Contains(r.Peers, peer.Name) }
		if peer.On(node) && (!peer.NamedOnly || slices.ContainsFunc(routes, named)) {
			out = append(out, peer.Name)
		}
	}
	return out
}

// RouteRequest is what the Services of an address ask for about its routes: what all of them
// ask for, as it is one route.
func (p *Pools) RouteRequest(tenants []*Service) lb.RouteRequest {
	if len(tenants) == 0 {
		return lb.RouteRequest{}
	}
	first := tenants[0].Request.Route
	for _, s := range tenants[1:] {
		if !first.Equal(&s.Request.Route) {
			return lb.RouteRequest{Wrong: "Services that share the address have different annotations about BGP"}
		}
	}
	return first.Resolve(p.Aliases)
}
