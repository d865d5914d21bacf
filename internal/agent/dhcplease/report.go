package dhcplease

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
)

// maxReport keeps the Agent object below the API server's limit of 1.5 MiB.
const maxReport = 2000

// Report returns what this node's Agent object says of leases: of those that it
// has what they are, and of those that it had what it wrote last, until another
// node writes more. So one Agent object always has each lease: what none has would
// be forgotten.
func (l *Leases) Report() []v1alpha1.Lease {
	now := map[v1alpha1.LeaseOf]v1alpha1.Lease{}
	for name, h := range l.held {
		for _, c := range l.members[name] {
			x := v1alpha1.Lease{Service: c.Request.Service.String(), Family: h.family.String(), Since: metav1.NewMicroTime(h.since)}
			if h.lease != nil && !l.host.Probing(h.lease.Addr) {
				x.Address, x.Server = h.lease.Addr.String(), h.lease.Server
				if !h.lease.Until.IsZero() {
					until := metav1.NewTime(h.lease.Until)
					x.Until = &until
				}
			}
			if h.err != nil {
				x.Message = h.err.Error()
			}
			now[leaseOf(c.Request.Service, h.family)] = x
		}
	}
	for of, x := range l.written {
		if _, known := now[of]; known || !l.wants(of) {
			continue
		}
		if other := l.reported[of]; !x.Since.Before(&other.Since) {
			now[of] = x
		}
	}
	l.written = now
	out := make([]v1alpha1.Lease, 0, len(now))
	for _, x := range now {
		out = append(out, x)
	}
	slices.SortFunc(out, func(x, y v1alpha1.Lease) int {
		return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Family, y.Family))
	})
	return out[:min(len(out), maxReport)]
}
