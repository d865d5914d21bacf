package controller

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
)

// agentOf is the object of an agent that has lost others.
func agentOf(node string, works bool, lost ...string) v1alpha1.Agent {
	status := metav1.ConditionTrue
	if !works {
		status = metav1.ConditionFalse
	}
	return v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: node},
		Status: v1alpha1.AgentStatus{Lost: lost, Conditions: []metav1.Condition{{Type: conditionAgentReady, Status: status}}}}
}

func nodeOf(name string, ready corev1.ConditionStatus) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func TestLiving(t *testing.T) {
	yes, no := corev1.ConditionTrue, corev1.ConditionUnknown
	all := []corev1.Node{nodeOf("a", yes), nodeOf("b", yes), nodeOf("c", yes), nodeOf("d", yes)}
	for name, test := range map[string]struct {
		agents []v1alpha1.Agent
		nodes  []corev1.Node
		lost   map[string]bool
	}{
		"nobody":                        {[]v1alpha1.Agent{agentOf("a", true), agentOf("b", false)}, all, map[string]bool{}},
		"one, said by one":              {[]v1alpha1.Agent{agentOf("a", true, "b"), agentOf("b", true)}, all, map[string]bool{"b": true}},
		"a dead one's words":            {[]v1alpha1.Agent{agentOf("a", true, "b"), agentOf("b", true, "c"), agentOf("c", true)}, all, map[string]bool{"b": true}},
		"words of one that is NotReady": {[]v1alpha1.Agent{agentOf("a", true, "b"), agentOf("b", true)}, []corev1.Node{nodeOf("a", no), nodeOf("b", yes)}, map[string]bool{}},
		"two have lost each other":      {[]v1alpha1.Agent{agentOf("a", true, "b"), agentOf("b", true, "a")}, all, map[string]bool{}},
		"one against two":               {[]v1alpha1.Agent{agentOf("a", true, "b"), agentOf("b", true, "a", "c"), agentOf("c", true, "b")}, all, map[string]bool{"b": true}},
		"itself":                        {[]v1alpha1.Agent{agentOf("a", true, "a")}, all, map[string]bool{}},
	} {
		if diff := cmp.Diff(test.lost, livingOf(test.agents, test.nodes).lost); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	l := livingOf([]v1alpha1.Agent{agentOf("a", true), agentOf("b", false)}, all)
	if diff := cmp.Diff(map[string]bool{"a": true, "b": false}, l.works); diff != "" {
		t.Error(diff)
	}
}
