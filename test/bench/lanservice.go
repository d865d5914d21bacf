package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	kit "fairlead.io/test/kit/site"
)

// newService makes a Service with an address of each family, unless it is changed, that
// leads to the server beside the cluster.
func (l *lan) newService(ctx context.Context, in, name string, change ...func(*corev1.Service)) (*corev1.Service, error) {
	s := kit.DualStack(in, name)
	for _, f := range change {
		f(s)
	}
	if err := l.api.Create(ctx, s); err != nil {
		return nil, err
	}
	for _, slice := range kit.Endpoints(s) {
		if err := l.api.Create(ctx, slice); err != nil {
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
