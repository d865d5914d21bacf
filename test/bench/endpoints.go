package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/sandbox"
)

// soon is how long after a change of endpoints is seen an agent should announce an address,
// in milliseconds.
const soon = 50

// endpointBurst: many Services get their first serving pod at the same time. The agent is
// the daemon's own loop on a real API server, with tables and addresses in memory. The changes
// come as fast as the API server takes them.
func endpointBurst(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	b := &burst{cluster: c, changes: s.n, heard: make(chan netip.Addr, 100*s.n)}
	stop, err := b.startAgent(ctx)
	defer stop()
	if err != nil {
		return nil, err
	}
	var few, many float64
	for _, services := range []int{s.n, 10 * s.n} {
		progress("  %d Services", services)
		if err := b.grow(ctx, services); err != nil {
			return nil, err
		}
		var all, late []float64
		for range s.rounds {
			written, seen, err := b.round(ctx)
			if err != nil {
				return nil, err
			}
			all, late = append(all, written...), append(late, seen...)
		}
		if many = median(all); few == 0 {
			few = many
		}
		of := fmt.Sprintf("%d Services of %d get a serving pod, %d times: ", b.changes, services, s.rounds)
		rows = append(rows, info(of+"announced after the write began, median", many, "ms"),
			info(of+"announced after a bare watch has seen it, median", median(late), "ms").below(soon),
			info(of+"the same, 99th percentile", quantile(late, 0.99), "ms"))
	}
	return append(rows, info("write to announced, median, with ten times as many Services", many/few, "×").atMost(2)), nil
}

// burst is an agent, and Services some of which get and lose their pods.
type burst struct {
	*cluster
	services int // that there are
	changes  int // how many of them change: the first ones
	heard    chan netip.Addr
}

// startAgent starts the agent of the one node. Whenever it announces an address, or ceases to,
// heard has the address.
func (b *burst) startAgent(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	stop = func() {
		cancel()
		running.Wait()
	}
	addr := b.address(0xfffe)
	node, err := b.kube.CoreV1().Nodes().Get(ctx, "bench", metav1.GetOptions{})
	if err != nil {
		return stop, err
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: addr.String()}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := b.kube.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return stop, err
	}
	config := rest.CopyConfig(b.api.RESTConfig())
	running.Go(func() {
		err := agentsim.Run(ctx, agentsim.Options{REST: config, Node: node.Name, Addr: addr, Gossip: agentsim.NewGossip(),
			Announced: b.hear, Withdrawn: b.hear})
		if err != nil {
			progress("  agent: %v", err)
		}
	})
	return stop, nil
}

func (b *burst) hear(addr netip.Addr) { b.heard <- addr }

// grow makes Services until there are so many. They have addresses, and all but those that
// change have a serving pod.
func (b *burst) grow(ctx context.Context, services int) error {
	first := b.services
	err := concurrently(ctx, services-first, inFlight, func(i int) error {
		return b.create(ctx, first+i)
	})
	if err != nil {
		return err
	}
	b.services = services
	for range services - max(first, b.changes) {
		if _, err := b.next(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *burst) create(ctx context.Context, i int) error {
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%05d", i)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: ptr.To(false),
			Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		}}
	service, err := b.kube.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: b.address(i).String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}}
	if _, err := b.kube.CoreV1().Services(namespace).UpdateStatus(ctx, service, metav1.UpdateOptions{}); err != nil {
		return err
	}
	_, err = b.kube.DiscoveryV1().EndpointSlices(namespace).Create(ctx, b.slice(i, i >= b.changes), metav1.CreateOptions{})
	return err
}

// address is the one of Service number i. It is of the pool, and of the node's network.
func (b *burst) address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
}

// slice is the EndpointSlice of Service number i.
func (b *burst) slice(i int, serving bool) *discoveryv1.EndpointSlice {
	name := fmt.Sprintf("web-%05d", i)
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{b.address(i).String()}, NodeName: ptr.To("bench"),
			Conditions: discoveryv1.EndpointConditions{Ready: &serving, Serving: &serving, Terminating: ptr.To(false)}}},
		Ports: []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(8080))}},
	}
}

// moments are when something happened to an address.
type moments map[netip.Addr]time.Time

// round gives the changing Services a serving pod, and takes it away again. It returns how
// many milliseconds after the beginning of the write the agent announced each that got one,
// and how many after a bare watch had seen it.
func (b *burst) round(ctx context.Context) (written, seen []float64, err error) {
	saw, err := b.watch(ctx)
	if err != nil {
		return nil, nil, err
	}
	began := time.Now()
	wrote, announced, err := b.change(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	progress("  all announced after %s", time.Since(began).Round(time.Millisecond))
	at := <-saw // the agent may have been faster
	for addr, done := range announced {
		if at[addr].IsZero() {
			return nil, nil, fmt.Errorf("the watch has not seen the endpoint of %s", addr)
		}
		written = append(written, milliseconds(done.Sub(wrote[addr])))
		seen = append(seen, max(0, milliseconds(done.Sub(at[addr]))))
	}
	_, _, err = b.change(ctx, false)
	return written, seen, err
}

// watch returns when a bare watch has seen each of the changing Services get its pod.
func (b *burst) watch(ctx context.Context) (<-chan moments, error) {
	slices := b.kube.DiscoveryV1().EndpointSlices(namespace)
	now, err := slices.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	w, err := slices.Watch(ctx, metav1.ListOptions{ResourceVersion: now.ResourceVersion})
	if err != nil {
		return nil, err
	}
	out := make(chan moments, 1)
	go func() {
		defer w.Stop()
		at := moments{}
		for e := range w.ResultChan() {
			if slice, is := e.Object.(*discoveryv1.EndpointSlice); is && *slice.Endpoints[0].Conditions.Ready {
				at[netip.MustParseAddr(slice.Endpoints[0].Addresses[0])] = time.Now()
			}
			if len(at) == b.changes {
				break
			}
		}
		out <- at
	}()
	return out, nil
}

// change lets pods serve or not, and waits until the agent has followed. It returns when each
// write began, and when the agent had followed.
func (b *burst) change(ctx context.Context, serving bool) (wrote, followed moments, err error) {
	wrote, followed = moments{}, moments{}
	var mu sync.Mutex
	written := make(chan error, 1)
	go func() {
		written <- concurrently(ctx, b.changes, inFlight, func(i int) error {
			mu.Lock()
			wrote[b.address(i)] = time.Now()
			mu.Unlock()
			_, err := b.kube.DiscoveryV1().EndpointSlices(namespace).Update(ctx, b.slice(i, serving), metav1.UpdateOptions{})
			return err
		})
	}()
	for len(followed) < b.changes && err == nil {
		var addr netip.Addr
		if addr, err = b.next(ctx); err == nil {
			followed[addr] = time.Now()
		}
	}
	return wrote, followed, errors.Join(err, <-written)
}

// next returns the next address that the agent announces or withdraws.
func (b *burst) next(ctx context.Context) (netip.Addr, error) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case addr := <-b.heard:
		return addr, nil
	case <-limit.C:
		return netip.Addr{}, fmt.Errorf("the agent announces and withdraws nothing for %s", patience)
	case <-ctx.Done():
		return netip.Addr{}, ctx.Err()
	}
}
