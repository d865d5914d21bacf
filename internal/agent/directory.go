package agent

import (
	"net/netip"
	"slices"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/lb"
)

// directory knows, from Services, their endpoints and the pools, what is to be
// announced. A change of one Service costs the same whatever the number of
// Services. It is not safe for concurrent use.
type directory struct {
	pools    *sources.Pools
	leases   leased
	services map[types.NamespacedName]*offer
	// serving has, by Service and by EndpointSlice of it, the nodes with an
	// endpoint that serves; owner has the Service of each of those slices.
	serving   map[types.NamespacedName]sources.Serving
	owner     map[types.NamespacedName]types.NamespacedName
	addresses lb.ByAge[netip.Addr, *offer]
	nodes     sets.Set[netip.Addr] // addresses of nodes
}

// leased is what the directory must know of addresses that DHCP servers assign:
// dhcplease.Leases.
type leased interface {
	// Addresses returns what this node has leased for a Service.
	Addresses(service types.NamespacedName) []netip.Addr
	// Name returns the name of the lease that a Service wants of a family, or "";
	// Names returns those of all families.
	Name(service types.NamespacedName, f lb.Family) string
	Names(service types.NamespacedName) []string
	// Look has leases decided about again.
	Look(names ...string)
}

// offer is one Service that has addresses, or gets some from a DHCP server.
type offer struct {
	*sources.Service
	// has are the addresses that it publishes, and those that this node has leased
	// for it.
	has []netip.Addr
}

// Older says whether the Service of o is older than that of p.
func (o *offer) Older(p *offer) bool { return o.Request.Older(&p.Request) }

func newDirectory(l leased) *directory {
	return &directory{
		pools: sources.NewPools(nil, nil), leases: l,
		services:  map[types.NamespacedName]*offer{},
		serving:   map[types.NamespacedName]sources.Serving{},
		owner:     map[types.NamespacedName]types.NamespacedName{},
		addresses: lb.ByAge[netip.Addr, *offer]{},
	}
}

// setService takes over what a Service says now; nil is one that is gone or not
// ours. It returns the addresses that may be announced otherwise now.
func (d *directory) setService(key types.NamespacedName, s *sources.Service) []netip.Addr {
	affected := sets.New[netip.Addr]()
	if old := d.services[key]; old != nil {
		affected.Insert(old.has...)
		d.leave(old)
		delete(d.services, key)
	}
	if s != nil {
		o := &offer{Service: s}
		if o.has = d.addressesOf(o); len(o.has) > 0 || s.Lease != nil {
			d.services[key] = o
			affected.Insert(o.has...)
			d.enter(o)
		}
	}
	return affected.UnsortedList()
}

// addressesOf returns what o publishes and what this node has leased for it.
func (d *directory) addressesOf(o *offer) []netip.Addr {
	out := slices.Clone(o.Published)
	for _, a := range d.leases.Addresses(o.Request.Service) {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// rehouse has a Service live on the addresses that it has now, and returns these and
// those before.
func (d *directory) rehouse(key types.NamespacedName) []netip.Addr {
	o := d.services[key]
	if o == nil {
		return nil
	}
	was := o.has
	d.leave(o)
	o.has = d.addressesOf(o)
	d.enter(o)
	return slices.Concat(was, o.has)
}

// enter has o live on its addresses; leave ends that.
func (d *directory) enter(o *offer) {
	for _, a := range o.has {
		d.addresses.Add(a, o)
	}
}

func (d *directory) leave(o *offer) {
	for _, a := range o.has {
		d.addresses.Remove(a, o)
	}
}

// setSlice takes over the endpoints in one EndpointSlice; nil is one that is
// gone. It returns the addresses that may be announced otherwise now.
func (d *directory) setSlice(key types.NamespacedName, slice *discoveryv1.EndpointSlice) []netip.Addr {
	service := d.owner[key]
	var nodes sources.NodesOf
	if slice != nil {
		now := types.NamespacedName{Namespace: key.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		if _, known := d.owner[key]; known && now != service { // it is another Service's now
			return slices.Concat(d.setSlice(key, nil), d.setSlice(key, slice))
		}
		service = now
		nodes = sources.ServingNodes(slice)
	}
	if nodes.Equal(d.serving[service][key.Name]) {
		return nil
	}
	if len(nodes.Serving) > 0 {
		if d.serving[service] == nil {
			d.serving[service] = sources.Serving{}
		}
		d.serving[service][key.Name] = nodes
		d.owner[key] = service
	} else {
		delete(d.owner, key)
		delete(d.serving[service], key.Name)
		if len(d.serving[service]) == 0 {
			delete(d.serving, service)
		}
	}
	d.leases.Look(d.leases.Names(service)...)
	if o := d.services[service]; o != nil {
		return slices.Clone(o.has)
	}
	return nil
}

// setNodes takes over the addresses of all nodes, and returns those of Services
// that have become one, or are none any more.
func (d *directory) setNodes(nodes sets.Set[netip.Addr]) []netip.Addr {
	var affected []netip.Addr
	for a := range nodes.SymmetricDifference(d.nodes) {
		if len(d.addresses[a]) > 0 {
			affected = append(affected, a)
		}
	}
	d.nodes = nodes
	return affected
}

// tenants returns the Services that live on a, the oldest first. The address of
// a node is nobody's, whatever is published: serving it, and fencing it
// elsewhere, would take the node off the network.
func (d *directory) tenants(a netip.Addr) []*offer {
	all := d.addresses[a]
	if len(all) == 0 || d.nodes.Has(a) {
		return nil
	}
	return sources.Tenants(all, func(o *offer) string { return o.Request.ShareKey })
}

// ports that Services offer on a.
func (d *directory) ports(a netip.Addr) []lb.Port {
	var out []lb.Port
	for _, o := range d.tenants(a) {
		out = append(out, o.Request.Ports...)
	}
	return out
}

// placed says whether the controller chooses the node for a.
func (d *directory) placed(a netip.Addr) bool {
	return slices.ContainsFunc(d.tenants(a), func(o *offer) bool { return o.Placed })
}

// keep is for how long connections are kept after a has moved, unless its pool says.
func (d *directory) keep(a netip.Addr, unsaid time.Duration) time.Duration {
	for _, o := range d.tenants(a) {
		return d.pools.Keep(a, o.Service, unsaid)
	}
	return unsaid
}

// names of the Services that live on a.
func (d *directory) names(a netip.Addr) []types.NamespacedName {
	var out []types.NamespacedName
	for _, o := range d.tenants(a) {
		out = append(out, o.Request.Service)
	}
	return out
}
