package main

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// newService makes a Service with an address of each family, unless it is changed, that
// leads to the server beside the cluster.
func (l *lan) newService(ctx context.Context, in, name string, change ...func(*corev1.Service)) (*corev1.Service, error) {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name},
		Spec: corev1.ServiceSpec{
			Type:                          corev1.ServiceTypeLoadBalancer,
			AllocateLoadBalancerNodePorts: ptr.To(false),
			IPFamilyPolicy:                ptr.To(corev1.IPFamilyPolicyRequireDualStack),
			Ports:                         []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	for _, f := range change {
		f(s)
	}
	if err := l.api.Create(ctx, s); err != nil {
		return nil, err
	}
	for family, address := range map[discoveryv1.AddressType]string{discoveryv1.AddressTypeIPv4: "10.77.0.1", discoveryv1.AddressTypeIPv6: "fd77::1"} {
		if !slices.Contains(s.Spec.IPFamilies, corev1.IPFamily(family)) {
			continue
		}
		err := l.api.Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: name + "-", Labels: map[string]string{discoveryv1.LabelServiceName: s.Name},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: s.Name, UID: s.UID}}},
			AddressType: family,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](serverPort), Protocol: ptr.To(corev1.ProtocolTCP)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}},
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addresses waits until a Service has its addresses, and returns them in the
// order of the families.
func (l *lan) addresses(ctx context.Context, s *corev1.Service) (addrs []netip.AddrPort, err error) {
	err = pollFor(ctx, time.Minute, fmt.Sprintf("%s has its addresses", s.Name), 50*time.Millisecond, func() (bool, error) {
		if err := l.api.Get(ctx, kube.ObjectKeyFromObject(s), s); err != nil {
			return false, err
		}
		return len(s.Status.LoadBalancer.Ingress) == len(s.Spec.IPFamilies), nil
	})
	if err != nil {
		return nil, err
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		addr, err := netip.ParseAddr(in.IP)
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, netip.AddrPortFrom(addr, 80))
	}
	if len(addrs) > 1 && !addrs[0].Addr().Is4() {
		addrs[0], addrs[1] = addrs[1], addrs[0]
	}
	return addrs, nil
}
