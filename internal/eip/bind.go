package eip

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Binding is what a Service has, and what is to be done for it.
type Binding struct {
	// EIp whose addresses these are; "" if there are none. The Service has them: nobody
	// else has its ports there.
	EIp       string
	Addresses []netip.Addr
	// Former are addresses of another EIp that it publishes and still has.
	Former []netip.Addr
	// Subnet is the external subnet of the addresses; "" if that is not known.
	Subnet string
	// Reason is why it does not have what it asks for; nil if it has, or will have soon.
	Reason *lb.Reason
	Tell   []lb.Reason
	// Plan makes the EIp that it needs.
	Plan lb.Plan
	// Again is when to look again; 0: when something has changed.
	Again time.Duration
}

// Service returns what the Service with that UID has. If it is none of the claims, that is
// nothing.
func (v *View) Service(uid types.UID) (out Binding) {
	if v.Place == nil {
		why := v.Problem
		if why == "" {
			why = "no Vpc and no Project has it"
		}
		reason := Reasons.With(NotAProject, v.Namespace, why)
		return Binding{Reason: &reason}
	}
	b := v.bounds[uid]
	if b == nil {
		return Binding{}
	}
	if b.make != nil {
		out.Plan.Steps = append(out.Plan.Steps, create("EIp", b.make, ""))
	}
	out.Reason = b.reason
	if b.wanted != nil {
		out.Reason, out.Again = v.obstacle(b, b.wanted)
		out.Tell = v.networkFixed(b)
	}
	for _, r := range []*record{b.wanted, b.current} {
		if r == nil || r == b.wanted && out.Reason != nil || b.lost[r] != nil || r.fip != "" {
			continue
		}
		if addresses := ofFamilies(b.Service, r.addresses); len(addresses) > 0 {
			out.EIp, out.Addresses = r.object.Name, addresses
			if r.ovn != nil {
				out.Subnet = r.ovn.Spec.ExternalSubnet
			}
			break
		}
	}
	if r := b.current; r != nil && len(out.Addresses) > 0 && r.object.Name != out.EIp && b.lost[r] == nil && r.fip == "" {
		out.Former = slices.DeleteFunc(ofFamilies(b.Service, r.addresses), func(a netip.Addr) bool { return slices.Contains(out.Addresses, a) })
	}
	return out
}

// Concerned are the Services that ask for an EIp of the namespace, or have it.
func (v *View) Concerned(name string) (out []types.NamespacedName) {
	if r := v.eips[name]; r != nil {
		for _, b := range r.claims {
			out = append(out, b.Service.Key)
		}
	}
	return out
}

// target finds the EIp that b asks for. owned are those that were made for the Service,
// and holders those that have an address.
func (v *View) target(b *bound, owned []*record, holders map[netip.Addr][]*record) {
	w, s := b.Wish, b.Service
	refuse := func(r lb.Reason) { b.reason = &r }
	switch {
	case w.EIp != "":
		if b.wanted = v.eips[w.EIp]; b.wanted == nil {
			refuse(Reasons.With(EIpMissing, w.EIp, v.Namespace))
			return
		}
		if has := b.wanted.known; len(has) > 0 && len(b.wanted.addresses) > 0 {
			for _, a := range w.Addresses {
				if !slices.Contains(has, a) {
					refuse(lb.InvalidRequest.With(fmt.Sprintf("The Service requests address %s and EIp %q, which has %s; remove one of the two requests", a, w.EIp, prose.Addrs(has))))
					b.wanted = nil
					return
				}
			}
		}
		return
	case len(w.Addresses) > 0:
		b.wanted = holding(w, owned, holders)
		if b.wanted == nil && !v.Serves {
			refuse(lb.InvalidRequest.With(fmt.Sprintf("The Service requests %s, but no EIp of namespace %s has that, and kube-dc's manager allocates addresses; remove the request, or request an EIp with annotation %s", prose.Addrs(w.Addresses), v.Namespace, kubedc.AnnotationEIp)))
			return
		}
	default:
		b.wanted = v.own(b, owned)
	}
	if b.wanted != nil {
		return
	}
	switch there := v.eips[AutoName(s.Key, s.UID, w)]; {
	case there == nil:
		b.make = v.automatic(s, w)
	case !there.ending(): // else it has to go first
		b.wanted = there
	}
}

// holding is the EIp that has all the addresses, or was made to get them.
func holding(w kubedc.Wish, owned []*record, holders map[netip.Addr][]*record) *record {
	for _, r := range slices.Concat(owned, holders[w.Addresses[0]]) {
		if !slices.ContainsFunc(w.Addresses, func(a netip.Addr) bool { return !slices.Contains(r.known, a) }) {
			return r
		}
	}
	for _, r := range owned {
		if r.object.Annotations[AnnotationAddress] == request(w.Addresses) && r.object.Spec.ExternalNetworkType == w.NetworkType {
			return r
		}
	}
	return nil
}

// own is the automatic EIp of a Service: the one that it publishes an address of, whoever
// made it; else one that was made for it, in the network that it asks for.
func (v *View) own(b *bound, owned []*record) *record {
	if r := b.current; r != nil && (slices.Contains(owned, r) || looksAutomatic(r.object.Name, b.Service.Key.Name)) {
		return r
	}
	for _, r := range owned {
		kind := r.object.Spec.ExternalNetworkType
		if len(r.addresses) > 0 || b.Wish.NetworkType == "" || kind == b.Wish.NetworkType {
			return r
		}
	}
	return nil
}

// automatic is a new EIp for a Service.
func (v *View) automatic(s *lb.Service, w kubedc.Wish) *api.EIp {
	e := &api.EIp{
		ObjectMeta: metav1.ObjectMeta{Namespace: v.Namespace, Name: AutoName(s.Key, s.UID, w), Labels: map[string]string{LabelService: string(s.UID)}},
		Spec:       api.EIpSpec{ExternalNetworkType: w.NetworkType},
	}
	if v.Serves {
		e.Finalizers = []string{Finalizer}
	}
	if len(w.Addresses) > 0 {
		e.Annotations = map[string]string{AnnotationAddress: request(w.Addresses)}
	}
	return e
}

// obstacle is why a Service cannot have the address of an EIp; nil if it can, or if that
// only takes a moment.
func (v *View) obstacle(b *bound, r *record) (*lb.Reason, time.Duration) {
	name := r.object.Name
	switch {
	case r.fip != "":
		reason := Reasons.With(EIpTaken, name, "FIp", r.fip, "")
		return &reason, 0
	case b.lost[r] != nil:
		return b.lost[r], 0
	case len(r.addresses) == 0:
		since := r.object.CreationTimestamp.Time
		if r.ovn != nil {
			since = r.ovn.CreationTimestamp.Time
		}
		if left := v.Patience - v.Now.Sub(since); left > 0 {
			return nil, left
		}
		reason := Reasons.With(AddressPending, name, v.why(r))
		return &reason, 0
	}
	for _, f := range b.Service.Families {
		one := slices.ContainsFunc(r.addresses, func(a netip.Addr) bool { return lb.FamilyOf(a) == f })
		if !one && (b.Service.Policy == lb.RequireDualStack || len(ofFamilies(b.Service, r.addresses)) == 0) {
			reason := lb.FamilyUnavailable.With(f, fmt.Sprintf("EIp %q has", name), "Add some")
			return &reason, 0
		}
	}
	return nil, 0
}

// networkFixed tells that the network of an address is not the one that is asked for.
func (v *View) networkFixed(b *bound) []lb.Reason {
	r := b.wanted
	if b.Wish.EIp != "" || b.Wish.NetworkType == "" || len(r.addresses) == 0 {
		return nil
	}
	has := r.object.Spec.ExternalNetworkType
	if has == "" && r.ovn != nil {
		if s := v.subnet(r.ovn.Spec.ExternalSubnet); s != nil {
			has = s.Labels[kubedc.LabelNetworkType]
		}
	}
	if has == "" || has == b.Wish.NetworkType {
		return nil
	}
	return []lb.Reason{Reasons.With(NetworkTypeFixed, has, b.Wish.NetworkType)}
}

// currentOf is the EIp whose address a Service publishes.
func currentOf(s *lb.Service, holders map[netip.Addr][]*record) *record {
	for _, a := range s.Published() {
		if of := holders[a]; len(of) > 0 {
			return of[0]
		}
	}
	return nil
}

// ofFamilies are those of the addresses that a Service can have, in its own order.
func ofFamilies(s *lb.Service, addresses []netip.Addr) (out []netip.Addr) {
	for _, f := range s.Families {
		for _, a := range addresses {
			if lb.FamilyOf(a) == f {
				out = append(out, a)
			}
		}
	}
	return out
}
