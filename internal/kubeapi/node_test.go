package kubeapi

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodeExcluded(t *testing.T) {
	for value, want := range map[string]bool{"": true, "true": true, "whatever": true, "false": false, "0": false} {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelNodeExcludeBalancers: value}}}
		if got := NodeExcluded(n); got != want {
			t.Errorf("%q: excluded %t, want %t", value, got, want)
		}
	}
	if NodeExcluded(&corev1.Node{}) {
		t.Error("a node without the label is excluded")
	}
}

func TestNodeDraining(t *testing.T) {
	for key, want := range map[string]bool{"ToBeDeletedByClusterAutoscaler": true, "ToBeDeletedByClusterAutoscaler-not": false, "": false} {
		n := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: key}}}}
		if got := NodeDraining(n); got != want {
			t.Errorf("taint %q: draining %t, want %t", key, got, want)
		}
	}
	now := metav1.Now()
	if !NodeDraining(&corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}) {
		t.Error("a node that is being deleted stays")
	}
}

func TestNodeReady(t *testing.T) {
	for status, want := range map[corev1.ConditionStatus]bool{corev1.ConditionTrue: true, corev1.ConditionFalse: false, corev1.ConditionUnknown: false} {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
		if got := NodeReady(n); got != want {
			t.Errorf("%s: ready %t, want %t", status, got, want)
		}
	}
	if NodeReady(&corev1.Node{}) {
		t.Error("a node that has said nothing is ready")
	}
}
