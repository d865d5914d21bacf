package dhcplease

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// Want is what one Service wants from DHCP servers.
type Want = lb.LeaseRequest

// claimant is a Service that wants leases.
type claimant struct {
	Want
	names [len(lb.Families)]string // of its leases, where it wants one
}

// Older says whether the Service of c is older than that of o.
func (c *claimant) Older(o *claimant) bool { return c.Request.Older(o.Request) }

// group is the Services that may share leases of a family.
type group struct {
	family lb.Family
	name   string
}

// book knows which Services want which leases. It is pure: no clock, no client.
type book struct {
	// cluster tells this cluster from others on the LAN, in which Services share by
	// the same names.
	cluster  types.UID
	services map[types.NamespacedName]*claimant
	// groups are the Services that may share a lease; members have those that do, by
	// name of the lease; both the oldest first.
	groups  lb.ByAge[group, *claimant]
	members lb.ByAge[string, *claimant]
	// reported is what the Agent objects of all nodes say.
	reported map[v1alpha1.LeaseOf]v1alpha1.Lease
	leased   map[string]netip.Addr // what this node has leased
	at       map[netip.Addr]sets.Set[string]
}

func newBook() book {
	return book{services: map[types.NamespacedName]*claimant{}, groups: lb.ByAge[group, *claimant]{}, members: lb.ByAge[string, *claimant]{},
		reported: map[v1alpha1.LeaseOf]v1alpha1.Lease{}, leased: map[string]netip.Addr{}, at: map[netip.Addr]sets.Set[string]{}}
}

// affected is what a change concerns: leases by name, and Services that may have
// other addresses now.
type affected struct {
	leases   []string
	services []types.NamespacedName
}

// nameOf returns the name of a lease: the claim travels with it.
func nameOf(f lb.Family, who string) string {
	sum := sha256.Sum256([]byte("fairlead.io/lease " + f.String() + " " + who))
	return f.String() + " " + hex.EncodeToString(sum[:8])
}

// self identifies a Service that leases alone.
func (c *claimant) self() string { return string(c.Request.UID) }

// shares says whether the Service may share addresses of that family.
func (c *claimant) shares(f lb.Family) bool { return c.Request.Shares(f) }

// group returns the Services with which c may share a lease, if any.
func (c *claimant) group(f lb.Family) (group, bool) {
	r := c.Request
	return group{f, r.ShareKey + "\n" + r.ShareAmong + "\n" + r.Backends}, c.shares(f)
}

// set notes what a Service wants now; nil is nothing.
func (b *book) set(service types.NamespacedName, w *Want) (out affected) {
	if old := b.services[service]; old != nil {
		delete(b.services, service)
		out = b.remove(old)
	}
	if w == nil {
		return out
	}
	c := &claimant{Want: *w}
	b.services[service] = c
	for _, f := range lb.Families {
		if !w.Families[f] {
			continue
		}
		g, shares := c.group(f)
		if !shares {
			c.names[f] = nameOf(f, c.self())
			b.members.Add(c.names[f], c)
			out.leases = append(out.leases, c.names[f])
			continue
		}
		b.groups.Add(g, c)
		out.add(b.regroup(g))
	}
	return out
}

func (b *book) remove(c *claimant) (out affected) {
	for _, f := range lb.Families {
		if c.names[f] == "" {
			continue
		}
		out.leases = append(out.leases, c.names[f])
		b.members.Remove(c.names[f], c)
		if g, shares := c.group(f); shares {
			b.groups.Remove(g, c)
			out.add(b.regroup(g))
		}
	}
	return out
}

func (a *affected) add(o affected) {
	a.leases, a.services = append(a.leases, o.leases...), append(a.services, o.services...)
}

// regroup decides which Services of a group share the lease: the older ones first, each if its
// ports are free. The others have a lease each.
func (b *book) regroup(g group) (out affected) {
	shared, taken := nameOf(g.family, g.name), sets.New[lb.Port]()
	for _, c := range b.groups[g] {
		name := shared
		if taken.HasAny(c.Request.Ports...) {
			name = nameOf(g.family, c.self())
		} else {
			taken.Insert(c.Request.Ports...)
		}
		old := c.names[g.family]
		if old == name {
			continue
		}
		if old != "" {
			b.members.Remove(old, c)
			out.leases = append(out.leases, old)
		}
		c.names[g.family] = name
		b.members.Add(name, c)
		out.leases = append(out.leases, name)
		out.services = append(out.services, c.Request.Service)
	}
	out.leases = append(out.leases, shared)
	return out
}

// setLeased notes the address that this node has leased, or that it has none, and
// returns the Services that it is for, if that has changed.
func (b *book) setLeased(name string, addr netip.Addr) (services []types.NamespacedName) {
	old := b.leased[name]
	if old == addr {
		return nil
	}
	if old.IsValid() {
		delete(b.leased, name)
		if b.at[old].Delete(name); b.at[old].Len() == 0 {
			delete(b.at, old)
		}
	}
	if addr.IsValid() {
		b.leased[name] = addr
		if b.at[addr] == nil {
			b.at[addr] = sets.New[string]()
		}
		b.at[addr].Insert(name)
	}
	for _, c := range b.members[name] {
		services = append(services, c.Request.Service)
	}
	return services
}
