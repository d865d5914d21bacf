package controller

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	metallbapi "fairlead.io/api/metallb"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/kinds"
	"fairlead.io/internal/lb"
)

// foreignPause is how often it is asked whether more kinds have come, with as
// much again at random.
const foreignPause = 3 * time.Second

// Kinds of MetalLB that are read, the one that is written, and those of which
// only the names are read: they have no effect here, which is told.
var (
	kindPool          = metallbapi.GroupVersion.WithKind(metallb.KindPool)
	kindAdvertisement = metallbapi.GroupVersion.WithKind(metallb.KindAdvertisement)
	kindState         = metallbapi.GroupVersion.WithKind("ConfigurationState")
	unservedKinds     = []schema.GroupVersionKind{
		{Group: metallbapi.GroupVersion.Group, Version: "v1beta2", Kind: "BGPPeer"},
		metallbapi.GroupVersion.WithKind("BGPAdvertisement"),
		metallbapi.GroupVersion.WithKind("BFDProfile"),
		metallbapi.GroupVersion.WithKind("Community"),
	}
)

// foreign are MetalLB's kinds, as far as they are installed: some, all or none,
// before we start or later, one after the other. What is there is watched.
type foreign struct {
	// namespace in which objects count.
	namespace string
	// pod of this controller, if it is in that namespace.
	pod       *metav1.OwnerReference
	discovery kinds.Discovery
	cache     cache.Cache
	ledger    *ledger
	log       *slog.Logger

	updates, failures prometheus.Counter

	mu sync.Mutex
	// watched kinds; all but those of the first look have been listed.
	watched map[schema.GroupVersionKind]cache.Informer
	// queue of the pools' reconciles; nil before we lead.
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

// newForeign returns nil if no class uses pools of other dialects.
func newForeign(o Options, l *ledger) (*foreign, error) {
	if !o.Config.Uses(lb.MetalLB) {
		return nil, nil
	}
	d, err := discovery.NewDiscoveryClientForConfig(o.REST)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &foreign{
		namespace: o.MetalLBNamespace, pod: o.Pod, discovery: d, ledger: l, log: o.Log, watched: map[schema.GroupVersionKind]cache.Informer{},
		updates: prometheus.NewCounter(metallbUpdatesOpts), failures: prometheus.NewCounter(metallbErrorsOpts),
	}, nil
}

// kinds returns all that would be watched.
func (f *foreign) kinds() []schema.GroupVersionKind {
	return append([]schema.GroupVersionKind{kindPool, kindAdvertisement, kindState}, unservedKinds...)
}

// look begins to watch the kinds that have come. It waits for the API server: one
// that is away does not say that there are none.
func (f *foreign) look(ctx context.Context) error {
	if f == nil {
		return nil
	}
	asked := &remembering{Discovery: f.discovery, lists: map[string]*metav1.APIResourceList{}}
	for _, kind := range f.kinds() {
		if f.has(kind) {
			continue
		}
		there, err := kinds.Present(ctx, asked, kind)
		if err != nil {
			return err
		}
		if !there {
			continue
		}
		informer, err := f.cache.GetInformer(ctx, objectOf(kind))
		if meta.IsNoMatchError(err) {
			continue // gone again
		}
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
		f.add(kind, informer)
	}
	return nil
}

// NeedLeaderElection is false: all replicas know what there is.
func (f *foreign) NeedLeaderElection() bool { return false }

// Start looks for more kinds until ctx ends or all are there.
func (f *foreign) Start(ctx context.Context) error {
	for {
		f.mu.Lock()
		all := len(f.watched) == len(f.kinds())
		f.mu.Unlock()
		if all {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(foreignPause + rand.N(foreignPause)):
		}
		if err := f.look(ctx); err != nil && ctx.Err() == nil {
			f.log.Warn("kinds of MetalLB not watched; trying again", "error", err)
		}
	}
}

// source makes changes reconcile all pools together.
func (f *foreign) source(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue = queue
	for kind, informer := range f.watched {
		if err := f.follow(kind, informer); err != nil {
			return err
		}
	}
	return nil
}

func (f *foreign) add(kind schema.GroupVersionKind, informer cache.Informer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watched[kind] = informer
	f.ledger.touch() // there may be something to say, though no object has come
	if f.queue != nil {
		if err := f.follow(kind, informer); err != nil {
			f.log.Error("kind not watched", "kind", kind.Kind, "error", err)
		}
	}
	f.log.Info("watching", "kind", kind.Kind, "of", kind.Group)
}

// follow reconciles all pools when what somebody wrote has changed, and looks
// after the statuses when anything has.
func (f *foreign) follow(kind schema.GroupVersionKind, informer cache.Informer) error {
	pools := func() {
		if kind == kindPool || kind == kindAdvertisement {
			f.queue.Add(reconcile.Request{})
		} else {
			f.ledger.touch()
		}
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { pools() },
		DeleteFunc: func(any) { pools() },
		UpdateFunc: func(before, after any) {
			b, ok1 := before.(client.Object)
			a, ok2 := after.(client.Object)
			if ok1 && ok2 && b.GetGeneration() == a.GetGeneration() && maps.Equal(b.GetLabels(), a.GetLabels()) {
				f.ledger.touch()
				return
			}
			pools()
		},
	})
	if err != nil {
		return fmt.Errorf("watch %s: %w", kind.Kind, err)
	}
	return nil
}

func (f *foreign) has(kind schema.GroupVersionKind) bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watched[kind] != nil
}

// informers of the kinds that are there.
func (f *foreign) informers() []cache.Informer {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.watched))
}

// read returns all objects that there are. They are the cache's: nobody may
// change them.
func (f *foreign) read(ctx context.Context, c client.Reader) (*metallb.Objects, error) {
	out := &metallb.Objects{Namespace: f.namespace}
	if f.has(kindPool) {
		var list metallbapi.IPAddressPoolList
		if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kindPool.Kind, err)
		}
		out.Pools = list.Items
	}
	if f.has(kindAdvertisement) {
		var list metallbapi.L2AdvertisementList
		if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kindAdvertisement.Kind, err)
		}
		out.Advertisements = list.Items
	}
	for _, kind := range unservedKinds {
		if !f.has(kind) {
			continue
		}
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := c.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			out.Unserved = append(out.Unserved, metallb.Unserved{Kind: kind.Kind, Object: client.ObjectKeyFromObject(o), UID: o.GetUID()})
		}
	}
	return out, nil
}

func objectOf(kind schema.GroupVersionKind) client.Object {
	switch kind {
	case kindPool:
		return &metallbapi.IPAddressPool{}
	case kindAdvertisement:
		return &metallbapi.L2Advertisement{}
	case kindState:
		return &metallbapi.ConfigurationState{}
	}
	// Not PartialObjectMetadata, whose watches leave goroutines behind.
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	return o
}

// unservedVersion returns group and version of one of unservedKinds.
func unservedVersion(name string) string {
	i := slices.IndexFunc(unservedKinds, func(k schema.GroupVersionKind) bool { return k.Kind == name })
	return unservedKinds[i].GroupVersion().String()
}

// remembering asks for each group and version once.
type remembering struct {
	kinds.Discovery
	lists map[string]*metav1.APIResourceList
}

func (r *remembering) ServerResourcesForGroupVersionWithContext(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	if list, ok := r.lists[groupVersion]; ok {
		return list, nil
	}
	list, err := r.Discovery.ServerResourcesForGroupVersionWithContext(ctx, groupVersion)
	switch {
	case apierrors.IsNotFound(err):
		list = &metav1.APIResourceList{}
	case err != nil:
		return nil, err
	}
	r.lists[groupVersion] = list
	return list, nil
}
