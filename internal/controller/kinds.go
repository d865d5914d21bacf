package controller

import (
	"context"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// Kinds of our own, which need not be there either.
var (
	kindNativePool = v1alpha1.GroupVersion.WithKind("Pool")
	kindAgent      = v1alpha1.GroupVersion.WithKind("Agent")
)

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
	if c.anyFromPools() {
		out = append(out, compat.Kind{GroupVersionKind: kindServiceCIDR, Object: &networkingv1.ServiceCIDR{},
			Without: "only the ClusterIPs of Services that exist are refused, not all of their networks"})
	}
	for _, d := range followers(c) {
		if f, ok := d.(compat.Follower); ok {
			return append(out, compat.Kind{GroupVersionKind: kindAgent, Object: &v1alpha1.Agent{}, Without: f.Without()})
		}
	}
	if c.needAgents() || c.agents {
		out = append(out, compat.Kind{GroupVersionKind: kindAgent, Object: &v1alpha1.Agent{},
			Without: "addresses that nodes have, and no Node lists, are not refused, and Services do not say which addresses nobody announces"})
	}
	return out
}

func needsNative(cfg *config.Configuration) bool {
	return slices.ContainsFunc(cfg.Classes, func(c config.Class) bool { return slices.Equal(c.Pools, []lb.Dialect{lb.Native}) })
}

// kindChanges makes changes of a kind that are worth it, and its arrival, one reconcile
// of all objects together.
func kindChanges(kinds readable, kind schema.GroupVersionKind, worth func(before, after client.Object) bool) source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		all := func() { queue.Add(reconcile.Request{}) }
		return kinds.Follow(kind, apikinds.Follower{Came: all, Changed: func(before, after client.Object) {
			if before == nil || after == nil || worth(before, after) {
				all()
			}
		}})
	})
}
