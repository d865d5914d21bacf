package controller

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/backend/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
)

// finalizerPatch makes s wait, once deleted, for its load balancer to go. If it
// became another type meanwhile, its class would be gone with it: so it also says
// that it was ours.
func finalizerPatch(s *corev1.Service) []byte {
	metadata := map[string]any{"finalizers": []string{Finalizer}}
	_, known := s.Annotations[compat.AnnotationUUID]
	_, ours := s.Annotations[compat.AnnotationConfigVersion]
	if s.Spec.LoadBalancerClass != nil && !known && !ours {
		metadata["annotations"] = map[string]any{compat.AnnotationConfigVersion: strconv.Itoa(int(compat.VersionCurrent))}
	}
	return marshalPatch(s, metadata, nil)
}

// cloudPatch is the one patch of s's status subresource that makes s say what out
// says, or nil if it does already.
func cloudPatch(s *corev1.Service, out cloudscale.Outcome, now time.Time) []byte {
	metadata, status := map[string]any{}, map[string]any{}
	annotations := map[string]any{}
	for name, value := range out.Annotations {
		if have, ok := s.Annotations[name]; !ok || have != value {
			annotations[name] = value
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if out.Ingress != nil && !equality.Semantic.DeepEqual(s.Status.LoadBalancer.Ingress, out.Ingress) {
		status["loadBalancer"] = map[string]any{"ingress": out.Ingress}
	}
	if !saysReason(s, out.Reason) {
		status["conditions"] = []metav1.Condition{condition(s, out.Reason, now)}
	}
	return marshalPatch(s, metadata, status)
}

// cleanPatch takes everything of ours off s, whose load balancer is gone. The
// condition of a Service that lives on goes with its next status (releasePatch).
func cleanPatch(s *corev1.Service) []byte {
	metadata := map[string]any{}
	if slices.Contains(s.Finalizers, Finalizer) {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{Finalizer}
	}
	annotations := map[string]any{}
	for _, name := range []string{compat.AnnotationUUID, compat.AnnotationConfigVersion} {
		if _, ok := s.Annotations[name]; ok {
			annotations[name] = nil
		}
	}
	if len(annotations) > 0 && s.DeletionTimestamp == nil {
		metadata["annotations"] = annotations
	}
	return marshalPatch(s, metadata, nil)
}
