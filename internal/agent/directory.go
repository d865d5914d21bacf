package agent

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

// directory knows, from Services, their endpoints and the pools, what is to be
// announced. A change of one Service costs the same whatever the number of
// Services. It is not safe for concurrent use.
type directory struct {
	pools    []lb.Pool
	orphans  func(pool string) []lb.Advertisement // of a pool of MetalLB's that is gone
	services map[types.NamespacedName]*offer
	// serving has, by Service and by EndpointSlice of it, the nodes with an
	// endpoint that serves; owner has the Service of each of those slices.
	serving   map[types.NamespacedName]map[string]sets.Set[string]
	owner     map[types.NamespacedName]types.NamespacedName
	addresses map[netip.Addr][]*offer // oldest first
	nodes     sets.Set[netip.Addr]    // addresses of nodes
	leasing
}

// offer is one Service that has addresses.
type offer struct {
	request lb.Request
	// has are the addresses that it publishes, and those that this node has leased
	// for it.
	has, published []netip.Addr
	local          bool // needs an endpoint on the node that has the address
	// classic is the pool of MetalLB's kind that the addresses are from, as was
	// written down with them; it may be gone.
	classic string
	// leaseWish is what matters where the address is for a DHCP server to give.
	leaseWish
}

func newDirectory() *directory {
	return &directory{
		orphans:   func(string) []lb.Advertisement { return nil },
		services:  map[types.NamespacedName]*offer{},
		serving:   map[types.NamespacedName]map[string]sets.Set[string]{},
		owner:     map[types.NamespacedName]types.NamespacedName{},
		addresses: map[netip.Addr][]*offer{},
		leasing:   newLeasing(),
	}
}

// setService takes over what s says now, a Service whose class may use the pools
// of dialects; nil is one that is gone or not ours. It returns the addresses that
// may be announced otherwise now.
func (d *directory) setService(key types.NamespacedName, s *corev1.Service, dialects []lb.Dialect) []netip.Addr {
	affected := sets.New[netip.Addr]()
	if old := d.services[key]; old != nil {
		affected.Insert(old.has...)
		d.leave(old)
		delete(d.services, key)
		affected.Insert(d.unlist(old)...)
	}
	if s != nil {
		o := &offer{request: compat.Context{Dialects: dialects, KubeVIP: d.kubevip}.Request(s), published: native.Published(s), classic: classicPool(s),
			local: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal}
		affected.Insert(d.list(o, s)...)
		if o.has = d.addressesOf(o); len(o.has) > 0 || o.leases() {
			d.services[key] = o
			affected.Insert(o.has...)
			d.enter(o)
		}
	}
	return affected.UnsortedList()
}

// enter has o live on its addresses; leave ends that.
func (d *directory) enter(o *offer) {
	for _, a := range o.has {
		d.addresses[a] = byAge(d.addresses[a], o)
	}
}

func (d *directory) leave(o *offer) {
	for _, a := range o.has {
		without(d.addresses, a, o)
	}
}

// byAge returns all with o in its place, the oldest first.
func byAge(all []*offer, o *offer) []*offer {
	at, _ := slices.BinarySearchFunc(all, o, func(x, y *offer) int {
		if x.request.Older(&y.request) {
			return -1
		}
		return 1
	})
	return slices.Insert(all, at, o)
}

func without[K comparable](m map[K][]*offer, key K, o *offer) {
	m[key] = slices.DeleteFunc(m[key], func(x *offer) bool { return x == o })
	if len(m[key]) == 0 {
		delete(m, key)
	}
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
		return slices.Concat(o.has, o.tokensOf())
	}
	return nil
}

// canServe: an endpoint that is terminating serves until it says otherwise.
func canServe(c discoveryv1.EndpointConditions) bool {
	return c.Ready == nil || *c.Ready || c.Serving != nil && *c.Serving
}

// setPools takes over all pools, and how the addresses of a pool of MetalLB's
// that is gone are advertised.
func (d *directory) setPools(pools []lb.Pool, orphans func(pool string) []lb.Advertisement) {
	slices.SortFunc(pools, func(x, y lb.Pool) int { return strings.Compare(x.Key.String(), y.Key.String()) })
	d.pools, d.orphans = pools, orphans
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

// classicPool returns the pool of MetalLB's kind that the addresses of s are
// from, as was written down with them, or "".
func classicPool(s *corev1.Service) string {
	for key := range strings.SplitSeq(s.Annotations[native.AnnotationAllocatedFrom], ",") {
		if name, ok := strings.CutPrefix(strings.TrimSpace(key), string(lb.MetalLB)+"/"); ok {
			return name
		}
	}
	if _, ours := s.Annotations[native.AnnotationAllocatedFrom]; ours {
		return ""
	}
	return s.Annotations[metallb.AnnotationAllocatedFrom]
}

// pool returns the one that a, an address of o, is from, and its advertisements;
// of several that have it, the one that is written down with it. An address that
// is out of pool is announced as that pool is, if it is of MetalLB's kind; a native
// one as by a pool that says nothing.
func (d *directory) pool(a netip.Addr, o *offer) (lb.PoolKey, []lb.Advertisement) {
	if o.tokens[lb.FamilyOf(a)].IsValid() {
		return lb.PoolKey{Dialect: lb.KubeVIP, Name: d.kubevip.PoolKey(o.request.Service.Namespace)}, o.advertised()
	}
	classic := lb.PoolKey{Dialect: lb.MetalLB, Name: o.classic}
	var found, shrunk *lb.Pool
	named := false
	for i := range d.pools {
		switch p := &d.pools[i]; {
		case p.Key == classic && p.Contains(a):
			return p.Key, o.amended(p)
		case p.Key == classic:
			shrunk = p
		case !p.Contains(a):
		case !named && slices.Contains(o.request.From, p.Key.Name):
			found, named = p, true
		case found == nil:
			found = p
		}
	}
	switch {
	case found != nil:
		return found.Key, o.amended(found)
	case shrunk != nil:
		return shrunk.Key, o.amended(shrunk)
	case o.classic != "":
		return classic, d.orphans(o.classic)
	}
	return lb.PoolKey{Dialect: lb.Native}, o.advertised()
}

// advertisements returns those that are for a as an address of o, and whether it
// cannot be announced for o because it may be shared while one of them is for
// some Services only.
func (d *directory) advertisements(a netip.Addr, o *offer) (ads []lb.Advertisement, unshareable bool) {
	_, all := d.pool(a, o)
	for _, ad := range all {
		if len(ad.ServiceSelectors) == 0 {
			ads = append(ads, ad)
		} else if slices.ContainsFunc(ad.ServiceSelectors, func(s labels.Selector) bool { return s.Matches(o.request.Labels) }) {
			unshareable = unshareable || o.shares(lb.FamilyOf(a))
			ads = append(ads, ad)
		}
	}
	return ads, unshareable
}

// announced returns the Services for which a is announced if a node has it.
func (d *directory) announced(a netip.Addr) []*offer {
	return slices.DeleteFunc(slices.Clone(d.tenants(a)), func(o *offer) bool {
		_, unshareable := d.advertisements(a, o)
		return unshareable
	})
}

// candidate returns what the election needs to know about a.
func (d *directory) candidate(a netip.Addr) elect.Address {
	out := elect.Address{Addr: a, HashKey: a}
	tenants, announced := d.tenants(a), d.announced(a)
	if len(tenants) > 0 {
		out.HashKey = tenants[0].hashKey()
		out.Unshareable = len(announced) == 0
	}
	d.fill(&out, announced)
	return out
}

// fill says of out, an address, what is known of the Services that it is
// announced for.
func (d *directory) fill(out *elect.Address, announced []*offer) {
	// Services share an address of one pool, and advertisements for some Services
	// only are not for those that share: what is for one is for all.
	if len(announced) > 0 {
		out.Advertisements, _ = d.advertisements(out.Addr, announced[0])
	}
	// A node that is to have the pods of one Local Service must have those of
	// all: sharing asks for the same selector.
	for _, o := range announced {
		for _, nodes := range d.serving[o.request.Service] {
			out.AnyServing = true
			if o.local {
				out.ServingNodes = nodes.Union(out.ServingNodes)
			}
		}
		out.NeedsLocal = out.NeedsLocal || o.local
	}
}
