package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
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

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/backend/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/patient"
)

// A failed write is tried again after retryFirst, doubling to retryMost: an API
// server that was away for long finds us back within seconds.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 5 * time.Second

	retryAPIServer = time.Second
)

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme, metallbapi.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// watched are the kinds the controller reads, besides optional ones: those that
// the classes need. So a cluster that only has a cloud needs none of our kinds, and
// gives no right to read others.
func watched(cfg *config.Configuration) []client.Object {
	kinds := []client.Object{&corev1.Service{}, &corev1.Node{}}
	if cfg.FromPools() {
		kinds = append(kinds, &corev1.Namespace{})
	}
	if needsNative(cfg) {
		kinds = append(kinds, &v1alpha1.Pool{})
	}
	return kinds
}

// cacheOptions keep of each object only what is read. Objects from the cache are
// not copied: nobody may change them. Of ConfigMaps it is the one.
func cacheOptions(cfg *config.Configuration, m *kubevipMap) cache.Options {
	o := cache.Options{DefaultTransform: slim, DefaultUnsafeDisableDeepCopy: ptr.To(true), ByObject: map[client.Object]cache.ByObject{}}
	if slices.Contains(cfg.Backends(), config.Cloudscale) {
		o.ByObject[&corev1.Node{}] = cache.ByObject{Transform: slimServer}
	}
	if m != nil {
		o.ByObject[&corev1.ConfigMap{}] = cache.ByObject{
			Field: fields.Set{"metadata.namespace": m.key.Namespace, "metadata.name": m.key.Name}.AsSelector(),
		}
	}
	return o
}

// slimServer keeps of a Node also what it is in a cloud, and whether it takes
// the traffic of load balancers.
func slimServer(in any) (any, error) {
	if n, ok := in.(*corev1.Node); ok {
		n.ManagedFields, n.Annotations = nil, nil
		n.Spec = corev1.NodeSpec{ProviderID: n.Spec.ProviderID, PodCIDRs: n.Spec.PodCIDRs, Taints: n.Spec.Taints}
		n.Status = slimNodeStatus(&n.Status)
	}
	return in, nil
}

// slim drops what nobody reads: of Nodes, of Services and ConfigurationStates that
// are not ours, and of objects of kinds of which only the names are told.
func slim(in any) (any, error) {
	if o, ok := in.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	switch o := in.(type) {
	case *unstructured.Unstructured:
		maps.DeleteFunc(o.Object, func(field string, _ any) bool { return field == "spec" || field == "status" })
	case *metallbapi.ConfigurationState:
		if o.Name != stateName {
			o.Labels, o.Status = nil, metallbapi.ConfigurationStateStatus{}
		}
	case *corev1.Service:
		if o.Spec.Type != corev1.ServiceTypeLoadBalancer && !marked(o) && !slices.Contains(o.Finalizers, Finalizer) {
			o.Annotations, o.Labels, o.Status = nil, nil, corev1.ServiceStatus{}
			o.Spec = corev1.ServiceSpec{Type: o.Spec.Type, ClusterIP: o.Spec.ClusterIP, ClusterIPs: o.Spec.ClusterIPs}
		}
	case *corev1.Node:
		o.Annotations, o.Labels = nil, nil
		o.Spec, o.Status = corev1.NodeSpec{PodCIDRs: o.Spec.PodCIDRs}, slimNodeStatus(&o.Status)
	}
	return in, nil
}

// slimNodeStatus keeps a node's addresses, and whether it is ready.
func slimNodeStatus(s *corev1.NodeStatus) corev1.NodeStatus {
	out := corev1.NodeStatus{Addresses: s.Addresses}
	for _, c := range s.Conditions {
		if c.Type == corev1.NodeReady {
			out.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out
}

// fillCaches starts all informers with the process, also in a replica that does
// not lead: taking over needs no listing then. It waits for an API server that is
// away.
func fillCaches(ctx context.Context, c cache.Cache, cfg *config.Configuration, k *optional, log *slog.Logger) error {
	for {
		err := startInformers(ctx, c, cfg, k)
		if err == nil || meta.IsNoMatchError(err) {
			return err
		}
		log.Warn("the API server cannot be watched; trying again", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryAPIServer):
		}
	}
}

func startInformers(ctx context.Context, c cache.Cache, cfg *config.Configuration, k *optional) error {
	for _, kind := range watched(cfg) {
		if _, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			if meta.IsNoMatchError(err) {
				return fmt.Errorf("the API server does not know the kinds of %s: install Fairlead's CRDs (chart value crds.enabled): %w", v1alpha1.GroupVersion.Group, err)
			}
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return k.look(ctx)
}

// promptCache tells at once when it is filled; the one in it looks every 100 ms.
type promptCache struct {
	cache.Cache
	config *config.Configuration
	kinds  *optional
}

func newCache(log *slog.Logger, cfg *config.Configuration, k *optional) cache.NewCacheFunc {
	return func(c *rest.Config, o cache.Options) (cache.Cache, error) {
		inner, err := patient.NewCache(log)(c, o)
		return promptCache{inner, cfg, k}, err
	}
}

// WaitForCacheSync says whether all kinds have been listed before ctx ended:
// those that are optional, too, as far as they are there.
func (c promptCache) WaitForCacheSync(ctx context.Context) bool {
	var filled []toolscache.DoneChecker
	for _, kind := range watched(c.config) {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return false
		}
		filled = append(filled, informer.HasSyncedChecker())
	}
	for _, informer := range c.kinds.informers() {
		filled = append(filled, informer.HasSyncedChecker())
	}
	return toolscache.WaitFor(ctx, "", filled...)
}

func watchServices(mgr manager.Manager, svc *services, workers int, wakes *waker, imports *importer) error {
	c, err := newController(mgr, "service", imports.foreign.count(svc), workers)
	if err != nil {
		return err
	}
	for _, s := range []source.Source{
		wakes,
		imports,
		changes(mgr.GetCache(), &corev1.Service{}, &handler.EnqueueRequestForObject{}, concerns(svc.config)),
		changes(mgr.GetCache(), &corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(servicesOf(mgr.GetCache())), namespaceLabelsChanged),
	} {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

func watchPools(mgr manager.Manager, sources poolSources, l *ledger, agents *agents) error {
	f, kinds := sources.foreign, sources.kinds
	c, err := newController(mgr, "pool", f.count(&pools{poolSources: sources, ledger: l, agents: agents}), 1)
	if err != nil {
		return err
	}
	from := []source.Source{kinds.changes(kindConfigMap, anyChange)}
	if f != nil {
		from = append(from, source.Func(f.source))
	}
	if needsNative(sources.config) {
		from = append(from, changes(mgr.GetCache(), &v1alpha1.Pool{}, handler.EnqueueRequestsFromMapFunc(together), predicate.GenerationChangedPredicate{}))
	} else {
		from = append(from, kinds.changes(kindNativePool, newGeneration))
	}
	for _, s := range from {
		if err := c.Watch(s); err != nil {
			return err
		}
	}
	return nil
}

func anyChange(before, after client.Object) bool {
	return before.GetResourceVersion() != after.GetResourceVersion()
}

func newGeneration(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration()
}

func watchNodes(mgr manager.Manager, l *ledger) error {
	c, err := newController(mgr, "node", &nodes{cache: mgr.GetCache(), ledger: l}, 1)
	if err != nil {
		return err
	}
	return c.Watch(changes(mgr.GetCache(), &corev1.Node{}, handler.EnqueueRequestsFromMapFunc(together), nodeAddressesChanged))
}

func watchAgents(mgr manager.Manager, a *agents, kinds *optional) error {
	if a == nil {
		return nil
	}
	c, err := newController(mgr, "agent", a, 1)
	if err != nil {
		return err
	}
	if err := c.Watch(kinds.changes(kindAgent, anyChange)); err != nil {
		return err
	}
	return c.Watch(changes(mgr.GetCache(), &corev1.Node{}, handler.EnqueueRequestsFromMapFunc(together), nodeReadyChanged))
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
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryMost),
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

// together maps all objects of a kind to one reconcile of all of them.
func together(context.Context, client.Object) []reconcile.Request {
	return []reconcile.Request{{}}
}

// concerns passes on the Services that are ours or have something of ours.
func concerns(cfg *config.Configuration) predicate.Predicate {
	ours := func(o client.Object) bool {
		s, ok := o.(*corev1.Service)
		return ok && (servedBy(cfg, s) != nil || marked(s))
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return ours(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return ours(e.ObjectOld) || ours(e.ObjectNew) },
		DeleteFunc: func(e event.DeleteEvent) bool { return ours(e.Object) },
	}
}

// marked says whether s has something that we wrote.
func marked(s *corev1.Service) bool {
	_, annotated := s.Annotations[native.AnnotationAllocatedFrom]
	return annotated || readyCondition(s) != nil || kubevip.Marked(s)
}
