package controller

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/lb"
)

// pools tells the ledger about all pools whenever one of them changes.
type pools struct {
	poolSources
	ledger *ledger
	agents *agents
}

func (c *pools) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var err error
	c.ledger.do(func(a *ipam.Allocator) []types.NamespacedName {
		var all []lb.Pool
		before, unread := c.kubevip.state()
		if all, err = c.read(ctx); err != nil {
			return nil
		}
		changed := c.readAnew(ctx, a, all, before, unread)
		return append(changed, a.SetPools(all)...)
	})
	return reconcile.Result{}, err
}

// readAnew reads Services again if kube-vip's ConfigMap says something else about
// them than before. That is between the pools that it had and those that it has:
// else who waits would have an address of the new ones by what he asked for before,
// or one of the old ones by what he asks for now.
func (c *pools) readAnew(ctx context.Context, a *ipam.Allocator, all []lb.Pool, before *kubevip.Config, unread string) (changed []types.NamespacedName) {
	now, cannot := c.kubevip.state()
	if now == nil || !c.ledger.isImported() || now.SameForServices(before) && cannot == unread {
		return nil
	}
	var services corev1.ServiceList
	var namespaces corev1.NamespaceList
	if c.cache.List(ctx, &services, client.UnsafeDisableDeepCopy) != nil || c.cache.List(ctx, &namespaces, client.UnsafeDisableDeepCopy) != nil {
		return nil // never, the cache is filled; they are all in the queue anyway
	}
	changed = a.SetPools(slices.DeleteFunc(slices.Clone(all), func(p lb.Pool) bool { return p.Key.Dialect == lb.KubeVIP }))
	labels := map[string]map[string]string{}
	for i := range namespaces.Items {
		labels[namespaces.Items[i].Name] = namespaces.Items[i].Labels
	}
	for i := range services.Items {
		s := &services.Items[i]
		class := servedBy(c.config, s)
		_, known := a.Verdict(client.ObjectKeyFromObject(s))
		if class == nil || !known || s.DeletionTimestamp != nil || !slices.Contains(class.Pools, lb.KubeVIP) {
			continue
		}
		r, _ := c.kubevip.requestOf(s, class, labels[s.Namespace])
		r.Leased = c.agents.leased(s)
		_, others := a.Settle(r, nil)
		changed = append(changed, others...)
	}
	return changed
}

// poolSources are where pools are from.
type poolSources struct {
	cache   client.Reader
	config  *config.Configuration
	kinds   *optional
	foreign *foreign    // nil if no class uses pools of MetalLB's kinds
	kubevip *kubevipMap // nil if no class uses pools of kube-vip's ConfigMap
}

func (p *poolSources) read(ctx context.Context) ([]lb.Pool, error) {
	var list v1alpha1.PoolList
	if _, lacking := p.kinds.lacks(kindNativePool); p.config.Uses(lb.Native) && !lacking {
		if err := p.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list pools: %w", err)
		}
	}
	out := make([]lb.Pool, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, native.Pool(&list.Items[i]))
	}
	more, err := p.kubevip.read(ctx, p.cache)
	if err != nil {
		return nil, err
	}
	out = append(out, more...)
	if p.foreign == nil {
		return out, nil
	}
	objects, err := p.foreign.read(ctx, p.cache)
	if err != nil {
		return nil, err
	}
	theirs, _ := objects.Translate()
	return append(out, theirs...), nil
}

// nodes tells the ledger which addresses belong to nodes.
type nodes struct {
	cache  client.Reader
	ledger *ledger
	told   map[netip.Addr]string
}

func (c *nodes) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	all, err := readNodes(ctx, c.cache)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !maps.Equal(all, c.told) {
		c.told = all
		c.ledger.setNodes(all)
	}
	return reconcile.Result{}, nil
}

func readNodes(ctx context.Context, cache client.Reader) (map[netip.Addr]string, error) {
	var list corev1.NodeList
	if err := cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	out := map[netip.Addr]string{}
	for _, n := range list.Items {
		for _, text := range n.Status.Addresses {
			if a, err := lb.ParseAddr(text.Address); err == nil {
				out[a] = n.Name
			}
		}
	}
	return out, nil
}

// nodeAddressesChanged passes over the heartbeats in Node objects.
var nodeAddressesChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return ok1 && ok2 && !maps.Equal(addressSet(before), addressSet(after))
	},
}

// nodeReadyChanged passes on nodes that are lost, or back.
var nodeReadyChanged = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok1 := e.ObjectOld.(*corev1.Node)
		after, ok2 := e.ObjectNew.(*corev1.Node)
		return ok1 && ok2 && lb.NodeReady(before) != lb.NodeReady(after)
	},
}

func addressSet(n *corev1.Node) map[string]bool {
	out := map[string]bool{}
	for _, a := range n.Status.Addresses {
		out[a.Address] = true
	}
	return out
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
