package eip

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/lb"
)

// Labels of the headless Service that leads to the external addresses of another. They
// are kube-dc's.
const (
	labelManagedBy    = "kube-dc.com/managed-by"
	labelSource       = "kube-dc.com/source-service"
	labelEndpointType = "kube-dc.com/endpoint-type"

	managedBy    = "service-lb-controller"
	endpointType = "external"

	// sliceManager tells Kubernetes' own controllers to leave our slices alone.
	sliceManager = "fairlead.io"
)

// Companions are the objects that accompany a Service: a headless one with its external
// addresses. Any of them may be nil.
type Companions struct {
	Service *corev1.Service
	Slices  [len(lb.Families)]*discoveryv1.EndpointSlice
	// Endpoints are what kube-dc's manager wrote where we have slices. Kubernetes makes
	// slices of them, with addresses that may no longer be so.
	Endpoints *metav1.PartialObjectMetadata
}

// Ours says that we have made some of them, not kube-dc's manager.
func (c Companions) Ours() bool {
	return slices.ContainsFunc(c.Slices[:], func(s *discoveryv1.EndpointSlice) bool {
		return s != nil && s.Labels[discoveryv1.LabelManagedBy] == sliceManager
	})
}

// Keys of those that are there, as steps have them.
func (c Companions) Keys() (out []string) {
	if c.Service != nil {
		out = append(out, create("Service", c.Service, "").Key())
	}
	for _, s := range c.Slices {
		if s != nil {
			out = append(out, create("EndpointSlice", s, "").Key())
		}
	}
	return out
}

// CompanionSelector selects companions, and what kube-dc's manager wrote in their place.
func CompanionSelector() labels.Selector {
	return labels.SelectorFromSet(labels.Set{labelManagedBy: managedBy})
}

// CompanionOf is the name of the Service that an object accompanies; "" if it does not.
func CompanionOf(o metav1.Object) string {
	if l := o.GetLabels(); l[labelManagedBy] == managedBy {
		return l[labelSource]
	}
	return ""
}

// CompanionName is the name of a Service's companions; "" if it would be too long.
func CompanionName(service string) string {
	if name := service + "-ext"; len(name) <= maxName {
		return name
	}
	return ""
}

// SliceName is the name of the slice of a family.
func SliceName(service string, f lb.Family) string {
	if f == lb.IPv6 {
		return CompanionName(service) + "-ipv6"
	}
	return CompanionName(service)
}

// Accompany returns what makes the companions of s lead to addresses. Without any they go,
// and so they do with s: Kubernetes deletes what it owns. What a user has made under one
// of these names stays as it is, and then there are none.
func Accompany(s *lb.Service, addresses []netip.Addr, have Companions) lb.Plan {
	var p lb.Plan
	name := CompanionName(s.Key.Name)
	if name == "" || have.Service != nil && !accompanies(have.Service, s) {
		return p
	}
	if len(addresses) == 0 || s.Deleting {
		for _, slice := range have.Slices {
			if slice != nil && accompanies(slice, s) && slice.DeletionTimestamp == nil {
				p.Steps = append(p.Steps, remove("EndpointSlice", slice, "the Service has no external address", lb.ImpactNone))
			}
		}
		if have.Service != nil && have.Service.DeletionTimestamp == nil {
			p.Steps = append(p.Steps, remove("Service", have.Service, "the Service has no external address", lb.ImpactNone))
		}
		return p
	}
	p.Steps = append(p.Steps, headless(s, name, have.Service)...)
	for _, f := range lb.Families {
		p.Steps = append(p.Steps, sliceOf(s, f, addresses, have.Slices[f])...)
	}
	if e := have.Endpoints; e != nil && accompanies(e, s) && e.DeletionTimestamp == nil {
		p.Steps = append(p.Steps, remove("Endpoints", e, "EndpointSlices replace them", lb.ImpactNone))
	}
	return p
}

// accompanies says whether an object was made to accompany s. Labels alone are not enough:
// an older Service of that name may have had it.
func accompanies(o metav1.Object, s *lb.Service) bool {
	l := o.GetLabels()
	return l[labelManagedBy] == managedBy && l[labelSource] == s.Key.Name &&
		slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.Kind == "Service" && r.UID == s.UID })
}

func companionMeta(s *lb.Service, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: s.Key.Namespace, Name: name,
		Labels:          map[string]string{labelManagedBy: managedBy, labelSource: s.Key.Name, labelEndpointType: endpointType},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: s.Key.Name, UID: s.UID, Controller: ptr.To(true)}},
	}
}

func headless(s *lb.Service, name string, have *corev1.Service) []lb.Step {
	var ports []corev1.ServicePort
	for _, p := range s.Ports {
		ports = append(ports, corev1.ServicePort{Name: p.Name, Protocol: corev1.Protocol(p.Protocol), Port: int32(p.Number), TargetPort: intstr.FromInt32(int32(p.Number))})
	}
	if have == nil {
		return []lb.Step{create("Service", &corev1.Service{ObjectMeta: companionMeta(s, name),
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, Ports: ports}}, "")}
	}
	same := func(a, b corev1.ServicePort) bool {
		return a.Name == b.Name && a.Protocol == b.Protocol && a.Port == b.Port && a.TargetPort == b.TargetPort
	}
	if slices.EqualFunc(ports, have.Spec.Ports, same) || have.DeletionTimestamp != nil {
		return nil
	}
	return []lb.Step{patch("Service", have, map[string]any{"spec": map[string]any{"ports": ports}}, false)}
}

func sliceOf(s *lb.Service, f lb.Family, addresses []netip.Addr, have *discoveryv1.EndpointSlice) []lb.Step {
	want := &discoveryv1.EndpointSlice{ObjectMeta: companionMeta(s, SliceName(s.Key.Name, f)), AddressType: discoveryv1.AddressType(f.String())}
	want.Labels[discoveryv1.LabelServiceName] = CompanionName(s.Key.Name)
	want.Labels[discoveryv1.LabelManagedBy] = sliceManager
	for _, a := range addresses {
		if lb.FamilyOf(a) == f {
			want.Endpoints = append(want.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
		}
	}
	for _, p := range s.Ports {
		want.Ports = append(want.Ports, discoveryv1.EndpointPort{Name: ptr.To(p.Name), Protocol: ptr.To(corev1.Protocol(p.Protocol)), Port: ptr.To(int32(p.Number))})
	}
	switch {
	case have != nil && (!accompanies(have, s) || have.DeletionTimestamp != nil):
		return nil
	case have == nil && len(want.Endpoints) == 0:
		return nil
	case have == nil:
		return []lb.Step{create("EndpointSlice", want, "")}
	case len(want.Endpoints) == 0:
		return []lb.Step{remove("EndpointSlice", have, "the Service has no "+f.String()+" address", lb.ImpactNone)}
	case reflect.DeepEqual(want.Endpoints, have.Endpoints) && reflect.DeepEqual(want.Ports, have.Ports) && containsAll(have.Labels, want.Labels):
		return nil
	}
	return []lb.Step{patch("EndpointSlice", have, map[string]any{"metadata": map[string]any{"labels": want.Labels}, "endpoints": want.Endpoints, "ports": want.Ports}, false)}
}

func containsAll(have, want map[string]string) bool {
	merged := maps.Clone(have)
	if merged == nil {
		return len(want) == 0
	}
	maps.Copy(merged, want)
	return maps.Equal(have, merged)
}
