package controller

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"fairlead.io/internal/kubeapi"
)

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
	nodeOwnsChanged = nodeChanged(func(before, after *corev1.Node) bool {
		return !slices.Equal(kubeapi.Node(before).Addresses, kubeapi.Node(after).Addresses) || !slices.Equal(before.Spec.PodCIDRs, after.Spec.PodCIDRs)
	})

	// nodeReadyChanged passes on nodes that are lost, or back.
	nodeReadyChanged = nodeChanged(func(before, after *corev1.Node) bool {
		return kubeapi.NodeReady(before) != kubeapi.NodeReady(after)
	})
)

// nodeMembershipChanged: what counts is which nodes there are, what they are in a
// cloud, and whether they take traffic.
func nodeMembershipChanged() predicate.Funcs {
	p := nodeChanged(func(b, a *corev1.Node) bool {
		before, after := kubeapi.Node(b), kubeapi.Node(a)
		return before.ProviderID != after.ProviderID || before.Receives != after.Receives || !maps.Equal(before.Labels, after.Labels) ||
			!slices.Equal(before.Addresses, after.Addresses)
	})
	p.CreateFunc = func(e event.CreateEvent) bool { return !e.IsInInitialList }
	return p
}
