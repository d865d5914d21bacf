package sources

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apimetallb "fairlead.io/api/metallb"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/apiretry"
	"fairlead.io/internal/compat"
)

// MetalLBKinds returns kinds of MetalLB's by name.
func MetalLBKinds(names ...string) (out []compat.Kind) {
	for _, name := range names {
		out = append(out, compat.Kind{GroupVersionKind: apimetallb.GroupVersion.WithKind(name)})
	}
	return out
}

// followMetalLB follows pools and advertisements of MetalLB's kinds. If the CRDs
// are installed, it returns when the objects have been read; if not, it waits for
// them in the background.
func (r *Reader) followMetalLB(ctx, background context.Context, running *sync.WaitGroup, changed func()) error {
	kinds, err := apikinds.New(r.o.REST, r.o.Log, MetalLBKinds("IPAddressPool", "L2Advertisement")...)
	if err != nil {
		return err
	}
	there, err := kinds.Served(ctx)
	if err != nil {
		return err
	}
	if there {
		return r.readMetalLB(ctx, background, running, changed)
	}
	running.Go(func() {
		_ = kinds.WhenServed(background, "MetalLB's CRDs are installed, but their objects cannot be read; trying again", func() error {
			return r.readMetalLB(background, background, running, changed)
		})
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
		if err := onSpecChange(ctx, c, kind, changed); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	running.Go(func() { _ = c.Start(background) })
	if !c.WaitForCacheSync(ctx) {
		return ctx.Err()
	}
	var read client.Reader = c
	r.metallb.Store(&read)
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
	if options.DefaultTransform == nil {
		options.DefaultTransform = cache.TransformStripManagedFields()
	}
	options.DefaultUnsafeDisableDeepCopy = ptr.To(true)
	// The namespace is here, not in DefaultNamespaces: requests are for that
	// namespace alone, which is what the right is for, either way, but a cache of
	// several namespaces has goroutines that end only when everything was read.
	selector := fields.OneTermEqualSelector("metadata.namespace", namespace)
	if options.DefaultFieldSelector != nil {
		selector = fields.AndSelectors(selector, options.DefaultFieldSelector)
	}
	options.DefaultFieldSelector = selector
	out, err := apiretry.NewCache(log, nil)(c, options)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	return out, nil
}
