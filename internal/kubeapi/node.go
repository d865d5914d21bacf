package kubeapi

import (
	"slices"
	"strconv"

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
		Receives:   n.DeletionTimestamp == nil && !Excluded(n) && !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == drainTaint }),
	}
	for _, address := range n.Status.Addresses {
		if a, err := lb.ParseAddr(address.Address); err == nil {
			out.Addresses = append(out.Addresses, a)
		}
	}
	return out
}

// NodeReady says whether the kubelet of a node is heard of.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Excluded says whether n is excluded from load balancers by its label, with any
// value but one that means false.
func Excluded(n *corev1.Node) bool {
	v, labelled := n.Labels[corev1.LabelNodeExcludeBalancers]
	if !labelled {
		return false
	}
	excluded, err := strconv.ParseBool(v)
	return err != nil || excluded
}
