package agent

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kinds"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/patient"
)

// readPools takes over all pools.
func (a *agent) readPools(ctx context.Context) {
	var list v1alpha1.PoolList
	if err := a.cache.List(ctx, &list); err != nil {
		return
	}
	objects := metallb.Objects{Namespace: a.classicNamespace}
	if a.classic != nil {
		var pools apimetallb.IPAddressPoolList
		var ads apimetallb.L2AdvertisementList
		if a.classic.List(ctx, &pools) != nil || a.classic.List(ctx, &ads) != nil {
			return
		}
		objects.Pools, objects.Advertisements = pools.Items, ads.Items
	}
	pools, problems := objects.Translate()
	for i := range list.Items {
		pools = append(pools, native.Pool(&list.Items[i]))
	}
	pools = append(pools, a.directory.kubevip.Pools...)
	orphans := map[string][]lb.Advertisement{}
	a.directory.setPools(pools, func(pool string) []lb.Advertisement {
		if _, known := orphans[pool]; !known {
			orphans[pool] = objects.Orphans(pool)
		}
		return orphans[pool]
	})
	clear(a.scope.named)
	for i := range pools {
		for _, ad := range pools[i].Advertisements {
			a.scope.name(ad.Interfaces)
		}
	}
	for i := range objects.Advertisements { // of pools that are gone, too
		a.scope.name(objects.Advertisements[i].Spec.Interfaces)
	}
	a.scope.name(a.directory.kubevip.Interfaces())
	for key := range a.directory.services {
		a.nameInterface(key)
	}
	a.tellConfiguration(problems)
	a.allDirty, a.linksDirty, a.presenceDirty = true, true, true
}

// classics are the kinds of MetalLB's that say what to announce.
var classics = notes{
	&apimetallb.IPAddressPool{}:   func(c *changes, _ client.Object) { c.pools = true },
	&apimetallb.L2Advertisement{}: func(c *changes, _ client.Object) { c.pools = true },
}

func classicKinds(names ...string) (out []schema.GroupVersionKind) {
	for _, name := range names {
		out = append(out, apimetallb.GroupVersion.WithKind(name))
	}
	return out
}

// followClassic follows the objects of MetalLB's kinds. If these are there, it
// returns when they have been read; if not, it waits for them behind.
func (a *agent) followClassic(ctx context.Context, o Options) error {
	d, err := discovery.NewDiscoveryClientForConfig(o.REST)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	wanted := classicKinds("IPAddressPool", "L2Advertisement")
	there, err := kinds.Present(ctx, d, wanted...)
	if err != nil {
		return err
	}
	if there {
		return a.readClassic(ctx, o)
	}
	a.running.Go(func() {
		for kinds.Await(a.background, d, wanted...) == nil {
			err := a.readClassic(a.background, o)
			if err == nil || a.background.Err() != nil {
				return
			}
			a.log.Warn("MetalLB's kinds are there, but cannot be read; trying again", "error", err)
			select {
			case <-a.background.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return nil
}

// readClassic follows the objects of MetalLB's kinds, and returns when they have
// been read.
func (a *agent) readClassic(ctx context.Context, o Options) error {
	c, err := newClassicCache(o, cache.Options{})
	if err != nil {
		return err
	}
	if err := a.inbox.follow(ctx, c, classics); err != nil {
		return err
	}
	a.running.Go(func() { _ = c.Start(a.background) })
	if !c.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	a.inbox.add(func(changes *changes) { changes.classic = c })
	a.log.Info("pools and advertisements of MetalLB's kinds are read", "namespace", o.MetalLBNamespace)
	return nil
}

// newClassicCache returns a cache of objects in the namespace in which those of
// MetalLB's kinds count. The options may say by selectors which of them.
func newClassicCache(o Options, options cache.Options) (cache.Cache, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	options.Scheme = scheme
	options.DefaultTransform = cache.TransformStripManagedFields()
	options.DefaultUnsafeDisableDeepCopy = ptr.To(true)
	// Not DefaultNamespaces: see followConfigMap.
	namespace := fields.OneTermEqualSelector("metadata.namespace", o.MetalLBNamespace)
	if options.DefaultFieldSelector != nil {
		namespace = fields.AndSelectors(namespace, options.DefaultFieldSelector)
	}
	options.DefaultFieldSelector = namespace
	c, err := patient.NewCache(o.Log)(o.REST, options)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return c, nil
}
