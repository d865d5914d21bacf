package native

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Request translates s, a Service of type LoadBalancer whose class may use the
// pools of dialects. What cannot be understood is said in Request.Invalid.
func Request(s *corev1.Service, namespaceLabels map[string]string, dialects []lb.Dialect) lb.Request {
	r := lb.Request{
		Service:         types.NamespacedName{Namespace: s.Namespace, Name: s.Name},
		UID:             s.UID,
		Created:         s.CreationTimestamp.Time,
		Labels:          s.Labels,
		NamespaceLabels: namespaceLabels,
		Dialects:        dialects,
		Families:        families(s),
		Policy:          familyPolicy(s),
		Pool:            strings.TrimSpace(s.Annotations[AnnotationPool]),
		From:            from(s),
		ShareKey:        strings.TrimSpace(s.Annotations[AnnotationShare]),
		Backends:        backends(s),
		Ports:           ports(s),
	}
	var wrong problems
	wrong.unknown(s)
	r.Addresses = wrong.addresses(s)
	if v, ok := s.Annotations[AnnotationReallocate]; ok {
		yes, err := strconv.ParseBool(v)
		if err != nil {
			wrong.add("Annotation %s: %q is neither true nor false", AnnotationReallocate, v)
		}
		r.Reallocate = yes
	}
	if len(wrong) > 0 {
		reason := lb.InvalidRequest.With(strings.Join(wrong, "; "))
		r.Invalid = &reason
	}
	return r
}

// from returns the names in AnnotationAllocatedFrom, without their dialects.
func from(s *corev1.Service) []string {
	var out []string
	for key := range strings.SplitSeq(s.Annotations[AnnotationAllocatedFrom], ",") {
		if name := key[strings.LastIndex(key, "/")+1:]; name != "" {
			out = append(out, name)
		}
	}
	return out
}

// What a person or another controller writes may be of any length.
const (
	addressesMost = 16
	publishedMost = 1024
)

// Published returns the addresses in the Service's status. Hostnames and what
// is no address are passed over: nobody can hold them.
// Of a very long list, which is not ours, only the beginning counts.
func Published(s *corev1.Service) []netip.Addr {
	var out []netip.Addr
	all := s.Status.LoadBalancer.Ingress
	for _, in := range all[:min(len(all), publishedMost)] {
		if a, err := lb.ParseAddr(in.IP); err == nil && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// ConditionReady is the type of our condition on Services.
const ConditionReady = prefix + "Ready"

// prefix of all our annotations, and those that there are.
const prefix = "fairlead.io/"

var (
	known   = []string{AnnotationAddresses, AnnotationAllocatedFrom, AnnotationPool, AnnotationReallocate, AnnotationShare}
	written = []string{AnnotationGiven, AnnotationAsked, AnnotationReason, AnnotationDHCP}
)

// unknown notes annotations that look like ours and are not: a misspelt wish that
// is passed over in silence gives the Service another address than it asks for.
func (w *problems) unknown(s *corev1.Service) {
	var names []string
	for name := range s.Annotations {
		if strings.HasPrefix(name, prefix) && !slices.Contains(known, name) && !slices.Contains(written, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		w.add("Annotation %s is unknown; known ones are %s", name, prose.And(known))
	}
}

func (w *problems) addresses(s *corev1.Service) []netip.Addr {
	list, annotated := s.Annotations[AnnotationAddresses]
	var out []netip.Addr
	if n := strings.Count(list, ",") + 1; n > addressesMost {
		w.add("Annotation %s has %d entries; at most one address per IP family is allowed", AnnotationAddresses, n)
		list = ""
	}
	for field := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(field) == "" {
			continue
		}
		w.address(&out, "Annotation "+AnnotationAddresses, field)
	}
	if annotated && len(out) == 0 && len(*w) == 0 {
		w.add("Annotation %s is empty", AnnotationAddresses)
	}
	if ip := s.Spec.LoadBalancerIP; ip != "" {
		before := len(out)
		w.address(&out, "spec.loadBalancerIP", ip)
		if before > 0 && len(out) > before {
			w.add("spec.loadBalancerIP requests %s, and annotation %s requests %s; remove one of them", ip, AnnotationAddresses, list)
		}
	}
	return out
}

func (w *problems) address(out *[]netip.Addr, where, text string) {
	a, err := lb.ParseAddr(text)
	if err != nil {
		w.add("%s: %v", where, err)
		return
	}
	if kind := lb.Unusable(netipx.IPRangeFrom(a, a)); kind != "" {
		w.add("%s: %s is a %s address, which a Service cannot use", where, a, kind)
		return
	}
	if !slices.Contains(*out, a) {
		*out = append(*out, a)
	}
}

// families of s, the primary one first. The API server fills in ipFamilies;
// where it did not (a Service older than dual-stack), the cluster IPs tell.
func families(s *corev1.Service) []lb.Family {
	var out []lb.Family
	for _, f := range s.Spec.IPFamilies {
		switch f {
		case corev1.IPv4Protocol:
			out = append(out, lb.IPv4)
		case corev1.IPv6Protocol:
			out = append(out, lb.IPv6)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, ip := range append(slices.Clone(s.Spec.ClusterIPs), s.Spec.ClusterIP) {
		if a, err := lb.ParseAddr(ip); err == nil && !slices.Contains(out, lb.FamilyOf(a)) {
			out = append(out, lb.FamilyOf(a))
		}
	}
	if len(out) == 0 {
		out = append(out, lb.IPv4)
	}
	return out
}

func familyPolicy(s *corev1.Service) lb.FamilyPolicy {
	if s.Spec.IPFamilyPolicy == nil {
		return lb.SingleStack
	}
	switch *s.Spec.IPFamilyPolicy {
	case corev1.IPFamilyPolicyPreferDualStack:
		return lb.PreferDualStack
	case corev1.IPFamilyPolicyRequireDualStack:
		return lb.RequireDualStack
	default:
		return lb.SingleStack
	}
}

// backends implements the traffic-policy rule of sharing, see lb.Request. A
// Service without selector has endpoints of its own making and shares with none.
func backends(s *corev1.Service) string {
	if s.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return ""
	}
	if len(s.Spec.Selector) == 0 {
		return fmt.Sprintf("endpoints of %s/%s", s.Namespace, s.Name)
	}
	return labels.Set(s.Spec.Selector).String()
}

func ports(s *corev1.Service) []lb.Port {
	out := make([]lb.Port, 0, len(s.Spec.Ports))
	for _, p := range s.Spec.Ports {
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		out = append(out, lb.Port{Protocol: protocol, Number: uint16(p.Port)})
	}
	return out
}
