package dhcplease

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// family returns that of the lease by that name which c wants.
func (c *claimant) family(name string) lb.Family {
	if c.names[lb.IPv6] == name {
		return lb.IPv6
	}
	return lb.IPv4
}

// identity is how the members of a lease identify to a DHCP server: the same on every
// node.
func (b *book) identity(name string) dhcp.Identity {
	oldest := b.members[name][0]
	f := oldest.family(name)
	who := oldest.self()
	if g, shares := oldest.group(f); shares && name == nameOf(f, g.name) {
		who = string(b.cluster) + " " + g.name
	}
	id := dhcp.IdentityOf(who)
	if oldest.MAC != nil {
		id.MAC = oldest.MAC
	}
	id.Hostname = oldest.Hostname
	if a := oldest.Requested; a.IsValid() && lb.FamilyOf(a) == f {
		id.Requested = a
	}
	return id
}

// last returns the lease that a node had last for the members of a name, if any; a
// lease that was lost has no address.
func (b *book) last(name string) v1alpha1.Lease {
	var last v1alpha1.Lease
	for _, c := range b.members[name] {
		f := c.family(name)
		l, ok := b.reported[leaseOf(c.Request.Service, f)]
		if !ok {
			if a := c.Published[f]; a.IsValid() && last.Service == "" {
				last.Address = a.String()
			}
			continue
		}
		if last.Service == "" || last.Since.Before(&l.Since) {
			last = l
		}
	}
	return last
}

// precedes says whether a Service that has addr has it before those of a lease: it
// has not leased it or, if it has, is older. What a Service publishes may be what
// it had leased before; what agents report counts.
func (b *book) precedes(r *lb.Request, addr netip.Addr, name string) bool {
	members, f, other := b.members[name], lb.FamilyOf(addr), ""
	if c := b.services[r.Service]; c != nil {
		other = c.names[f]
	}
	switch {
	case other == name || len(members) == 0:
		return false
	case other == "":
		return true
	}
	return r.Older(members[0].Request) && (b.leased[other] == addr || b.reported[leaseOf(r.Service, f)].Address == addr.String())
}

// wants says whether a Service still wants that lease.
func (b *book) wants(of v1alpha1.LeaseOf) bool {
	for _, f := range lb.Families {
		if f.String() == of.Family {
			c := b.services[kubeapi.ParseKey(of.Service)]
			return c != nil && c.Families[f]
		}
	}
	return false
}

func leaseOf(service types.NamespacedName, f lb.Family) v1alpha1.LeaseOf {
	return v1alpha1.LeaseOf{Service: service.String(), Family: f.String()}
}
