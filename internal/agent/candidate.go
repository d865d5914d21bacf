package agent

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

// What the election needs to know about addresses, from the directory.

// pool returns the one that a, an address of o, is from, and how it is advertised.
func (d *directory) pool(a netip.Addr, o *offer) (lb.PoolKey, []lb.Advertisement) {
	return d.pools.Of(a, o.Service)
}

// advertisements returns those that are for a as an address of o, and whether it
// cannot be announced for o.
func (d *directory) advertisements(a netip.Addr, o *offer) (ads []lb.Advertisement, unshareable bool) {
	return d.pools.Advertisements(a, o.Service)
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
	tenants := d.tenants(a)
	services := make([]*sources.Service, len(tenants))
	for i, o := range tenants {
		services[i] = o.Service
	}
	key := ""
	if len(tenants) > 0 {
		key = d.hashKey(tenants[0])
	}
	return d.pools.Candidate(a, services, key, func(s *sources.Service) sources.Serving { return d.serving[s.Request.Service] })
}

// fillServing says of an address where the Services serve that it is announced for.
func (d *directory) fillServing(out *elect.Address, services []types.NamespacedName) {
	for _, key := range services {
		if o := d.services[key]; o != nil {
			sources.FillServing(out, o.Service, d.serving[key])
		}
	}
}
