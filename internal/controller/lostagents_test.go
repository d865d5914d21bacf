package controller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// An agent that cannot be written does not keep others from being marked.
func TestMarkLostGoesOn(t *testing.T) {
	var list []v1alpha1.Agent
	var nodes []corev1.Node
	lost := map[string]lb.Reason{}
	for _, name := range []string{"a", "b", "c"} {
		list = append(list, v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1alpha1.AgentStatus{Conditions: []metav1.Condition{{Type: agentReady, Status: metav1.ConditionTrue, Reason: "AgentReady"}}}})
		nodes = append(nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		lost[name] = lb.AgentUnheard.With()
	}
	bad := errors.New("its status is not valid")
	written := map[string]bool{}
	objects := interceptor.NewClient(objectsOf(t).(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
			written[o.GetName()] = true
			if o.GetName() == "a" {
				return bad
			}
			return nil
		}})
	a := &agents{client: objects, kube: fake.NewClientset()}
	if err := a.markLost(t.Context(), list, nodes, lost); !errors.Is(err, bad) {
		t.Errorf("it says %v", err)
	}
	if len(written) != 3 {
		t.Errorf("marked: %v", written)
	}
}
