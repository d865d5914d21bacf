package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/native"
)

// publishing: from the address in a Service's status to the first route in FRR's kernel, and to
// the status of all agents; from the rules of kube-proxy, which agents wait for, to that route; and
// from the end of the Service to the end of the route.
//
// kube-proxy writes rules once a second at most. A Service that was just made has had its turn, so
// its address waits for the next one. One that has waited for a pool does not wait again.
func (l *routed) publishing(ctx context.Context, s settings) ([]Row, error) {
	var fresh, waited, created, forwarded, reported, deleted []float64
	services := map[netip.Addr]*corev1.Service{} // until the end, or an address is used again
	for i := range 5 * s.rounds {
		name := fmt.Sprintf("published-%d", i)
		var service *corev1.Service
		p, err := l.publish(ctx, name, func() (err error) {
			service, err = l.newService(ctx, metav1.NamespaceDefault, name)
			return err
		})
		if err != nil {
			return nil, err
		}
		services[p.addr] = service
		fresh, created = append(fresh, p.published), append(created, p.begun)
		forwarded, reported = append(forwarded, p.forwarded), append(reported, p.reported)

		name = fmt.Sprintf("waited-%d", i)
		service, err = l.newService(ctx, metav1.NamespaceDefault, name, func(s *corev1.Service) {
			s.Annotations = map[string]string{native.AnnotationPool: name}
		})
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, 3*time.Second); err != nil {
			return nil, err
		}
		p, err = l.publish(ctx, name, func() error { return l.api.Create(ctx, latePool(name, i)) })
		if err != nil {
			return nil, err
		}
		services[p.addr] = service
		waited = append(waited, p.published)
	}
	for addr, service := range services {
		began := time.Now()
		if err := l.api.Delete(ctx, service); err != nil {
			return nil, err
		}
		seen, err := l.fib.await(ctx, addr.String(), began, func(line string) bool { return strings.HasPrefix(line, "Deleted") })
		if err != nil {
			return nil, err
		}
		deleted = append(deleted, milliseconds(seen.Sub(began)))
	}
	name := fmt.Sprintf("to a route in FRR's kernel, %d times, ", len(fresh))
	return []Row{
		info("address of a Service that waited, published "+name+"median", median(waited), "ms").atMost(500),
		info("address of a Service that waited, published "+name+"most", quantile(waited, 1), "ms"),
		info("address of a new Service, published "+name+"median", median(fresh), "ms"),
		info("rules of kube-proxy on the first node "+name+"median", median(forwarded), "ms").atMost(500),
		info("Service created "+name+"median", median(created), "ms"),
		info(fmt.Sprintf("address of a new Service, published to the status of all agents, %d times, most", len(reported)), quantile(reported, 1), "ms").atMost(2000),
		info(fmt.Sprintf("Service deleted to no route in FRR's kernel, %d times, median", len(deleted)), median(deleted), "ms").atMost(200),
	}, nil
}

// latePool has one address of each family, for one Service.
func latePool(name string, i int) *v1alpha1.Pool {
	return &v1alpha1.Pool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.PoolSpec{
			Addresses: []v1alpha1.Span{v1alpha1.Span(fmt.Sprintf("203.0.113.%d/32", i)), v1alpha1.Span(fmt.Sprintf("fd98::%x/128", i))},
			Advertise: v1alpha1.Advertise{BGP: &v1alpha1.BGP{}},
		},
	}
}

// publication is an address, and how many milliseconds it took: from what was done until a route
// is in FRR's kernel, from the address in the status until then and until all agents say so, and
// from the rules of kube-proxy until the route.
type publication struct {
	addr                                  netip.Addr
	begun, published, forwarded, reported float64
}

// publish does what gives a Service its address.
func (l *routed) publish(ctx context.Context, name string, do func() error) (p publication, err error) {
	before, err := l.prefixes(ctx)
	if err != nil {
		return p, err
	}
	watch, err := l.api.Watch(ctx, &corev1.ServiceList{}, kube.InNamespace(metav1.NamespaceDefault), kube.MatchingFields{"metadata.name": name})
	if err != nil {
		return p, err
	}
	defer watch.Stop()
	began := time.Now()
	if err := do(); err != nil {
		return p, err
	}
	var at time.Time
	for e := range watch.ResultChan() {
		if service, ok := e.Object.(*corev1.Service); ok && len(service.Status.LoadBalancer.Ingress) > 0 {
			at = time.Now()
			if p.addr, err = netip.ParseAddr(service.Status.LoadBalancer.Ingress[0].IP); err != nil {
				return p, err
			}
			break
		}
	}
	rules := l.forwards(ctx, p.addr)
	seen, err := l.fib.await(ctx, p.addr.String(), began, nil)
	if err != nil {
		return p, err
	}
	p.begun, p.published = milliseconds(seen.Sub(began)), milliseconds(max(0, seen.Sub(at)))
	p.forwarded = milliseconds(max(0, seen.Sub(<-rules)))
	err = pollFor(ctx, time.Minute, "all agents report the prefix", 20*time.Millisecond, func() (bool, error) {
		now, err := l.prefixes(ctx)
		return now > before, err
	})
	p.reported = milliseconds(time.Since(at))
	return p, err
}
