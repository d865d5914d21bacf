package kubeapi

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/lb"
)

func TestNode(t *testing.T) {
	n := parse[corev1.Node](t, `
metadata: {name: worker-1, labels: {zone: a}}
spec: {providerID: "cloud://1"}
status:
  addresses: [{type: InternalIP, address: 10.0.0.1}, {type: InternalIP, address: "fd00::1"}, {type: Hostname, address: worker-1}]
  conditions: [{type: Ready, status: "True"}]
`)
	want := lb.Node{Name: "worker-1", ProviderID: "cloud://1", Labels: map[string]string{"zone": "a"},
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}, Ready: true, Receives: true}
	if diff := cmp.Diff(want, Node(n), compareAddrs); diff != "" {
		t.Error(diff)
	}
	for name, edit := range map[string]func(*corev1.Node){
		"excluded":   func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "" },
		"draining":   func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: drainTaint}} },
		"going away": func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} },
	} {
		o := n.DeepCopy()
		if edit(o); Node(o).Receives || !Node(o).Ready {
			t.Errorf("%s: %+v", name, Node(o))
		}
	}
	n.Status.Conditions = nil
	if got := Node(n); got.Ready || !got.Receives {
		t.Errorf("not ready: %+v", got)
	}
}

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

func TestNodeDeparting(t *testing.T) {
	ready := func(status corev1.ConditionStatus, message string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Message: message}}
		}
	}
	tainted := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoExecute}} }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"cordoned":             {func(n *corev1.Node) { n.Spec.Unschedulable = true }, false},
		"by the autoscaler":    {tainted(drainTaint), true},
		"out of service":       {tainted(corev1.TaintNodeOutOfService), true},
		"not heard":            {tainted(corev1.TaintNodeUnreachable), false},
		"for some pods":        {tainted("dedicated"), false},
		"shutting down":        {ready(corev1.ConditionFalse, "[container runtime is down, node is shutting down]"), true},
		"not ready":            {ready(corev1.ConditionFalse, "container runtime is down"), false},
		"ready, whatever said": {ready(corev1.ConditionTrue, "node is shutting down"), false},
	} {
		n := &corev1.Node{}
		c.change(n)
		if got := NodeDeparting(n); got != c.want {
			t.Errorf("%s: departing %t", name, got)
		}
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
