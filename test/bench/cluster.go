package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

const (
	namespace = "bench"
	poolName  = "bench"
	// poolAddresses are enough for all Services.
	poolAddresses = "198.18.0.0/15"
	// inFlight is how many Services are written at once: the controller's
	// default for --workers.
	inFlight = 16
	// patience is how long anything may take before the bench gives up.
	patience = 10 * time.Minute
	// pollEvery is how often something is looked at that will be there soon.
	pollEvery = 100 * time.Millisecond
)

// cluster is an API server of our own with a pool that is large enough. It has
// no other controllers, whose work would be measured as well.
type cluster struct {
	api    *sandbox.API
	kube   kubernetes.Interface
	client client.Client // for all kinds
}

func startCluster(ctx context.Context, o sandbox.Options) (*cluster, error) {
	o.NoControllers = true
	api, err := sandbox.StartAPI(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &cluster{api: api}
	if err := c.prepare(ctx); err != nil {
		return nil, errors.Join(err, c.stop())
	}
	return c, nil
}

func (c *cluster) stop() error { return c.api.Stop() }

func (c *cluster) prepare(ctx context.Context) (err error) {
	r, err := rig.New(ctx, c.api)
	if err != nil {
		return err
	}
	if c.kube, err = newClient(c.api.RESTConfig()); err != nil {
		return err
	}
	c.client = r.Client
	if err := r.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	// With an agent all is well. Without any, every Service would say that nobody
	// announces its address.
	for _, o := range []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: "bench"}}} {
		if err := r.Client.Create(ctx, o); err != nil {
			return err
		}
	}
	return r.Client.Create(ctx, &v1alpha1.Pool{
		ObjectMeta: metav1.ObjectMeta{Name: poolName},
		Spec:       v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{poolAddresses}},
	})
}

// newClient returns a client as fast as the controller's own.
func newClient(c *rest.Config) (kubernetes.Interface, error) {
	c.QPS = -1
	c.DisableCompression = true
	c.ContentType = runtime.ContentTypeProtobuf
	c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(c)
}

// create makes n Services, of which so many are requested at once. It calls made
// when a request has returned.
func (c *cluster) create(ctx context.Context, n, atOnce int, made func(name string)) error {
	return c.createLike(ctx, n, atOnce, nil, made)
}

// createLike is create, with something changed in each Service.
func (c *cluster) createLike(ctx context.Context, n, atOnce int, change func(*corev1.Service), made func(name string)) error {
	return concurrently(ctx, n, atOnce, func(i int) error {
		name := fmt.Sprintf("web-%05d", i)
		service := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.ServiceSpec{
				Type:                          corev1.ServiceTypeLoadBalancer,
				LoadBalancerClass:             ptr.To(config.DefaultClass),
				AllocateLoadBalancerNodePorts: ptr.To(false), // there are less than 3,000 of them
				Selector:                      map[string]string{"app": name},
				Ports:                         []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
			}}
		if change != nil {
			change(service)
		}
		_, err := c.kube.CoreV1().Services(namespace).Create(ctx, service, metav1.CreateOptions{})
		if err == nil && made != nil {
			made(name)
		}
		return err
	})
}

// remove deletes all Services that create has made.
func (c *cluster) remove(ctx context.Context) error {
	return c.removeIn(ctx, namespace)
}

func (c *cluster) removeIn(ctx context.Context, namespace string) error {
	list, err := c.kube.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return concurrently(ctx, len(list.Items), inFlight, func(i int) error {
		return c.kube.CoreV1().Services(namespace).Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{})
	})
}

// concurrently calls f with 0 to n-1, so many at once, and returns the first
// error.
func concurrently(ctx context.Context, n, atOnce int, f func(int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// poll calls f until it says that it is done.
func poll(ctx context.Context, what string, every time.Duration, f func() (done bool, err error)) error {
	return pollFor(ctx, patience, what, every, f)
}

func pollFor(ctx context.Context, limit time.Duration, what string, every time.Duration, f func() (done bool, err error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: not within %s", what, limit))
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if done, err := f(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
