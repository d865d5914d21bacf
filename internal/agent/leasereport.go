package agent

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// leasesMost keeps the object below the API server's limit of 1.5 MiB.
const leasesMost = 2000

// leaseReport returns what this node says of leases: of those that it looks after
// what they are, and of those that it did look after what it said last until
// another node says more. So there is always one who does: what nobody says anything of
// would be forgotten.
func (a *agent) leaseReport() []v1alpha1.Lease {
	said := map[v1alpha1.LeaseOf]v1alpha1.Lease{}
	for token, h := range a.leaseholds {
		for _, o := range a.directory.members[token] {
			l := v1alpha1.Lease{Service: o.request.Service.String(), Family: h.family.String(), Since: metav1.NewMicroTime(h.since)}
			if h.lease != nil && !a.finding(h.lease.Addr) {
				l.Address, l.Server = h.lease.Addr.String(), h.lease.Server
				if !h.lease.Until.IsZero() {
					until := metav1.NewTime(h.lease.Until)
					l.Until = &until
				}
			}
			if h.err != nil {
				l.Message = h.err.Error()
			}
			said[leaseOf(o.request.Service, h.family)] = l
		}
	}
	for of, l := range a.said {
		if _, now := said[of]; now || !a.directory.leasesFor(of) {
			continue
		}
		if told := a.directory.told[of]; !l.Since.Before(&told.Since) {
			said[of] = l
		}
	}
	a.said = said
	out := make([]v1alpha1.Lease, 0, len(said))
	for _, l := range said {
		out = append(out, l)
	}
	slices.SortFunc(out, func(x, y v1alpha1.Lease) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Family, y.Family))
	})
	return out[:min(len(out), leasesMost)]
}

// finding says whether it is not known yet if a stranger uses addr.
func (a *agent) finding(addr netip.Addr) bool {
	h := a.held[addr]
	return h != nil && h.probing
}

// leasesFor says whether there still is somebody who wants that lease.
func (d *directory) leasesFor(of v1alpha1.LeaseOf) bool {
	o := d.services[serviceKey(of.Service)]
	return o != nil && slices.ContainsFunc(lb.Families[:], func(f lb.Family) bool { return o.wants[f] && f.String() == of.Family })
}

// readLeases takes over what all agents say of leases.
func (a *agent) readLeases() {
	var list v1alpha1.AgentList
	if err := a.cache.List(a.background, &list); err != nil {
		return
	}
	a.directory.told = v1alpha1.LatestLeases(list.Items)
	// What this node said may not have to be said any more.
	a.reportDirty = a.reportDirty || len(a.said) > len(a.leaseholds)
}

// readService takes over what a Service says now.
func (a *agent) readService(key client.ObjectKey) {
	var s corev1.Service
	var affected []netip.Addr
	if err := a.cache.Get(a.background, key, &s); err != nil {
		affected = a.directory.setService(key, nil, nil)
	} else if class := a.class(&s); class == nil {
		affected = a.directory.setService(key, nil, nil)
	} else {
		affected = a.directory.setService(key, &s, class.Pools)
		a.nameInterface(key)
	}
	a.touch(affected...)
}

// nameInterface has an interface be used that is named for a Service.
func (a *agent) nameInterface(key client.ObjectKey) {
	if o := a.directory.services[key]; o != nil && o.iface != "" && !a.scope.named[o.iface] {
		a.scope.name([]string{o.iface})
		a.linksDirty = true
	}
}
