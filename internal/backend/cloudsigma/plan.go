package cloudsigma

import (
	"net/netip"
	"slices"

	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
)

// Kinds of objects in plans.
const (
	kindTag = "tag"
	kindNIC = "NIC"
)

// Desired is what a Service is to have.
type Desired struct {
	// Cluster and Service are the tags of its addresses.
	Cluster, Service string
	// Placed are its addresses, and where they are to be.
	Placed []placement
	// Keep are tags of other Services that share an address.
	Keep map[netip.Addr][]string
	// Free are addresses that it had, and nobody has now; Leave those that another
	// Service has; Yield those that it has claimed, and another cluster has.
	Free, Leave, Yield []netip.Addr
	// Attached says whether this cluster may have attached an address.
	Attached map[netip.Addr]bool
	// Published says whether clients use an address: then moving it interrupts them.
	Published map[netip.Addr]bool
}

// Plan is what turns what there is into what is wanted: first tags, by which the
// addresses are claimed, then cards; what is to go, the other way round.
func Plan(d *Desired, a *account) lb.Plan {
	var p lb.Plan
	for i := range d.Placed {
		d.claim(&p, a, d.Placed[i].Address)
	}
	for _, verb := range []lb.Verb{lb.VerbDelete, lb.VerbCreate} {
		for i := range d.Placed {
			d.attach(&p, a, &d.Placed[i], verb)
		}
	}
	for _, addr := range slices.Concat(d.Free, d.Yield) {
		for _, id := range d.detached(a, addr) {
			d.step(&p, a, lb.VerbDelete, addr, id)
		}
	}
	for _, addr := range d.Free {
		tags := append(serviceTags(a, addr), compat.ManagedTag, d.Cluster)
		switch {
		case len(a.others(addr, d.cluster())) == 0:
		case d.Published[addr]:
			tags = []string{d.Service, d.Cluster} // the others are theirs
		default:
			tags = []string{d.Cluster} // as below
		}
		d.untag(&p, a, addr, tags)
	}
	for _, addr := range d.Yield {
		tags := []string{d.Service, compat.ManagedTag, d.Cluster}
		if len(a.others(addr, d.cluster())) > 0 {
			// The tag of the Service may be the other cluster's as well, unless that has
			// one; it removes it if it is not.
			tags = []string{d.Cluster}
			if len(serviceTags(a, addr)) > 1 {
				tags = []string{d.Service, d.Cluster}
			}
		}
		d.untag(&p, a, addr, tags)
	}
	for _, addr := range d.Leave {
		d.untag(&p, a, addr, []string{d.Service})
	}
	return p
}

// detached are the servers that an address which goes is taken off. One that this
// Service publishes, and no other cluster has tagged, is ours wherever it is: its node
// may be gone. Any other is taken off nodes of this cluster only; if another cluster has
// tagged it, only if this one may have attached it.
func (d *Desired) detached(a *account, addr netip.Addr) []string {
	others := len(a.others(addr, d.cluster())) > 0
	switch {
	case d.Published[addr] && !others:
		return a.attached(addr)
	case others && !d.Published[addr] && !d.Attached[addr]:
		return nil
	}
	return a.ours(a.attached(addr))
}

func (d *Desired) cluster() string {
	name, _ := compat.ClusterOf(d.Cluster)
	return name
}

// claim tags an address. Tags of Services that do not have it any more go.
func (d *Desired) claim(p *lb.Plan, a *account, addr netip.Addr) {
	for _, tag := range []string{d.Cluster, d.Service, compat.ManagedTag} {
		if !a.has(addr, tag) {
			p.Steps = append(p.Steps, lb.Step{Verb: lb.VerbAssign, Kind: kindTag, Name: tag, Part: addr.String(), Body: addr})
		}
	}
	if !a.has(addr, d.Cluster) {
		return // what others have written there is not ours to remove
	}
	stale := slices.DeleteFunc(serviceTags(a, addr), func(tag string) bool { return tag == d.Service || slices.Contains(d.Keep[addr], tag) })
	d.untag(p, a, addr, stale)
}

func serviceTags(a *account, addr netip.Addr) []string {
	return slices.DeleteFunc(slices.Clone(a.tags[addr]), func(tag string) bool { return !compat.IsServiceTag(tag) })
}

func (d *Desired) untag(p *lb.Plan, a *account, addr netip.Addr, tags []string) {
	for _, tag := range tags {
		if a.has(addr, tag) {
			p.Steps = append(p.Steps, lb.Step{Verb: lb.VerbDelete, Kind: kindTag, Name: tag, Part: addr.String(), Body: addr})
		}
	}
}

// attach puts an address where it is to be (VerbCreate), after it was taken off all
// other servers (VerbDelete): it can be on one only. An address that nobody can carry
// stays where it is.
func (d *Desired) attach(p *lb.Plan, a *account, at *placement, verb lb.Verb) {
	if at.Why != "" {
		return
	}
	on := a.attached(at.Address)
	for _, id := range on {
		if id != at.Server && verb == lb.VerbDelete {
			d.step(p, a, lb.VerbDelete, at.Address, id)
		}
	}
	if verb == lb.VerbCreate && at.Server != "" && !slices.Contains(on, at.Server) {
		d.step(p, a, lb.VerbCreate, at.Address, at.Server)
	}
}

// step is one on the card of an address.
func (d *Desired) step(p *lb.Plan, a *account, verb lb.Verb, addr netip.Addr, server string) {
	s := lb.Step{Verb: verb, Kind: kindNIC, Name: addr.String(), ID: server, Body: addr, Part: "server " + a.servers[server].Name}
	if d.Published[addr] {
		s.Impact = lb.ImpactSeconds
	}
	p.Steps = append(p.Steps, s)
}
