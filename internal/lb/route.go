package lb

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Route says how addresses of a pool are announced by BGP: by which nodes, to which peers,
// as which prefixes, with which attributes. Where several apply, each adds to the others.
type Route struct {
	Name    string
	Created time.Time // of two that contradict each other, the older one counts
	// NodeSelectors and ServiceSelectors, any of which must match; if empty, all do.
	NodeSelectors    []labels.Selector
	ServiceSelectors []labels.Selector
	// Peers by name; if empty, all.
	Peers []string
	// Aggregation is the length of the prefix that is announced, by family.
	Aggregation [len(Families)]int
	LocalPref   uint32 // 0 if nobody has chosen it
	Communities []Community
}

// Older orders routes by age, then by name.
func (r *Route) Older(s *Route) bool { return compareRoutes(r, s) < 0 }

func compareRoutes(r, s *Route) int {
	return cmp.Or(r.Created.Compare(s.Created), strings.Compare(r.Name, s.Name))
}

// Prefix is what is announced for an address.
func (r *Route) Prefix(a netip.Addr) netip.Prefix {
	return netip.PrefixFrom(a, min(max(r.Aggregation[FamilyOf(a)], 0), a.BitLen())).Masked()
}

// applies says whether the route is for one of these Services on this node.
func (r *Route) applies(services []labels.Set, node labels.Set) bool {
	return allOrAny(r.NodeSelectors, node) && slices.ContainsFunc(services, func(s labels.Set) bool { return allOrAny(r.ServiceSelectors, s) })
}

// Uses says whether nodes with these labels announce addresses of a Service to a peer by the route.
func (r *Route) Uses(p *Peer, service, node labels.Set) bool {
	named := slices.Contains(r.Peers, p.Name) || len(r.Peers) == 0 && !p.NamedOnly
	return named && p.On(node) && r.applies([]labels.Set{service}, node)
}

// Contradicts says whether two routes may announce one prefix to one peer with different
// preferences. Those with service selectors are compared for each Service instead, by Paths.
func (r *Route) Contradicts(s *Route, nodes []labels.Set, families [len(Families)]bool) bool {
	switch {
	case r.LocalPref == s.LocalPref, len(r.ServiceSelectors)+len(s.ServiceSelectors) > 0:
		return false
	case len(r.Peers) > 0 && len(s.Peers) > 0 && !slices.ContainsFunc(r.Peers, func(p string) bool { return slices.Contains(s.Peers, p) }):
		return false
	case len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n labels.Set) bool {
		return allOrAny(r.NodeSelectors, n) && allOrAny(s.NodeSelectors, n)
	}):
		return false
	}
	for _, f := range Families {
		if families[f] && r.Aggregation[f] == s.Aggregation[f] {
			return true
		}
	}
	return false
}

// Path is one route to one peer.
type Path struct {
	Peer   string
	Prefix netip.Prefix
	Attributes
}

// Attributes of a path.
type Attributes struct {
	LocalPref   uint32      // 0 if nobody has chosen it
	Communities []Community // sorted, each once
}

// Refusal is why a route is not used for an address, or not entirely.
type Refusal struct {
	Route  string // its name
	Reason Reason
}

// Paths returns what a node announces for an address, to those of its peers, by peer and
// prefix, and why routes are not used where older ones say otherwise, at most one refusal for
// each. It takes the labels of the Services that this node serves at the address: several may
// share it.
func Paths(a netip.Addr, services []labels.Set, node labels.Set, routes []Route, peers []string) ([]Path, []Refusal) {
	byAge := make([]*Route, 0, len(routes))
	for i := range routes {
		if routes[i].applies(services, node) {
			byAge = append(byAge, &routes[i])
		}
	}
	slices.SortStableFunc(byAge, compareRoutes)
	var paths []Path
	var by []*Route // which route made the path
	var refused []Refusal
	for _, r := range byAge {
		var why *Reason
		for _, peer := range peers {
			if len(r.Peers) > 0 && !slices.Contains(r.Peers, peer) {
				continue
			}
			prefix := r.Prefix(a)
			i := slices.IndexFunc(paths, func(p Path) bool { return p.Peer == peer && p.Prefix == prefix })
			if i < 0 {
				i = len(paths)
				paths, by = append(paths, Path{Peer: peer, Prefix: prefix, Attributes: Attributes{LocalPref: r.LocalPref}}), append(by, r)
			}
			if paths[i].LocalPref != r.LocalPref {
				w := AdvertisementConflict.With(r.Name, prefix, by[i].Name, by[i].LocalPref, r.LocalPref)
				why = &w
				continue
			}
			united, ok := unite(paths[i].Communities, r.Communities)
			if !ok {
				w := TooManyCommunities.With(r.Name, prefix, MaxCommunities)
				why = &w
				continue
			}
			paths[i].Communities = united
		}
		if why != nil {
			refused = append(refused, Refusal{r.Name, *why})
		}
	}
	slices.SortFunc(paths, func(p, q Path) int {
		return cmp.Or(strings.Compare(p.Peer, q.Peer), p.Prefix.Addr().Compare(q.Prefix.Addr()), cmp.Compare(p.Prefix.Bits(), q.Prefix.Bits()))
	})
	return paths, refused
}

// unite returns the communities of both, unless they are too many.
func unite(a, b []Community) ([]Community, bool) {
	all := slices.Concat(a, b)
	slices.SortFunc(all, Community.Compare)
	all = slices.Compact(all)
	return all, len(all) <= MaxCommunities
}
