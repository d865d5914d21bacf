package cloudscale

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

// Kinds of objects, as steps name them.
const (
	kindLoadBalancer = "load balancer"
	kindPool         = "pool"
	kindMember       = "member"
	kindListener     = "listener"
	kindMonitor      = "health monitor"
	kindFloatingIP   = "floating IP"
)

// Plan returns the steps that turn what there is into what is wanted. It is
// pure: nothing but d and a counts.
//
// What is new comes before what is old goes, and one port is nothing to another.
func Plan(d Desired, a Actual) lb.Plan {
	p := planner{d: &d, a: &a, gone: map[string]bool{}}
	switch {
	case d.Gone:
		p.remove()
	case d.Nothing:
	case a.lb() == nil:
		p.create()
	case d.MembersOnly:
		p.own = a.lb()
		p.match(func(port *compat.Port, pool *cloudscale.Pool) bool { return pool.Name == port.Pool })
		for i := range d.Ports {
			if p.pools[i] != nil {
				p.members(i)
				p.retire(i)
			}
		}
		p.clear()
	default:
		p.own = a.lb()
		p.update()
		p.clear()
	}
	return lb.Plan{Steps: p.steps}
}

// planner makes one plan.
type planner struct {
	d *Desired
	a *Actual

	own   *cloudscale.LoadBalancer // nil: it is to be made
	pools []*cloudscale.Pool       // by port; nil: it is to be made
	steps []lb.Step
	gone  map[string]bool // listeners that the plan deletes
}

func (p *planner) add(s lb.Step) { p.steps = append(p.steps, s) }

// remove is all that is left to do for a Service that is gone: everything else
// goes with its load balancer.
func (p *planner) remove() {
	for _, o := range p.a.LoadBalancers {
		p.add(lb.Step{Verb: lb.VerbDelete, Kind: kindLoadBalancer, Name: o.Name, ID: o.UUID, Impact: lb.ImpactNewConnections})
	}
}

func (p *planner) create() {
	body := cloudscale.NewLoadBalancer{Name: p.d.Name, Flavor: p.d.Flavor, Zone: cmp.Or(p.d.Zone, p.d.ZoneOfNodes), Tags: p.d.Tags}
	for _, v := range p.d.VIPs {
		body.VIPAddresses = append(body.VIPAddresses, cloudscale.NewVIPAddress{Subnet: v.Subnet, Address: v.Address})
	}
	p.add(lb.Step{Verb: lb.VerbCreate, Kind: kindLoadBalancer, Name: p.d.Name, Body: body})
	p.pools = make([]*cloudscale.Pool, len(p.d.Ports))
	for i := range p.d.Ports {
		p.port(i)
	}
	p.assign()
}

func (p *planner) update() {
	p.refuse()
	p.describe()
	p.match(func(port *compat.Port, pool *cloudscale.Pool) bool {
		return poolKeyOf(pool) == poolKey{port.Pool, port.Algorithm, port.PoolProtocol}
	})
	p.rename()
	for i := range p.d.Ports {
		p.port(i)
	}
	p.sweep()
	p.assign()
}

// refuse names what cannot be changed.
func (p *planner) refuse() {
	no := func(what, have, want string) {
		p.add(lb.Step{Verb: lb.VerbRefuse, Kind: kindLoadBalancer, Name: p.own.Name, ID: p.own.UUID, Impact: lb.ImpactRefused,
			Why: fmt.Sprintf("%s %s cannot become %s", what, have, want)})
	}
	if want, have := vipTexts(p.d.VIPs), vipTextsOf(p.own.VIPAddresses); len(want) > 0 && !sameVIPs(p.d.VIPs, p.own.VIPAddresses) {
		no("VIP addresses", strings.Join(have, ", "), strings.Join(want, ", "))
	}
	if p.d.Flavor != p.own.Flavor.Slug {
		no("flavor", p.own.Flavor.Slug, p.d.Flavor)
	}
	if p.d.Zone != "" && p.d.Zone != p.own.Zone.Slug {
		no("zone", p.own.Zone.Slug, p.d.Zone)
	}
}

// sameVIPs compares one by one. An address that is not asked for may be any.
func sameVIPs(want []compat.VIP, have []cloudscale.VIPAddress) bool {
	return slices.EqualFunc(want, have, func(w compat.VIP, h cloudscale.VIPAddress) bool {
		return (w.Subnet == "" || strings.EqualFold(w.Subnet, h.Subnet.UUID)) && (!w.Address.IsValid() || w.Address == h.Address)
	})
}

func vipTexts(all []compat.VIP) []string {
	var out []string
	for _, v := range all {
		text := "any"
		if v.Address.IsValid() {
			text = v.Address.String()
		}
		out = append(out, text+" in subnet "+v.Subnet)
	}
	return out
}

func vipTextsOf(all []cloudscale.VIPAddress) []string {
	var out []string
	for _, v := range all {
		out = append(out, v.Address.String()+" in subnet "+v.Subnet.UUID)
	}
	return out
}

// describe changes the name and the tags of the load balancer.
func (p *planner) describe() {
	var patch cloudscale.LoadBalancerPatch
	var changes []lb.Change
	if p.own.Name != p.d.Name {
		patch.Name = &p.d.Name
		changes = append(changes, lb.Change{Field: "name", From: p.own.Name, To: p.d.Name})
	}
	if missing, all := lacks(p.own.Tags, p.d.Tags); len(missing) > 0 {
		patch.Tags = &all
		for _, k := range missing {
			changes = append(changes, lb.Change{Field: "tag " + k, From: cmp.Or(p.own.Tags[k], "none"), To: all[k]})
		}
	}
	if len(changes) > 0 {
		p.add(lb.Step{Verb: lb.VerbUpdate, Kind: kindLoadBalancer, Name: p.own.Name, ID: p.own.UUID, Body: patch, Changes: changes})
	}
}

// sweep deletes what belongs to no port: listeners first, because a pool that
// goes may leave its listeners behind, without a pool.
func (p *planner) sweep() {
	for _, l := range p.a.Listeners {
		if p.gone[l.UUID] || p.isPoolOfPort(l.Pool) {
			continue
		}
		impact := lb.ImpactNewConnections
		if l.Pool == nil {
			impact = lb.ImpactNone // it serves nobody
		}
		p.deleteListener(l, "", impact)
	}
	for _, pool := range p.a.Pools {
		if !p.isPoolOfPort(&cloudscale.Ref{UUID: pool.UUID}) {
			p.add(lb.Step{Verb: lb.VerbDelete, Kind: kindPool, Name: pool.Name, ID: pool.UUID})
		}
	}
}

func (p *planner) isPoolOfPort(r *cloudscale.Ref) bool {
	return r != nil && slices.ContainsFunc(p.pools, func(o *cloudscale.Pool) bool { return o != nil && o.UUID == r.UUID })
}

// assign moves floating IPs to the load balancer, as far as they may be moved.
func (p *planner) assign() {
	for _, network := range p.d.FloatingIPs {
		s := lb.Step{Verb: lb.VerbAssign, Kind: kindFloatingIP, Name: network.String(), Part: network.String(), Impact: lb.ImpactNewConnections}
		at := slices.IndexFunc(p.a.FloatingIPs, func(f cloudscale.FloatingIP) bool { return sameNetwork(f.Network, network) })
		if why := p.unassignable(network, at); why != "" {
			s.Verb, s.Impact, s.Why = lb.VerbRefuse, lb.ImpactRefused, why
			p.add(s)
			continue
		}
		have := p.a.FloatingIPs[at]
		if p.own != nil && have.LoadBalancer != nil && have.LoadBalancer.UUID == p.own.UUID {
			continue
		}
		s.Body = have.Network
		if p.own == nil {
			s.Refs = []lb.Ref{p.ref("load_balancer", kindLoadBalancer, p.d.Name)}
		} else {
			s.In = p.own.UUID
		}
		p.add(s)
	}
}

// unassignable says why a floating IP cannot be assigned.
func (p *planner) unassignable(network netip.Prefix, at int) string {
	zone := cmp.Or(p.d.Zone, p.d.ZoneOfNodes)
	if p.own != nil {
		zone = p.own.Zone.Slug
	}
	switch other := p.d.Contested[network]; {
	case other != "":
		return "Service " + other + " requests it as well"
	case at < 0:
		return "the project has no such floating IP"
	case len(p.d.VIPs) > 0:
		return "the load balancer is private"
	}
	region := p.a.FloatingIPs[at].Region
	if region != nil && region.Slug != "" && region.Slug != strings.TrimRight(zone, "0123456789") {
		return fmt.Sprintf("it belongs to region %s, but the load balancer is in zone %s", region.Slug, zone)
	}
	return ""
}

func (p *planner) ref(field, kind, name string) lb.Ref {
	return lb.Ref{Field: field, To: lb.Step{Kind: kind, Name: name}.Key()}
}

// tags of something new.
func (p *planner) tags() cloudscale.Tags {
	t := maps.Clone(p.d.Tags)
	delete(t, tagVersion)
	return t
}
