package agent

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

// directory knows, from Services, their endpoints and the pools, what is to be
// announced. A change of one Service costs the same whatever the number of
// Services. It is not safe for concurrent use.
type directory struct {
	pools    []lb.Pool
	services map[types.NamespacedName]*offer
	// serving has, by Service and by EndpointSlice of it, the nodes with an
	// endpoint that serves; owner has the Service of each of those slices.
	serving   map[types.NamespacedName]map[string]sets.Set[string]
	owner     map[types.NamespacedName]types.NamespacedName
	addresses map[netip.Addr][]*offer // oldest first
	nodes     sets.Set[netip.Addr]    // addresses of nodes
}

// offer is one Service that has addresses.
type offer struct {
	request lb.Request
	has     []netip.Addr
	local   bool // needs an endpoint on the node that has the address
}

func newDirectory() *directory {
	return &directory{
		services:  map[types.NamespacedName]*offer{},
		serving:   map[types.NamespacedName]map[string]sets.Set[string]{},
		owner:     map[types.NamespacedName]types.NamespacedName{},
		addresses: map[netip.Addr][]*offer{},
	}
}

// setService takes over what s says now; nil is a Service that is gone or not
// ours. It returns the addresses that may be announced otherwise now.
func (d *directory) setService(key types.NamespacedName, s *corev1.Service) []netip.Addr {
	affected := sets.New[netip.Addr]()
	if old := d.services[key]; old != nil {
		affected.Insert(old.has...)
		for _, a := range old.has {
			d.addresses[a] = slices.DeleteFunc(d.addresses[a], func(o *offer) bool { return o == old })
			if len(d.addresses[a]) == 0 {
				delete(d.addresses, a)
			}
		}
		delete(d.services, key)
	}
	if s != nil {
		if has := native.Published(s); len(has) > 0 {
			o := &offer{request: native.Request(s, nil, nil), has: has,
				local: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal}
			d.services[key] = o
			affected.Insert(has...)
			for _, a := range has {
				at, _ := slices.BinarySearchFunc(d.addresses[a], o, func(x, y *offer) int {
					if x.request.Older(&y.request) {
						return -1
					}
					return 1
				})
				d.addresses[a] = slices.Insert(d.addresses[a], at, o)
			}
		}
	}
	return affected.UnsortedList()
}

// setSlice takes over the endpoints in one EndpointSlice; nil is one that is
// gone. It returns the addresses that may be announced otherwise now.
func (d *directory) setSlice(key types.NamespacedName, slice *discoveryv1.EndpointSlice) []netip.Addr {
	service := d.owner[key]
	nodes := sets.New[string]()
	if slice != nil {
		now := types.NamespacedName{Namespace: key.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
		if _, known := d.owner[key]; known && now != service { // it is another Service's now
			return slices.Concat(d.setSlice(key, nil), d.setSlice(key, slice))
		}
		service = now
		for _, e := range slice.Endpoints {
			if !canServe(e.Conditions) {
				continue
			}
			node := "" // of an endpoint outside of the cluster
			if e.NodeName != nil {
				node = *e.NodeName
			}
			nodes.Insert(node)
		}
	}
	if nodes.Equal(d.serving[service][key.Name]) {
		return nil
	}
	if len(nodes) > 0 {
		if d.serving[service] == nil {
			d.serving[service] = map[string]sets.Set[string]{}
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
	if o := d.services[service]; o != nil {
		return o.has
	}
	return nil
}

// canServe: an endpoint that is terminating serves until it says otherwise.
func canServe(c discoveryv1.EndpointConditions) bool {
	return c.Ready == nil || *c.Ready || c.Serving != nil && *c.Serving
}

// setPools takes over all pools.
func (d *directory) setPools(pools []lb.Pool) { d.pools = pools }

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
// elsewhere, would take the node off the network. Of Services
// that have an address together without having agreed to share it, only the
// oldest counts, as the controller will decide as well.
func (d *directory) tenants(a netip.Addr) []*offer {
	all := d.addresses[a]
	if len(all) == 0 || d.nodes.Has(a) {
		return nil
	}
	out := all[:1:1]
	for _, o := range all[1:] {
		if key := all[0].request.ShareKey; key != "" && o.request.ShareKey == key {
			out = append(out, o)
		}
	}
	return out
}

// ports that Services offer on a.
func (d *directory) ports(a netip.Addr) []lb.Port {
	var out []lb.Port
	for _, o := range d.tenants(a) {
		out = append(out, o.request.Ports...)
	}
	return out
}

// names of the Services that live on a.
func (d *directory) names(a netip.Addr) []types.NamespacedName {
	var out []types.NamespacedName
	for _, o := range d.tenants(a) {
		out = append(out, o.request.Service)
	}
	return out
}

// advertisement of the pool that has a. An address that is out of pool is
// announced as by a pool that says nothing.
func (d *directory) advertisement(a netip.Addr) lb.Advertisement {
	for i := range d.pools {
		if d.pools[i].Contains(a) {
			return d.pools[i].Advertisements[0]
		}
	}
	return lb.Advertisement{}
}

// candidate returns what the election needs to know about a.
func (d *directory) candidate(a netip.Addr) elect.Address {
	ad := d.advertisement(a)
	out := elect.Address{Addr: a, HashKey: a, Interfaces: ad.Interfaces, NodeSelectors: ad.NodeSelectors, Sticky: !ad.Failback}
	for _, p := range ad.Preferred {
		out.Preferred = append(out.Preferred, elect.Preference{Weight: int(p.Weight), Selector: p.Selector})
	}
	tenants := d.tenants(a)
	if len(tenants) > 0 {
		out.HashKey = tenants[0].has[0]
	}
	// A node that is to have the pods of one Local Service must have those of
	// all: sharing asks for the same selector.
	for _, o := range tenants {
		for _, nodes := range d.serving[o.request.Service] {
			out.AnyServing = true
			if o.local {
				out.ServingNodes = nodes.Union(out.ServingNodes)
			}
		}
		out.NeedsLocal = out.NeedsLocal || o.local
	}
	return out
}
