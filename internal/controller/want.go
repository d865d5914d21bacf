package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// complete adds to a want what the backend needs of the cluster.
func (c *services) complete(ctx context.Context, w *lb.Want) error {
	needs := c.backend.needs()
	if needs.Nodes {
		var nodes corev1.NodeList
		if err := c.cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		for i := range nodes.Items {
			n := kubeapi.Node(&nodes.Items[i])
			if needs.Agents {
				n.Agent, n.Lost = c.agents.on(n.Name)
			}
			w.Nodes = append(w.Nodes, n)
		}
		slices.SortFunc(w.Nodes, func(a, b lb.Node) int { return strings.Compare(a.Name, b.Name) })
	}
	if needs.Endpoints {
		var list discoveryv1.EndpointSliceList
		if err := c.cache.List(ctx, &list, client.InNamespace(w.Service.Key.Namespace),
			client.MatchingFields{indexService: w.Service.Key.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list endpoint slices: %w", err)
		}
		w.Endpoints = kubeapi.Endpoints(list.Items)
	}
	if needs.Peers {
		peers, err := c.served(ctx)
		if err != nil {
			return err
		}
		w.Peers, w.Lives = peers, c.lives(ctx)
	}
	return nil
}

// served are all Services of the backend's classes, sorted by namespace and name. It
// runs at every look of a backend that needs its peers.
func (c *services) served(ctx context.Context) (out []lb.Service, err error) {
	var list corev1.ServiceList
	if err := c.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	ours := make([]*lb.Service, 0, len(list.Items))
	for i := range list.Items {
		if list.Items[i].Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		s := kubeapi.Service(&list.Items[i])
		if class := c.classes.of(s); class != nil && class.Backend == c.name {
			ours = append(ours, s)
		}
	}
	slices.SortFunc(ours, func(a, b *lb.Service) int {
		return cmp.Or(strings.Compare(a.Key.Namespace, b.Key.Namespace), strings.Compare(a.Key.Name, b.Key.Name))
	})
	out = make([]lb.Service, len(ours))
	for i := range ours {
		out[i] = *ours[i]
	}
	return out, nil
}

// lives finds a Service by its UID. If that cannot be read, every Service lives.
func (c *services) lives(ctx context.Context) func(types.UID) (types.NamespacedName, bool) {
	return func(uid types.UID) (types.NamespacedName, bool) {
		var list corev1.ServiceList
		if err := c.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
			return types.NamespacedName{}, true
		}
		for i := range list.Items {
			if s := &list.Items[i]; s.UID == uid {
				return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, true
			}
		}
		return types.NamespacedName{}, false
	}
}

// all are the names of those Services.
func (c *services) all(ctx context.Context) []types.NamespacedName {
	services, err := c.served(ctx)
	if err != nil {
		return nil // the cache is not filled yet; then every Service is still to come
	}
	out := make([]types.NamespacedName, len(services))
	for i := range services {
		out[i] = services[i].Key
	}
	return out
}
