package site

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// DualStack is a Service that asks for an address of each family.
func DualStack(namespace, name string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Type:                          corev1.ServiceTypeLoadBalancer,
			AllocateLoadBalancerNodePorts: ptr.To(false),
			IPFamilyPolicy:                ptr.To(corev1.IPFamilyPolicyRequireDualStack),
			Ports:                         []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
}

// Endpoints are those of a Service that was made like DualStack: the server beside the
// cluster, in each family that the Service has. They go with the Service.
func Endpoints(s *corev1.Service) (out []*discoveryv1.EndpointSlice) {
	for _, family := range s.Spec.IPFamilies {
		address := "10.77.0.1"
		if family == corev1.IPv6Protocol {
			address = "fd77::1"
		}
		out = append(out, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: s.Name + "-", Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: s.Name, UID: s.UID}}},
			AddressType: discoveryv1.AddressType(family),
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](ServerPort), Protocol: ptr.To(corev1.ProtocolTCP)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		})
	}
	return out
}
