package controller

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/kubeapi"
)

// nodes tells the ledger which addresses belong to nodes.
type nodes struct {
	cache  client.Reader
	ledger *ledger
	last   map[netip.Addr]string
}

func (c *nodes) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	all, err := readNodes(ctx, c.cache)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !maps.Equal(all, c.last) {
		c.last = all
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
	for i := range list.Items {
		n := kubeapi.Node(&list.Items[i])
		for _, a := range n.Addresses {
			out[a] = n.Name
		}
	}
	return out, nil
}

// nodeChanged passes on changes of Nodes in which differs says that before and after
// differ, and passes over heartbeats.
func nodeChanged(differs func(before, after *corev1.Node) bool) predicate.Funcs {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*corev1.Node)
			after, ok2 := e.ObjectNew.(*corev1.Node)
			return ok1 && ok2 && differs(before, after)
		},
	}
}

var (
	nodeAddressesChanged = nodeChanged(func(before, after *corev1.Node) bool {
		return !slices.Equal(kubeapi.Node(before).Addresses, kubeapi.Node(after).Addresses)
	})

	// nodeReadyChanged passes on nodes that are lost, or back.
	nodeReadyChanged = nodeChanged(func(before, after *corev1.Node) bool {
		return kubeapi.NodeReady(before) != kubeapi.NodeReady(after)
	})
)

// nodeMembershipChanged: what counts is which nodes there are, what they are in a
// cloud, whether they take traffic, and if ready says so whether they are Ready.
func nodeMembershipChanged(ready bool) predicate.Funcs {
	p := nodeChanged(func(b, a *corev1.Node) bool {
		before, after := kubeapi.Node(b), kubeapi.Node(a)
		return before.ProviderID != after.ProviderID || before.Receives != after.Receives || ready && before.Ready != after.Ready || !maps.Equal(before.Labels, after.Labels) ||
			!slices.Equal(before.Addresses, after.Addresses)
	})
	p.CreateFunc = func(e event.CreateEvent) bool { return !e.IsInInitialList }
	return p
}
