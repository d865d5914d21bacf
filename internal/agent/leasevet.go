package agent

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
)

// A DHCP server may give any address, by mistake or in bad faith. One that is
// somebody else's would take a node off the network, or traffic from another
// Service, on all nodes as soon as it is published. It is given back at once, and
// another is asked for.

// vet gives back what a server gave if that cannot be used, and says whether it
// has.
func (a *agent) vet(h *leasehold) bool {
	if h.lease == nil {
		return false
	}
	why := a.unfit(h)
	if why == "" {
		h.vetted = h.lease.Addr
		return false
	}
	a.decline(h, why)
	return true
}

// decline gives the address of a lease back, which somebody else has.
func (a *agent) decline(h *leasehold, why string) {
	a.log.Warn("leased address cannot be used; given back", "address", h.lease.Addr, "services", a.memberNames(h.token), "server", h.lease.Server, "why", why)
	h.client.Decline(h.lease.Addr, why)
	h.lease, h.vetted = nil, netip.Addr{}
	a.noteLease(h)
}

// unfit says who has the address of a lease already, or "".
func (a *agent) unfit(h *leasehold) string {
	addr := h.lease.Addr
	if isToken(addr) {
		return fmt.Sprintf("%s is reserved", addr)
	}
	if a.directory.nodes.Has(addr) {
		return fmt.Sprintf("%s is the address of a node", addr)
	}
	for i := range a.links {
		if slices.ContainsFunc(a.links[i].Prefixes, func(p netip.Prefix) bool { return p.Addr() == addr }) {
			return fmt.Sprintf("%s is an address of node %s, on %s", addr, a.node, a.links[i].Name)
		}
	}
	if o := a.directory.preceding(addr, h.token); o != nil {
		return fmt.Sprintf("%s is the address of Service %s", addr, o.request.Service)
	}
	if h.vetted != addr { // looks at all Services
		return a.insideCluster(addr)
	}
	return ""
}

// insideCluster says which Service has addr inside the cluster, or "".
func (a *agent) insideCluster(addr netip.Addr) string {
	var list corev1.ServiceList
	if err := a.cache.List(a.background, &list); err != nil {
		return ""
	}
	for i := range list.Items {
		s := &list.Items[i]
		for _, text := range slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs) {
			if other, err := lb.ParseAddr(text); err == nil && other == addr {
				return fmt.Sprintf("%s is an address of Service %s/%s inside the cluster", addr, s.Namespace, s.Name)
			}
		}
	}
	return ""
}

// preceding returns a Service that has a before those of a token: it has not
// leased it or, if it has, is older. What a Service publishes may be what it had
// leased before; what agents say counts.
func (d *directory) preceding(a, token netip.Addr) *offer {
	members := d.members[token]
	f := lb.FamilyOf(a)
	for _, o := range d.addresses[a] {
		switch other := o.tokens[f]; {
		case other == token || len(members) == 0:
		case !other.IsValid():
			return o
		case o.request.Older(&members[0].request) && (d.leased[other] == a || d.told[leaseOf(o.request.Service, f)].Address == a.String()):
			return o
		}
	}
	return nil
}

// leasesAt returns the tokens of the leases of this node whose address is a.
func (d *directory) leasesAt(a netip.Addr) (out []netip.Addr) {
	for _, o := range d.addresses[a] {
		if t := o.tokens[lb.FamilyOf(a)]; t.IsValid() && d.leased[t] == a && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}
