// Package kubeapi turns Services, Nodes and EndpointSlices into values of package lb,
// and outcomes into patches of Services and events. Dialects, ipam and backends see
// these values only. What they mean is decided elsewhere.
package kubeapi

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/lb"
)

// Types of our conditions on Services. ConditionReady says how the Service stands.
// ConditionAnnounced is there only while nobody answers for one of its addresses.
const (
	ConditionReady     = "fairlead.io/Ready"
	ConditionAnnounced = "fairlead.io/Announced"
)

// Service returns s as a value. It shares the object's maps.
func Service(s *corev1.Service) *lb.Service {
	out := &lb.Service{
		Key:            types.NamespacedName{Namespace: s.Namespace, Name: s.Name},
		UID:            s.UID,
		Version:        s.ResourceVersion,
		Created:        s.CreationTimestamp.Time,
		Deleting:       s.DeletionTimestamp != nil,
		LoadBalancer:   s.Spec.Type == corev1.ServiceTypeLoadBalancer,
		Class:          ptr.Deref(s.Spec.LoadBalancerClass, ""),
		Annotations:    s.Annotations,
		Labels:         s.Labels,
		Finalizers:     s.Finalizers,
		LoadBalancerIP: s.Spec.LoadBalancerIP,
		Frontend: lb.Frontend{
			Families:            families(s),
			Policy:              familyPolicy(s),
			Ports:               ports(s),
			Local:               s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
			HealthCheckNodePort: uint16(s.Spec.HealthCheckNodePort),
			Selector:            s.Spec.Selector,
			Affinity:            affinity(s),
			SourceRanges:        s.Spec.LoadBalancerSourceRanges,
		},
		Ingress: ingress(s),
	}
	for i := range s.Status.Conditions {
		switch c := &s.Status.Conditions[i]; c.Type {
		case ConditionReady:
			out.Says = conditionOf(c)
		case ConditionAnnounced:
			out.Unannounced = conditionOf(c)
		}
	}
	return out
}

func conditionOf(c *metav1.Condition) *lb.Condition {
	is := c.Status == metav1.ConditionTrue
	return &lb.Condition{Reason: lb.Rebuilt(lb.Code(c.Reason), c.Message, is), True: is, Since: c.LastTransitionTime.Time}
}

// Ingress returns what is published as the API server has it. The mode is what it
// would fill in: without it, the object would differ from what we wrote.
func Ingress(in []lb.Ingress) []corev1.LoadBalancerIngress {
	out := make([]corev1.LoadBalancerIngress, 0, len(in))
	for _, i := range in {
		entry := corev1.LoadBalancerIngress{IP: i.IP, Hostname: i.Hostname}
		if i.IP != "" && i.Mode != "" {
			entry.IPMode = ptr.To(corev1.LoadBalancerIPMode(i.Mode))
		}
		out = append(out, entry)
	}
	return out
}

func ingress(s *corev1.Service) []lb.Ingress {
	var out []lb.Ingress
	for _, i := range s.Status.LoadBalancer.Ingress {
		out = append(out, lb.Ingress{IP: i.IP, Hostname: i.Hostname, Mode: lb.IPMode(ptr.Deref(i.IPMode, "")), Ports: len(i.Ports) > 0})
	}
	return out
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
	switch ptr.Deref(s.Spec.IPFamilyPolicy, "") {
	case corev1.IPFamilyPolicyPreferDualStack:
		return lb.PreferDualStack
	case corev1.IPFamilyPolicyRequireDualStack:
		return lb.RequireDualStack
	case corev1.IPFamilyPolicySingleStack:
	}
	return lb.SingleStack
}

func ports(s *corev1.Service) []lb.FrontendPort {
	out := make([]lb.FrontendPort, 0, len(s.Spec.Ports))
	for _, p := range s.Spec.Ports {
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		target := ""
		if p.TargetPort.IntVal != 0 || p.TargetPort.StrVal != "" {
			target = p.TargetPort.String()
		}
		out = append(out, lb.FrontendPort{Port: lb.Port{Protocol: protocol, Number: uint16(p.Port)}, Name: p.Name, TargetPort: target, NodePort: uint16(p.NodePort)})
	}
	return out
}

func affinity(s *corev1.Service) time.Duration {
	if s.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return time.Duration(seconds) * time.Second
}

// ClusterIPs of s, without what is not an address.
func ClusterIPs(s *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, text := range s.Spec.ClusterIPs {
		if a, err := lb.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// ExternalIPs that the spec of s names, without what is not an address.
func ExternalIPs(s *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, text := range s.Spec.ExternalIPs {
		if a, err := lb.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// ParseKey reads "namespace/name", as NamespacedName.String writes it.
func ParseKey(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}
