package cloudscale

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

// endpoint is an address of a node in a subnet that load balancers reach.
type endpoint struct {
	Address netip.Addr
	Subnet  string // UUID
}

// targets are the nodes that a load balancer sends traffic to.
type targets struct {
	Endpoints []endpoint // sorted
	Zones     []string   // sorted
	Skipped   []string   // nodes that are left out, and why

	receiving int // nodes that may receive traffic of load balancers
	selected  int // of these, what the Service selects
	mapped    int // of these, what the cloud knows
}

// resolveMembers finds the servers of nodes. A node without a server is left out.
func resolveMembers(nodes []lb.Node, servers []cloudscale.Server, s *compat.Settings) targets {
	var f targets
	for i := range nodes {
		n := &nodes[i]
		if !n.Receives {
			continue
		}
		f.receiving++
		if !s.NodeSelector.Matches(labels.Set(n.Labels)) {
			continue
		}
		f.selected++
		server, why := serverOf(n, servers)
		if server == nil {
			f.Skipped = append(f.Skipped, fmt.Sprintf("node %s %s", n.Name, why))
			continue
		}
		f.mapped++
		f.Zones = append(f.Zones, server.Zone.Slug)
		before := len(f.Endpoints)
		f.Endpoints = append(f.Endpoints, endpoints(server, s.AllowedSubnets)...)
		if len(f.Endpoints) == before && len(s.AllowedSubnets) == 0 {
			f.Skipped = append(f.Skipped, fmt.Sprintf("node %s has no address in a private network with a subnet", n.Name))
		}
	}
	slices.SortFunc(f.Endpoints, func(a, b endpoint) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Subnet, b.Subnet))
	})
	slices.Sort(f.Zones)
	slices.Sort(f.Skipped)
	f.Endpoints, f.Zones = slices.Compact(f.Endpoints), slices.Compact(f.Zones)
	return f
}

// complete says whether every node was found.
func (f *targets) complete() bool { return f.mapped == f.selected }

// endpoints of a server: all addresses in private networks, or those in the
// allowed subnets. Networks without subnets cannot be reached.
func endpoints(s *cloudscale.Server, allowed []string) []endpoint {
	var out []endpoint
	for _, i := range s.Interfaces {
		if i.Type == cloudscale.Public {
			continue
		}
		for _, a := range i.Addresses {
			if a.Subnet.UUID != "" && (len(allowed) == 0 || slices.Contains(allowed, a.Subnet.UUID)) {
				out = append(out, endpoint{a.Address, a.Subnet.UUID})
			}
		}
	}
	return out
}

// serverOf finds a node's server by its providerID or, as long as it has none,
// by its name.
func serverOf(n *lb.Node, servers []cloudscale.Server) (*cloudscale.Server, string) {
	is, what := func(s *cloudscale.Server) bool { return s.Name == n.Name }, "name"
	if n.ProviderID != "" {
		id, err := cloudscale.ServerID(n.ProviderID)
		if err != nil {
			return nil, "has no server: " + err.Error()
		}
		is, what = func(s *cloudscale.Server) bool { return s.UUID == id }, "providerID"
	}
	var found *cloudscale.Server
	for i := range servers {
		if !is(&servers[i]) {
			continue
		}
		if found != nil {
			return nil, "has several servers with its name"
		}
		found = &servers[i]
	}
	if found == nil {
		return nil, "has no server with its " + what
	}
	return found, ""
}
