package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	compat "fairlead.io/internal/compat/cloudscale"
)

// cloudWorkers is how many Services are worked on at the same time. They do
// little but wait for answers of the cloud, which does one change of a load
// balancer at a time, but those of different ones together.
const cloudWorkers = 100

// watchCloud looks at a Service when it changes, and at all of them when nodes
// do, when others ask for the same, and once in a while.
func watchCloud(mgr manager.Manager, c *cloudServices) error {
	ctl, err := newController(mgr, "cloud", c, cloudWorkers)
	if err != nil {
		return err
	}
	everything := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return c.all(ctx) })
	for _, s := range []source.Source{
		changes(mgr.GetCache(), &corev1.Service{}, &handler.EnqueueRequestForObject{}, c.concerns()),
		changes(mgr.GetCache(), &corev1.Service{}, everything, claimsChanged),
		changes(mgr.GetCache(), &corev1.Node{}, everything, nodeMembershipChanged),
		source.Func(c.resync),
	} {
		if err := ctl.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

func (c *cloudServices) all(ctx context.Context) []reconcile.Request {
	services, err := c.services(ctx)
	if err != nil {
		return nil // the cache is not filled yet; then every Service is still to come
	}
	out := make([]reconcile.Request, 0, len(services))
	for _, s := range services {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
	}
	return out
}

// resync puts all Services into the queue together, so that they share what is
// read from the cloud.
func (c *cloudServices) resync(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if c.Resync <= 0 {
		return nil
	}
	go func() {
		tick := time.NewTicker(c.Resync)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := c.lookForOrphans(ctx); err != nil && ctx.Err() == nil {
					c.log.Warn("orphaned load balancers not looked for", "error", err)
				}
				for _, r := range c.all(ctx) {
					queue.Add(r)
				}
			}
		}
	}()
	return nil
}

// concerns passes on Services that have a load balancer in the cloud, or shall.
func (c *cloudServices) concerns() predicate.Predicate {
	ours := func(o client.Object) bool {
		s, ok := o.(*corev1.Service)
		return ok && (cloudClass(c.config, s) != nil || mayHaveLoadBalancer(c.config, s) || servedBy(c.config, s) == nil && marked(s))
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return ours(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return ours(e.ObjectOld) || ours(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return ours(e.Object) },
	}
}

// claimsChanged: what a Service asks for that another may ask for as well.
var claimsChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && claim(e.Object) != "" },
	UpdateFunc: func(e event.UpdateEvent) bool {
		return claim(e.ObjectOld) != claim(e.ObjectNew)
	},
	DeleteFunc: func(e event.DeleteEvent) bool { return claim(e.Object) != "" },
}

func claim(o client.Object) string {
	if o.GetDeletionTimestamp() != nil {
		return ""
	}
	a := o.GetAnnotations()
	if a[compat.AnnotationFloatingIPs] == "" && a[compat.AnnotationName] == "" && a[compat.AnnotationUUID] == "" {
		return ""
	}
	return a[compat.AnnotationFloatingIPs] + "\n" + a[compat.AnnotationName]
}

// nodeMembershipChanged passes over heartbeats: what counts is which nodes there
// are, what they are in the cloud, and whether they take traffic.
var nodeMembershipChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return ok1 && ok2 && (before.Spec.ProviderID != after.Spec.ProviderID ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!maps.Equal(before.Labels, after.Labels) ||
			!slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }))
	},
}
