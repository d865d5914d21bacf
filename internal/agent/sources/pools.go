package sources

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// Pools are all pools, and how their addresses are advertised.
type Pools struct {
	all []lb.Pool
	// gone returns how the addresses of a pool are advertised that is not there, goneRoutes how
	// they are announced by BGP.
	gone       func(lb.FormerPool) []lb.Advertisement
	goneRoutes func(lb.FormerPool) []lb.Route
	// ownRoutes are how Services are announced that are Routed.
	ownRoutes []lb.Route
	// Aliases are names of communities.
	Aliases map[string]lb.Community
	// Peers are all routers, by name, of all nodes.
	Peers []lb.Peer
	// Interfaces are those that a pool or an advertisement names.
	Interfaces []string
	// Configurations are those of other load balancers that were read.
	Configurations []Configuration
}

// Configuration is what was read in the format of another load balancer.
type Configuration struct {
	Dialect  lb.Dialect
	Problems []Problem
}

// Problem is what is wrong with an object.
type Problem struct {
	Kind, Name string
	Reason     lb.Reason
}

// NewPools returns these pools. gone may be nil.
func NewPools(all []lb.Pool, gone func(lb.FormerPool) []lb.Advertisement) *Pools {
	p := &Pools{all: slices.Clone(all), gone: gone}
	slices.SortFunc(p.all, func(x, y lb.Pool) int { return strings.Compare(x.Key.String(), y.Key.String()) })
	for i := range p.all {
		for _, ad := range p.all[i].Advertisements {
			p.Interfaces = append(p.Interfaces, ad.Interfaces...)
		}
	}
	return p
}

// Amend changes the pools: what would be if they were these?
func (p *Pools) Amend(change func([]lb.Pool) []lb.Pool) { p.all = change(p.all) }

// Pools reads all pools.
func (r *Reader) Pools(ctx context.Context) (*Pools, error) {
	r.readConfigMap(ctx)
	var list v1alpha1.PoolList
	if err := r.cluster.List(ctx, &list); err != nil {
		return nil, err
	}
	objects := metallb.Objects{Namespace: r.o.MetalLBNamespace}
	c := r.metallb.Load()
	if c != nil {
		var pools apimetallb.IPAddressPoolList
		var ads apimetallb.L2AdvertisementList
		if err := (*c).List(ctx, &pools); err != nil {
			return nil, err
		}
		if err := (*c).List(ctx, &ads); err != nil {
			return nil, err
		}
		objects.Pools, objects.Advertisements = pools.Items, ads.Items
	}
	var err error
	if objects.BGP, err = r.bgp(ctx); err != nil {
		return nil, err
	}
	all, routing := objects.TranslateAll()
	r.routers.former = routing.Former
	for i := range list.Items {
		all = append(all, native.Pool(&list.Items[i]))
	}
	all = append(all, r.config.Pools...)
	out := NewPools(all, goneOf(&objects))
	out.goneRoutes = func(pool lb.FormerPool) []lb.Route { return routing.Orphans(pool.Key.Name, pool.Labels) }
	out.Aliases = routing.Aliases
	own := r.kubevipPeers(ctx)
	out.Peers, out.ownRoutes = append(routing.Peers, own...), r.kubevipRoutes(own)
	for i := range objects.Advertisements { // of pools that are gone, too
		out.Interfaces = append(out.Interfaces, objects.Advertisements[i].Spec.Interfaces...)
	}
	out.Interfaces = append(out.Interfaces, r.config.Interfaces()...)
	for _, b := range r.o.Config.Backends() {
		if name := r.o.Config.PlacedInterface(b); name != "" {
			out.Interfaces = append(out.Interfaces, name)
		}
	}
	if c != nil {
		out.Configurations = append(out.Configurations, Configuration{metallb.Name, problemsOf(routing.Problems)})
	}
	return out, nil
}

// goneOf returns how MetalLB would advertise the addresses of pools that are gone.
func goneOf(objects *metallb.Objects) func(lb.FormerPool) []lb.Advertisement {
	known := map[string][]lb.Advertisement{}
	return func(pool lb.FormerPool) []lb.Advertisement {
		key := pool.Key.Name + " " + labels.Set(pool.Labels).String()
		if _, ok := known[key]; !ok {
			known[key] = objects.Orphans(pool.Key.Name, pool.Labels)
		}
		return known[key]
	}
}

func problemsOf(all []metallb.Problem) (out []Problem) {
	for _, p := range all {
		out = append(out, Problem{p.Kind, p.Object.Name, p.Reason})
	}
	return out
}

// Of returns the pool that addr, an address of s, is from, and how it is
// advertised. If several pools have it, the one counts that is written down with
// it. An address that is out of pool is advertised as the pool is that is written
// down, which may be gone; without one, as by a pool that says nothing.
func (p *Pools) Of(addr netip.Addr, s *Service) (lb.PoolKey, []lb.Advertisement) {
	if s.Placed { // the pool is in a cloud
		return lb.PoolKey{}, s.advertised()
	}
	if s.Lease != nil && s.Lease.Families[lb.FamilyOf(addr)] {
		return s.Lease.Pool, s.advertised()
	}
	switch pool, former := p.find(addr, s); {
	case pool != nil:
		return pool.Key, s.amended(pool)
	case former != nil && p.gone == nil:
		return former.Key, nil
	case former != nil:
		return former.Key, p.gone(*former)
	}
	return lb.PoolKey{Dialect: lb.Native}, s.advertised()
}

// Routes returns how addr, an address of s, is announced by BGP.
func (p *Pools) Routes(addr netip.Addr, s *Service) []lb.Route {
	if s.Placed {
		return nil
	}
	if s.Lease != nil && s.Lease.Families[lb.FamilyOf(addr)] {
		return nil // the address is on the LAN of its DHCP server
	}
	switch pool, former := p.find(addr, s); {
	case pool != nil && pool.Key.Dialect != kubevip.Name:
		return pool.Routes
	case former != nil && p.goneRoutes != nil:
		return p.goneRoutes(*former)
	case former != nil:
		return nil
	}
	if s.Routed {
		return p.ownRoutes
	}
	return nil
}

// Keep is for how long connections are kept after addr, an address of s, has moved: what the pool
// says, if anything.
func (p *Pools) Keep(addr netip.Addr, s *Service, unsaid time.Duration) time.Duration {
	if pool, _ := p.find(addr, s); pool != nil && pool.Keep != nil {
		return *pool.Keep
	}
	return unsaid
}

// find returns the pool that addr, an address of s, is from, or what is known of one that is
// gone; both nil is neither.
func (p *Pools) find(addr netip.Addr, s *Service) (*lb.Pool, *lb.FormerPool) {
	var found, shrunk *lb.Pool
	named := false
	for i := range p.all {
		switch pool := &p.all[i]; {
		case pool.Key == s.Pool && pool.Contains(addr):
			return pool, nil
		case pool.Key == s.Pool:
			shrunk = pool
		case !pool.Contains(addr):
		case !named && slices.Contains(s.Request.From, pool.Key.Name):
			found, named = pool, true
		case found == nil:
			found = pool
		}
	}
	switch {
	case found != nil:
		return found, nil
	case shrunk != nil:
		return shrunk, nil
	case s.Pool == lb.PoolKey{}:
		return nil, nil
	case s.Former != nil && s.Former.Key == s.Pool:
		return nil, s.Former
	}
	return nil, &lb.FormerPool{Key: s.Pool}
}

// advertised is how addresses of a Service are announced of which no pool says
// more.
func (s *Service) advertised() []lb.Advertisement {
	if s.Routed { // instead
		return nil
	}
	return lb.AdvertisedOn(s.Interface)
}

// amended is how an address of the Service is announced that is of pool p.
func (s *Service) amended(p *lb.Pool) []lb.Advertisement {
	if p.Key.Dialect == kubevip.Name {
		return s.advertised()
	}
	return p.Advertisements
}
