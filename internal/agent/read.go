package agent

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/dhcplease"
	"fairlead.io/internal/agent/sources"
)

// absorb takes over changes from the API server.
func (a *agent) absorb(c changes) {
	ctx := a.background // reads of a cache in memory
	if c.agent {
		a.readOwn(ctx)
	}
	if c.leases != nil {
		a.leases.SetReported(c.leases.leases, c.leases.asked)
	}
	pools := c.pools || c.allServices || c.nodes && a.sources.NodesMatter()
	if pools {
		a.readPools(ctx)
	}
	if c.allServices {
		var list corev1.ServiceList
		if a.cluster.List(ctx, &list) == nil {
			for i := range list.Items {
				a.readService(client.ObjectKeyFromObject(&list.Items[i]))
			}
		}
	}
	for key := range c.services {
		a.readService(key)
	}
	for key := range c.slices {
		a.readSlice(ctx, key)
	}
	// Last: the limit of a pool is found by the Services of an address.
	if pools {
		a.tellHeld()
	} else if len(c.services) > 0 {
		a.tellDirty()
	}
	a.membersDirty = a.membersDirty || c.nodes
	a.observer.Read(c.count())
}

// readOwn takes over what this node's Agent object says.
func (a *agent) readOwn(ctx context.Context) {
	var own v1alpha1.Agent
	switch err := a.cluster.Get(ctx, types.NamespacedName{Name: a.node}, &own); {
	case err == nil:
		a.reporter.observe(&own)
	case apierrors.IsNotFound(err):
		a.reporter.observe(nil)
	}
}

// readPools takes over all pools.
func (a *agent) readPools(ctx context.Context) {
	pools, err := a.sources.Pools(ctx)
	if err != nil {
		return
	}
	a.directory.pools = pools
	clear(a.scope.named)
	a.scope.name(pools.Interfaces)
	for key := range a.directory.services {
		a.nameInterface(key)
	}
	a.observer.Configured(pools.Configurations)
	a.allDirty, a.linksDirty, a.presenceDirty, a.routesDirty, a.reportDirty = true, true, true, true, true
}

// readService takes over what a Service says now.
func (a *agent) readService(key types.NamespacedName) {
	var s corev1.Service
	if err := a.cluster.Get(a.background, key, &s); err != nil {
		a.noticeService(nil)
		a.setService(key, nil)
		return
	}
	a.noticeService(&s)
	a.setService(key, a.sources.Service(&s))
}

func (a *agent) readSlice(ctx context.Context, key types.NamespacedName) {
	var s *discoveryv1.EndpointSlice
	var found discoveryv1.EndpointSlice
	if err := a.cluster.Get(ctx, key, &found); err == nil {
		s = &found
	}
	a.touch(a.directory.setSlice(key, s)...)
}

// setService takes over a Service; nil is one that is gone or not ours.
func (a *agent) setService(key types.NamespacedName, s *sources.Service) {
	var want *dhcplease.Want
	if s != nil {
		want = s.Lease
	}
	a.leases.Set(key, want)
	if was := a.directory.services[key]; was != nil && s == nil {
		delete(a.moving, was.Request.UID)
	}
	a.touch(a.directory.setService(key, s)...)
	a.nameInterface(key)
}

// nameInterface has an interface be used that an administrator names for a Service,
// though it be excluded. What only the Service names is used unless it is excluded.
func (a *agent) nameInterface(key types.NamespacedName) {
	if o := a.directory.services[key]; o != nil && o.Named && !a.scope.named[o.Interface] {
		a.scope.name([]string{o.Interface})
		a.linksDirty = true
	}
}
