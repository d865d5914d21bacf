package kubeapi

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
)

// drainTaint is set on a node before the cluster autoscaler removes it.
const drainTaint = "ToBeDeletedByClusterAutoscaler"

// Node returns n as a value. It shares the object's maps.
func Node(n *corev1.Node) lb.Node {
	out := lb.Node{
		Name:       n.Name,
		ProviderID: n.Spec.ProviderID,
		Labels:     n.Labels,
		Ready:      NodeReady(n),
		Receives:   !NodeExcluded(n) && !NodeDraining(n),
		Cordoned:   n.Spec.Unschedulable,
	}
	for _, address := range n.Status.Addresses {
		if a, err := lb.ParseAddr(address.Address); err == nil {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out
}

// NodeExcluded says whether a node's label keeps it out of load balancing, by the
// rule of all cloud controllers: the label is present, and its value is not false.
func NodeExcluded(n *corev1.Node) bool {
	v, labelled := n.Labels[corev1.LabelNodeExcludeBalancers]
	if !labelled {
		return false
	}
	excluded, err := strconv.ParseBool(v)
	return err != nil || excluded
}

// NodeDraining says whether a node is about to go: somebody has deleted it, or the
// cluster autoscaler is about to.
func NodeDraining(n *corev1.Node) bool {
	return n.DeletionTimestamp != nil ||
		slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == drainTaint })
}

// shuttingDown is what kubelet says in the condition Ready when the machine is told to stop.
const shuttingDown = "node is shutting down"

// NodeDeparting says whether a node is about to go, or gone for good: it is draining, an
// administrator has marked it as out of service, or the machine is shutting down. Taints that
// keep pods away for other reasons, or that say that kubelet is not heard, do not count.
func NodeDeparting(n *corev1.Node) bool {
	return NodeDraining(n) ||
		slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) ||
		slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, shuttingDown)
		})
}

// NodeReady says whether the API server hears from the node's kubelet.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
