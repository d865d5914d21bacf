package sources

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/kinds"
	"fairlead.io/internal/patient"
)

// MetalLBKinds returns kinds of MetalLB's by name.
func MetalLBKinds(names ...string) (out []schema.GroupVersionKind) {
	for _, name := range names {
		out = append(out, apimetallb.GroupVersion.WithKind(name))
	}
	return out
}

// followMetalLB follows pools and advertisements of MetalLB's kinds. If the CRDs
// are installed, it returns when the objects have been read; if not, it waits for
// them in the background.
func (r *Reader) followMetalLB(ctx, background context.Context, running *sync.WaitGroup, changed func()) error {
	d, err := discovery.NewDiscoveryClientForConfig(r.o.REST)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	wanted := MetalLBKinds("IPAddressPool", "L2Advertisement")
	there, err := kinds.Present(ctx, d, wanted...)
	if err != nil {
		return err
	}
	if there {
		return r.readMetalLB(ctx, background, running, changed)
	}
	running.Go(func() {
		for kinds.Await(background, d, wanted...) == nil {
			err := r.readMetalLB(background, background, running, changed)
			if err == nil || background.Err() != nil {
				return
			}
			r.o.Log.Warn("MetalLB's CRDs are installed, but their objects cannot be read; trying again", "error", err)
			select {
			case <-background.Done():
			case <-time.After(time.Second):
			}
		}
	})
	return nil
}

// readMetalLB returns when the objects have been read.
func (r *Reader) readMetalLB(ctx, background context.Context, running *sync.WaitGroup, changed func()) error {
	c, err := NamespaceCache(r.o.REST, r.o.MetalLBNamespace, r.o.Log, cache.Options{})
	if err != nil {
		return err
	}
	for _, kind := range []client.Object{&apimetallb.IPAddressPool{}, &apimetallb.L2Advertisement{}} {
		if err := onChange(ctx, c, kind, changed); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	running.Go(func() { _ = c.Start(background) })
	if !c.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	r.metallb.Store(&c)
	changed()
	r.o.Log.Info("reading MetalLB pools and advertisements", "namespace", r.o.MetalLBNamespace)
	return nil
}

// NamespaceCache returns a cache of objects in one namespace. The options may say
// by selectors which of them.
func NamespaceCache(c *rest.Config, namespace string, log *slog.Logger, options cache.Options) (cache.Cache, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	options.Scheme = scheme
	options.DefaultTransform = cache.TransformStripManagedFields()
	options.DefaultUnsafeDisableDeepCopy = ptr.To(true)
	// The namespace is here, not in DefaultNamespaces: requests are for that
	// namespace alone, which is what the right is for, either way, but a cache of
	// several namespaces has goroutines that end only when everything was read.
	selector := fields.OneTermEqualSelector("metadata.namespace", namespace)
	if options.DefaultFieldSelector != nil {
		selector = fields.AndSelectors(selector, options.DefaultFieldSelector)
	}
	options.DefaultFieldSelector = selector
	out, err := patient.NewCache(log)(c, options)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return out, nil
}
