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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

const (
	// optionalPause is how often it is asked whether more kinds can be read, with
	// as much again at random.
	optionalPause = 2 * time.Second
	// optionalSync is how long the first list of a kind may take.
	optionalSync = time.Minute
)

// Kinds of our own, which need not be there either.
var (
	kindNativePool = v1alpha1.GroupVersion.WithKind("Pool")
	kindAgent      = v1alpha1.GroupVersion.WithKind("Agent")
)

func resourceOf(k *compat.Kind) apikinds.Resource {
	plural, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
	return apikinds.Resource{GroupVersionResource: plural, Namespace: k.Namespace, Name: k.Name}
}

// optional are kinds that need not be there, or that we need not be allowed to
// read: some, all or none, before we start or later, one after the other. What can
// be read is watched; what cannot is asked for again and again.
type optional struct {
	all       []compat.Kind
	discovery apikinds.Discovery
	rest      rest.Interface
	cache     cache.Cache
	log       *slog.Logger

	mu sync.Mutex
	// watched kinds; all but those of the first look have been listed.
	watched map[schema.GroupVersionKind]cache.Informer
	// refused says why others are not; "" is that they are not there.
	refused   map[schema.GroupVersionKind]string
	followers map[schema.GroupVersionKind][]follower
}

// optionalKinds are those that the classes use and can do without for a while. Our
// own kind Pool is one of them, unless a class has no other pools.
func optionalKinds(c *classes) (out []compat.Kind) {
	for _, d := range c.dialects {
		if !c.uses(d.Name()) {
			continue
		}
		for _, k := range d.Kinds() {
			if k.GroupVersionKind != kindNativePool || !needsNative(c.config) {
				out = append(out, k)
			}
		}
	}
	for _, d := range followers(c) {
		if f, ok := d.(compat.Follower); ok {
			return append(out, compat.Kind{GroupVersionKind: kindAgent, Object: &v1alpha1.Agent{}, Without: f.Without()})
		}
	}
	return out
}

func needsNative(cfg *config.Configuration) bool {
	return slices.ContainsFunc(cfg.Classes, func(c config.Class) bool { return slices.Equal(c.Pools, []lb.Dialect{lb.Native}) })
}

// follower is told when a kind has come, and of its objects; nil is one that was
// not there before, or is not there after.
type follower struct {
	came    func()
	changed func(before, after client.Object)
}

func newOptional(c *rest.Config, log *slog.Logger, all ...compat.Kind) (*optional, error) {
	d, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return &optional{
		all: all, discovery: d, rest: d.RESTClient(), log: log,
		watched: map[schema.GroupVersionKind]cache.Informer{}, refused: map[schema.GroupVersionKind]string{},
		followers: map[schema.GroupVersionKind][]follower{},
	}, nil
}

// look begins to watch the kinds that have come. It waits for the API server: one
// that is away does not say that there are none.
func (o *optional) look(ctx context.Context) error {
	asked := &remembering{Discovery: o.discovery, lists: map[string]*metav1.APIResourceList{}}
	for _, k := range o.all {
		if o.has(k.GroupVersionKind) {
			continue
		}
		if k.Group != "" {
			there, err := apikinds.Present(ctx, asked, k.GroupVersionKind)
			if err != nil {
				return err
			}
			if !there {
				o.miss(k, "")
				continue
			}
		}
		why, err := apikinds.Refused(ctx, o.rest, resourceOf(&k))
		if err != nil {
			return err
		}
		if why != "" {
			o.miss(k, why)
			continue
		}
		if err := o.watch(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

func (o *optional) watch(ctx context.Context, k compat.Kind) error {
	ctx, cancel := context.WithTimeout(ctx, optionalSync)
	defer cancel()
	informer, err := o.cache.GetInformer(ctx, k.Object)
	if meta.IsNoMatchError(err) {
		return nil // gone again
	}
	if err != nil {
		return fmt.Errorf("watch %s: %w", k.Kind, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watched[k.GroupVersionKind] = informer
	delete(o.refused, k.GroupVersionKind)
	for _, f := range o.followers[k.GroupVersionKind] {
		if err := f.follow(informer); err != nil {
			o.log.Error("kind not watched", "kind", k.Kind, "error", err)
		}
	}
	o.log.Info("watching", "kind", k.Kind, "of", k.Group)
	return nil
}

// miss notes that k cannot be read, and tells that once.
func (o *optional) miss(k compat.Kind, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if had, known := o.refused[k.GroupVersionKind]; known && had == why {
		return
	}
	o.refused[k.GroupVersionKind] = why
	if k.Without != "" || why != "" {
		reason, _ := o.lacking(k.GroupVersionKind)
		o.log.Warn("going on without a kind", "kind", k.Kind, "so", k.Without, "error", reason)
	}
}

// NeedLeaderElection is false: all replicas know what there is.
func (o *optional) NeedLeaderElection() bool { return false }

// Start looks for more kinds until ctx ends or all are there.
func (o *optional) Start(ctx context.Context) error {
	for {
		o.mu.Lock()
		all := len(o.watched) == len(o.all)
		o.mu.Unlock()
		if all {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(optionalPause + rand.N(optionalPause)):
		}
		if err := o.look(ctx); err != nil && ctx.Err() == nil {
			o.log.Warn("kinds not watched; trying again", "error", err)
		}
	}
}

// follow tells f of a kind from now on, or from when it comes.
func (o *optional) follow(kind schema.GroupVersionKind, f follower) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.followers[kind] = append(o.followers[kind], f)
	if informer := o.watched[kind]; informer != nil {
		return f.follow(informer)
	}
	return nil
}

func (f follower) follow(informer cache.Informer) error {
	f.came()
	object := func(o any) client.Object {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		out, _ := o.(client.Object)
		return out
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f.changed(nil, object(o)) },
		DeleteFunc: func(o any) { f.changed(object(o), nil) },
		UpdateFunc: func(before, after any) { f.changed(object(before), object(after)) },
	})
	return err
}

// changes makes changes of a kind that are worth it, and its arrival, one reconcile
// of all objects together.
func (o *optional) changes(kind schema.GroupVersionKind, worth func(before, after client.Object) bool) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		all := func() { queue.Add(reconcile.Request{}) }
		return o.follow(kind, follower{came: all, changed: func(before, after client.Object) {
			if before == nil || after == nil || worth(before, after) {
				all()
			}
		}})
	})
}

func (o *optional) has(kind schema.GroupVersionKind) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.watched[kind] != nil
}

// lacks says whether a kind is one of these and cannot be read, and why: that it is
// not there, if nothing else is said.
func (o *optional) lacks(kind schema.GroupVersionKind) (why string, lacks bool) {
	if o == nil || !slices.ContainsFunc(o.all, func(k compat.Kind) bool { return k.GroupVersionKind == kind }) {
		return "", false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lacking(kind)
}

func (o *optional) lacking(kind schema.GroupVersionKind) (why string, lacks bool) {
	if o.watched[kind] != nil {
		return "", false
	}
	if why = o.refused[kind]; why == "" {
		why = fmt.Sprintf("the API server does not know kind %s of %s", kind.Kind, kind.Group)
	}
	return why, true
}

// informers of the kinds that are there.
func (o *optional) informers() []cache.Informer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Values(o.watched))
}

// remembering asks for each group and version once.
type remembering struct {
	apikinds.Discovery
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
