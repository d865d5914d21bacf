package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/sandbox"
)

const (
	hostileNamespace = "hostile"
	// unserved is a class of nobody. What such Services cost is the API server's.
	unserved = "example.com/nobody"
	// hostilePorts is how many ports the largest Services have; hostileLarge is how
	// many of these there are.
	hostilePorts, hostileLarge = 5000, 2
	// hostileRate is how often the hostile tenant changes something.
	hostileRate = 10 * time.Millisecond
)

// hostile: a tenant has a thousand Services that ask for what they cannot have, share
// addresses in every way, have thousands of ports, and changes them a hundred times a
// second. Another tenant's Services get their addresses meanwhile. "alone" is without
// the first tenant; "load" is with it, but with Services that are not ours: that part of
// the difference is the API server's.
func hostile(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: hostileNamespace}}); err != nil {
		return nil, err
	}
	p, err := startFairlead(c, s)
	if err != nil {
		return nil, err
	}
	defer func() { p.Stop(&err) }()
	if _, err := c.createWatched(ctx, 1); err != nil { // it is up when this one has its address
		return nil, err
	}
	if err := c.remove(ctx); err != nil {
		return nil, err
	}
	classes := []string{"", unserved, config.DefaultClass}
	names := []string{"alone", "load", "hostile"}
	p50, p99 := make([][]float64, len(classes)), make([][]float64, len(classes))
	err = inTurns(s.rounds, len(classes), func(i int) error {
		ms, err := c.besides(ctx, s, classes[i])
		p50[i], p99[i] = append(p50[i], quantile(ms, 0.5)), append(p99[i], quantile(ms, 0.99))
		progress("  %s: %.1f ms, 99th percentile %.1f ms", names[i], quantile(ms, 0.5), quantile(ms, 0.99))
		return err
	})
	if err != nil {
		return nil, err
	}
	return []Row{
		info("others' creation to address, 99th percentile, beside 1,000 hostile Services to alone", median(p99[2])/median(p99[0]), "×").atMost(2),
		info("the same, to beside as many Services of nobody", median(p99[2])/median(p99[1]), "×"),
		info("creation to address, median, alone", median(p50[0]), "ms"),
		info("creation to address, median, beside hostile Services", median(p50[2]), "ms"),
		info("creation to address, 99th percentile, alone", median(p99[0]), "ms"),
		info("creation to address, 99th percentile, beside Services of nobody", median(p99[1]), "ms"),
		info("creation to address, 99th percentile, beside hostile Services", median(p99[2]), "ms"),
	}, nil
}

// besides returns how many milliseconds each Service of a tenant waited for its address
// while another one, whose Services are of that class, does what it can; "" is nobody.
func (c *cluster) besides(ctx context.Context, s settings, class string) (ms []float64, err error) {
	if class != "" {
		if err := c.createHostile(ctx, s.n, class); err != nil {
			return nil, err
		}
		storm, cancel := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- c.change(storm, s.n) }()
		defer func() {
			cancel()
			err = errors.Join(err, <-ended, c.removeIn(ctx, hostileNamespace))
		}()
	}
	if ms, err = c.createWatched(ctx, s.n/shorter); err != nil {
		return nil, err
	}
	return ms, c.remove(ctx)
}

func (c *cluster) createHostile(ctx context.Context, n int, class string) error {
	return concurrently(ctx, n, inFlight, func(i int) error {
		ports := 1
		if i < hostileLarge {
			ports = hostilePorts
		}
		name := hostileName(i)
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: asksFor(i)},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr.To(class), AllocateLoadBalancerNodePorts: ptr.To(false),
				Selector: map[string]string{"app": name},
			}}
		for port := range ports {
			service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", port), Port: int32(port + 1 + i%7), TargetPort: intstr.FromInt32(8080)})
		}
		_, err := c.kube.CoreV1().Services(hostileNamespace).Create(ctx, service, metav1.CreateOptions{})
		return err
	})
}

func hostileName(i int) string { return fmt.Sprintf("hostile-%04d", i) }

// asksFor is what a hostile Service asks for, each time something else: an address
// outside all pools, one that all want, a pool that there is not, an address to share
// with whoever has the same key, and nothing.
func asksFor(turn int) map[string]string {
	switch turn % 5 {
	case 0:
		return map[string]string{native.AnnotationShare: fmt.Sprintf("key-%d", turn%3)}
	case 1:
		return map[string]string{native.AnnotationAddresses: "203.0.113.7"}
	case 2:
		return map[string]string{native.AnnotationAddresses: "198.18.0.1"}
	case 3:
		return map[string]string{native.AnnotationPool: "none"}
	default:
		return map[string]string{}
	}
}

// change has hostile Services ask for something else until ctx ends.
func (c *cluster) change(ctx context.Context, n int) error {
	tick := time.NewTicker(hostileRate)
	defer tick.Stop()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		annotations := map[string]any{native.AnnotationShare: nil, native.AnnotationAddresses: nil, native.AnnotationPool: nil}
		for key, value := range asksFor(turn) {
			annotations[key] = value
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations, "labels": map[string]string{"turn": fmt.Sprint(turn)}}})
		if err != nil {
			return err
		}
		_, err = c.kube.CoreV1().Services(hostileNamespace).Patch(ctx, hostileName(rand.IntN(n)), types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}
