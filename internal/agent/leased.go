package agent

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/agent/dhcplease"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/member"
)

// decideLeased does what is to be done about an address that a DHCP server has
// assigned: it is where the lease is.
func (a *agent) decideLeased(addr netip.Addr, lease string, now time.Time) {
	h := a.held[addr]
	l, ok := a.leases.Held(lease)
	candidate := a.directory.candidate(addr)
	serves := candidate.AnyServing && !candidate.Unshareable && (!candidate.NeedsLocal || candidate.ServingNodes.Has(a.node))
	if !ok || l.Addr != addr || !serves {
		if h != nil {
			a.falling = append(a.falling, addr)
		}
		return
	}
	if h != nil && h.up && h.epoch == l.Epoch && slices.Equal(h.ifaces, []string{l.Interface}) {
		return
	}
	_, last := a.claimsOf(addr, a.presumed)
	if l.Before {
		last = cmp.Or(last, a.node)
	}
	a.take(addr, h, l.Epoch, last, now)
}

// leaseHost is the loop as leases see it.
type leaseHost struct{ *agent }

var _ dhcplease.Host = leaseHost{}

func (a leaseHost) Elect(key member.Key, of elect.Address, mine *elect.Claim) (elect.Outcome, elect.Task) {
	iface, _ := a.Interface(of.FamilyOf(), netip.Addr{}, &of)
	voters, presumed := a.electorate(netip.Addr{}, []string{iface}, time.Now())
	claims, _, _ := claimsWith(a.claims[key], a.node, mine, presumed)
	outcome := elect.Elect(of, voters, claims)
	return outcome, outcome.Task(a.node, claims)
}

func (a leaseHost) Serving(of *elect.Address, services []types.NamespacedName) {
	a.directory.fillServing(of, services)
}

func (a leaseHost) Isolated() bool { return a.isolated }

func (a leaseHost) Settled(iface string, now time.Time) bool {
	return a.settled([]string{iface}, now)
}

func (a leaseHost) Interface(f lb.Family, last netip.Addr, of *elect.Address) (string, int) {
	return leaseInterface(f, last, of.InterfacesOn(a.labels), a.links, a.scope.excluded)
}

func (a leaseHost) Unusable(addr netip.Addr, thorough bool) string {
	if a.directory.nodes.Has(addr) {
		return fmt.Sprintf("%s is the address of a node", addr)
	}
	for i := range a.links {
		if slices.ContainsFunc(a.links[i].Prefixes, func(p netip.Prefix) bool { return p.Addr() == addr }) {
			return fmt.Sprintf("%s is an address of node %s, on %s", addr, a.node, a.links[i].Name)
		}
	}
	if thorough {
		return a.insideCluster(addr)
	}
	return ""
}

// insideCluster says which Service has addr inside the cluster, or "".
func (a *agent) insideCluster(addr netip.Addr) string {
	var list corev1.ServiceList
	if err := a.cluster.List(a.background, &list); err != nil {
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

func (a leaseHost) Using(addr netip.Addr) (out []*lb.Request) {
	for _, o := range a.directory.addresses[addr] {
		out = append(out, &o.Request)
	}
	return out
}

func (a leaseHost) Probing(addr netip.Addr) bool {
	h := a.held[addr]
	return h != nil && h.probing
}

func (a leaseHost) Moved(services ...types.NamespacedName) {
	for _, key := range services {
		a.touch(a.directory.rehouse(key)...)
	}
}

func (a leaseHost) Touched(addr netip.Addr) { a.touch(addr) }

func (a leaseHost) Changed() { a.allClaimsDirty, a.reportDirty = true, true }

func (a leaseHost) Event(r *lb.Request, pool lb.PoolKey, reason lb.Reason) {
	a.reporter.event(r, pool, reason)
}

// NotElected: a lease is had also while nothing serves, but not announced.
func (a leaseHost) NotElected(addr netip.Addr, o elect.Outcome) {
	if candidate := a.directory.candidate(addr); o.Owner != "" && !candidate.AnyServing {
		o = elect.Outcome{Why: elect.NoEndpoint}
	}
	a.reportRefused(addr, o)
}

func (a leaseHost) Speaks() bool { return a.speaks() }
