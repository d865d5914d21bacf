package agent

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/agent/dhcplease"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

// What the election needs to know about addresses, from the directory.

// pool returns the one that a, an address of o, is from, and how it is advertised.
func (d *directory) pool(a netip.Addr, o *offer) (lb.PoolKey, []lb.Advertisement) {
	return d.pools.Of(a, o.Service)
}

// advertisements returns those that are for a as an address of o, and whether it
// cannot be announced for o because it may be shared while one of them is for
// some Services only.
func (d *directory) advertisements(a netip.Addr, o *offer) (ads []lb.Advertisement, unshareable bool) {
	_, all := d.pool(a, o)
	for _, ad := range all {
		if len(ad.ServiceSelectors) == 0 {
			ads = append(ads, ad)
		} else if slices.ContainsFunc(ad.ServiceSelectors, func(s labels.Selector) bool { return s.Matches(o.Request.Labels) }) {
			unshareable = unshareable || dhcplease.Shares(&o.Request, lb.FamilyOf(a))
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

// lease returns the name of the lease that a is, or would be, or "".
func (d *directory) lease(a netip.Addr) string {
	for _, o := range d.tenants(a) {
		if name := d.leases.Name(o.Request.Service, lb.FamilyOf(a)); name != "" {
			return name
		}
	}
	return ""
}

// hashKey is the same for all addresses of a Service, whatever it leases.
func (d *directory) hashKey(o *offer) string {
	if names := d.leases.Names(o.Request.Service); len(names) > 0 {
		return names[0]
	}
	return o.has[0].String()
}

// candidate returns what the election needs to know about a.
func (d *directory) candidate(a netip.Addr) elect.Address {
	out := elect.Address{Addr: a}
	tenants, announced := d.tenants(a), d.announced(a)
	if len(tenants) > 0 {
		out.HashKey = d.hashKey(tenants[0])
		out.Unshareable = len(announced) == 0
	}
	// Services share an address of one pool, and advertisements for some Services
	// only are not for those that share: what is for one is for all.
	if len(announced) > 0 {
		out.Advertisements, _ = d.advertisements(a, announced[0])
	}
	var names []types.NamespacedName
	for _, o := range announced {
		if o.Placed { // what one says, all say that share it
			out.Placed, out.Carriers = true, out.Carriers.Union(sets.New(o.Carriers[a]...))
		}
		names = append(names, o.Request.Service)
	}
	d.fillServing(&out, names)
	return out
}

// fillServing says of an address where the Services serve that it is announced for.
// A node that is to have the pods of one Local Service must have those of all:
// sharing asks for the same selector.
func (d *directory) fillServing(out *elect.Address, services []types.NamespacedName) {
	for _, key := range services {
		o := d.services[key]
		if o == nil {
			continue
		}
		for _, nodes := range d.serving[key] {
			out.AnyServing = true
			if o.Local {
				out.ServingNodes = nodes.Union(out.ServingNodes)
			}
		}
		out.NeedsLocal = out.NeedsLocal || o.Local
	}
}
