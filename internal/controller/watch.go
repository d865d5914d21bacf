package controller

import (
	"context"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crcontroller "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/backend"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/kubeapi"
)

// A failed write is tried again after retryFirst, doubling to maxRetry: an API
// server that was away for long finds us back within seconds.
const (
	retryFirst = 20 * time.Millisecond
	maxRetry   = 5 * time.Second

	retryAPIServer = time.Second
)

// watchServices looks at a Service of one backend when it changes, when its namespace
// does, when the ledger or the backend says so; and at all of them when nodes or the
// claims of others change, where that counts, and once in a while.
func watchServices(mgr manager.Manager, svc *services, wakes *waker, imports *importer, counted func(reconcile.Reconciler) reconcile.Reconciler) error {
	c, err := newController(mgr, string(svc.name), counted(svc), svc.backend.Workers)
	if err != nil {
		return err
	}
	needs, everything := svc.backend.needs(), handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request { return requests(svc.all(ctx)) })
	from := []source.Source{
		wakes,
		changes(mgr.GetCache(), &corev1.Service{}, &handler.EnqueueRequestForObject{}, svc.concerns()),
		source.Func(svc.resync),
	}
	if svc.classes.fromPools(svc.name) {
		from = append(from, imports,
			changes(mgr.GetCache(), &corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(servicesOf(mgr.GetCache())), namespaceLabelsChanged))
	}
	if needs.Nodes {
		from = append(from, changes(mgr.GetCache(), &corev1.Node{}, everything, nodeMembershipChanged(needs.Agents || needs.Ready)))
	}
	if needs.Endpoints {
		from = append(from, changes(mgr.GetCache(), &discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(serviceOfSlice), predicate.Funcs{}))
	}
	if claims, ok := svc.backend.Backend.(backend.Claims); ok {
		from = append(from, changes(mgr.GetCache(), &corev1.Service{}, everything, claimsChanged(claims)))
	}
	for _, s := range from {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	if runner, ok := svc.backend.Backend.(backend.Runner); ok {
		return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
			defer svc.pass.stop()
			return runner.Run(ctx, func(services ...types.NamespacedName) {
				if len(services) == 0 {
					services = svc.all(ctx)
					svc.beginPass(ctx, services)
				}
				wakes.wake(services...)
			})
		}))
	}
	return nil
}

// resync puts all Services into the queue together, so that they share what is
// read from outside.
func (c *services) resync(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	if c.backend.Resync <= 0 {
		return nil
	}
	go func() {
		tick := time.NewTicker(c.backend.Resync)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := c.lookForOrphans(ctx); err != nil && ctx.Err() == nil {
					c.log.Warn("orphan check failed", "backend", c.name, "error", err)
				}
				for _, r := range requests(c.all(ctx)) {
					queue.Add(r)
				}
			}
		}
	}()
	return nil
}

// claimsChanged: what a Service asks for that another may ask for as well.
func claimsChanged(claims backend.Claims) predicate.Funcs {
	claim := func(o client.Object) string {
		s, ok := o.(*corev1.Service)
		if !ok {
			return ""
		}
		return claims.Claim(kubeapi.Service(s))
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList && claim(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return claim(e.ObjectOld) != claim(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return claim(e.Object) != "" },
	}
}

func requests(services []types.NamespacedName) []reconcile.Request {
	out := make([]reconcile.Request, len(services))
	for i, s := range services {
		out[i] = reconcile.Request{NamespacedName: s}
	}
	return out
}

func serviceOfSlice(_ context.Context, o client.Object) []reconcile.Request {
	slice, ok := o.(*discoveryv1.EndpointSlice)
	if !ok || kubeapi.ServiceOf(slice).Name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: kubeapi.ServiceOf(slice)}}
}

func watchPools(mgr manager.Manager, p *pools, woken *poolWaker, counted func(reconcile.Reconciler) reconcile.Reconciler) error {
	c, err := newController(mgr, "pool", counted(p), 1)
	if err != nil {
		return err
	}
	from := []source.Source{woken}
	for _, d := range p.classes.dialects {
		for _, k := range d.Kinds() {
			switch {
			case !p.classes.uses(d.Name()):
			case k.GroupVersionKind == kindNativePool && needsNative(p.classes.config):
				from = append(from, changes(mgr.GetCache(), &v1alpha1.Pool{}, handler.EnqueueRequestsFromMapFunc(oneForAll), predicate.GenerationChangedPredicate{}))
			default:
				from = append(from, p.followKind(k))
			}
		}
	}
	for _, s := range from {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

// followKind reconciles all pools together when what somebody wrote has changed, and
// looks after the statuses when anything has.
func (c *pools) followKind(k compat.Kind) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		all := func() { queue.Add(reconcile.Request{}) }
		return c.readings.kinds.Follow(k.GroupVersionKind, apikinds.Follower{
			Came: func() {
				all()
				c.ledger.touch() // there may be something to say, though no object has come
			},
			Changed: func(before, after client.Object) {
				switch {
				case !k.Quiet && changedByHand(before, after):
					all()
					return
				case k.Quiet && k.List != nil && (changedByHand(before, after) || !maps.Equal(before.GetAnnotations(), after.GetAnnotations())):
					all() // reporters read what was read
				}
				c.ledger.touch()
			},
		})
	})
}

// changedByHand says whether more has changed than a status; nil is an object that
// is not there.
func changedByHand(before, after client.Object) bool {
	if before == nil || after == nil || !maps.Equal(before.GetLabels(), after.GetLabels()) {
		return true
	}
	if after.GetGeneration() == 0 { // a kind without a status
		return before.GetResourceVersion() != after.GetResourceVersion()
	}
	return before.GetGeneration() != after.GetGeneration()
}

func anyChange(before, after client.Object) bool {
	return before.GetResourceVersion() != after.GetResourceVersion()
}

// poolWaker has all pools looked at again.
type poolWaker struct{ waker }

func (w *poolWaker) wakeAll() { w.wake(types.NamespacedName{}) }

func watchOwners(mgr manager.Manager, o *owners) error {
	c, err := newController(mgr, "owner", o, 1)
	if err != nil {
		return err
	}
	for _, s := range []source.Source{
		changes(mgr.GetCache(), &corev1.Node{}, handler.EnqueueRequestsFromMapFunc(oneForAll), nodeOwnsChanged),
		kindChanges(o.kinds, kindServiceCIDR, anyChange),
		kindChanges(o.kinds, kindAgent, agentOwnsChanged),
	} {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

func watchAgents(mgr manager.Manager, a *agents, kinds *apikinds.Set) error {
	if a == nil {
		return nil
	}
	c, err := newController(mgr, "agent", a, 1)
	if err != nil {
		return err
	}
	if err := c.Watch(kindChanges(kinds, kindAgent, anyChange)); err != nil {
		return err
	}
	return c.Watch(changes(mgr.GetCache(), &corev1.Node{}, handler.EnqueueRequestsFromMapFunc(oneForAll), nodeReadyChanged))
}

// changes is source.Kind for caches that are filled when controllers start. It
// does not wait for that again, which takes 100 ms.
func changes(c cache.Cache, kind client.Object, h handler.EventHandler, p predicate.Predicate) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		informer, err := c.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		return (&source.Informer{Informer: informer, Handler: h, Predicates: []predicate.Predicate{p}}).Start(ctx, queue)
	})
}

func newController(mgr manager.Manager, name string, r reconcile.Reconciler, workers int) (crcontroller.Controller, error) {
	log := logr.New(terseSink{mgr.GetLogger().WithValues("controller", name).GetSink()})
	c, err := crcontroller.New(name, mgr, crcontroller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		CacheSyncTimeout:        math.MaxInt64, // an API server that is away comes back
		SkipNameValidation:      ptr.To(true),  // tests run several controllers in one process
		LogConstructor:          func(*reconcile.Request) logr.Logger { return log },
		NewQueue:                newFairQueue,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, maxRetry),
	})
	if err != nil {
		return nil, fmt.Errorf("make controller %s: %w", name, err)
	}
	return c, nil
}

// terseSink takes no further values, of which controller-runtime gives it some
// for each reconcile: our errors say themselves what they are about.
type terseSink struct{ logr.LogSink }

func (s terseSink) WithValues(...any) logr.LogSink { return s }

// oneForAll maps all objects of a kind to one reconcile of all of them.
func oneForAll(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{}}
}

// concerns passes on the Services that are the backend's, or have something of it.
func (c *services) concerns() predicate.Predicate {
	ours := func(o client.Object) bool {
		object, ok := o.(*corev1.Service)
		if !ok {
			return false
		}
		s := kubeapi.Service(object)
		if class := c.classes.of(s); class != nil {
			return class.Backend == c.name
		}
		return c.backend.marked(s)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return ours(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return ours(e.ObjectOld) || ours(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return ours(e.Object) },
	}
}

// namespaceLabelsChanged passes over the namespaces that were there first: their
// labels are known before any Service is looked at.
var namespaceLabelsChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
	UpdateFunc: func(e event.UpdateEvent) bool { return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) },
}

// servicesOf returns the Services of a namespace whose labels changed.
func servicesOf(cache client.Reader) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, namespace client.Object) []reconcile.Request {
		var list corev1.ServiceList
		if err := cache.List(ctx, &list, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			return nil // the cache is not filled yet; then every Service is still to come
		}
		var out []reconcile.Request
		for _, s := range list.Items {
			if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
				out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&s)})
			}
		}
		return out
	}
}
