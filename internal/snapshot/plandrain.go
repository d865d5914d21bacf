package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/prose"
)

// PlanDrain predicts what cordoning a node and evicting its pods does.
func (s *Snapshot) PlanDrain(ctx context.Context, node string) (*Plan, error) {
	if err := s.predictable(); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(s.Nodes, func(n corev1.Node) bool { return n.Name == node })
	if i < 0 {
		return nil, fmt.Errorf("there is no node %s; there are %s", node, cmp.Or(prose.Few(nodeNames(s.Nodes)), "none"))
	}
	drained := s.Nodes[i].DeepCopy()
	drained.Spec.Unschedulable = true
	changed := []client.Object{drained}
	var slicesOf discoveryv1.EndpointSliceList
	if err := s.objects.List(ctx, &slicesOf); err != nil {
		return nil, err
	}
	for i := range slicesOf.Items {
		slice := &slicesOf.Items[i]
		on := func(e discoveryv1.Endpoint) bool { return e.NodeName != nil && *e.NodeName == node && !s.stay(e) }
		if slices.ContainsFunc(slice.Endpoints, on) {
			slice = slice.DeepCopy()
			slice.Endpoints = slices.DeleteFunc(slice.Endpoints, on)
			changed = append(changed, slice)
		}
	}
	p, err := s.plan(ctx, "drain node "+node, changed, nil)
	if err != nil {
		return nil, err
	}
	p.Skipped = append(p.Skipped, "pods of the node: the scheduler decides where they start again, and with externalTrafficPolicy: Local addresses follow them")
	if servesOVN(s.Config) {
		p.Skipped = append(p.Skipped, "gateways of OVN's routers on the node: OVN decides which node gets them")
	}
	return p, nil
}

// readStays reads which pods of the drained node a drain leaves: those of DaemonSets, and static
// ones.
func (s *Snapshot) readStays(ctx context.Context, c client.Client) error {
	if s.options.Drained == "" || s.cannot("pods") {
		return nil
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{"spec.nodeName": s.options.Drained}); err != nil {
		return fmt.Errorf("list pods of node %s: %w", s.options.Drained, err)
	}
	s.leave(pods.Items)
	return nil
}

// leave notes which of these pods a drain leaves.
func (s *Snapshot) leave(pods []corev1.Pod) {
	s.stays = map[client.ObjectKey]bool{}
	for i := range pods {
		owner := metav1.GetControllerOf(&pods[i])
		_, static := pods[i].Annotations[corev1.MirrorPodAnnotationKey]
		if static || owner != nil && owner.Kind == "DaemonSet" {
			s.stays[client.ObjectKeyFromObject(&pods[i])] = true
		}
	}
}

// stay says whether an endpoint is a pod that a drain leaves.
func (s *Snapshot) stay(e discoveryv1.Endpoint) bool {
	return e.TargetRef != nil && e.TargetRef.Kind == "Pod" && s.stays[client.ObjectKey{Namespace: e.TargetRef.Namespace, Name: e.TargetRef.Name}]
}
