package kubeapi

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/lb"
)

// Endpoints returns the endpoints in slices of one Service. What is not an address
// is left out.
func Endpoints(slices []discoveryv1.EndpointSlice) []lb.Endpoint {
	var out []lb.Endpoint
	for i := range slices {
		ports := map[lb.EndpointPort]uint16{}
		for _, p := range slices[i].Ports {
			if p.Port != nil {
				ports[lb.EndpointPort{Name: ptr.Deref(p.Name, ""), Protocol: string(ptr.Deref(p.Protocol, corev1.ProtocolTCP))}] = uint16(*p.Port)
			}
		}
		for _, e := range slices[i].Endpoints {
			for _, text := range e.Addresses {
				a, err := lb.ParseAddr(text)
				if err != nil {
					continue
				}
				ready := ptr.Deref(e.Conditions.Ready, true)
				out = append(out, lb.Endpoint{Address: a, Node: ptr.Deref(e.NodeName, ""), Ready: ready, Serving: ptr.Deref(e.Conditions.Serving, ready), Ports: ports})
			}
		}
	}
	return out
}

// ServiceOf returns the Service that a slice belongs to; its name is empty if that
// is not said.
func ServiceOf(s *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
}
