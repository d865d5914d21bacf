package controller

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// conditionAgentReady is the condition of an Agent object that says whether it can
// announce.
const conditionAgentReady = "Ready"

// living says of nodes with an agent whether it can announce, and which agents are
// lost.
type living struct{ works, lost map[string]bool }

func (l living) equal(o living) bool {
	return maps.Equal(l.works, o.works) && maps.Equal(l.lost, o.lost)
}

// livingOf reads Agent objects, of which some are known to be lost.
func livingOf(agents []v1alpha1.Agent, lost map[string]lb.Reason) living {
	out := living{works: map[string]bool{}, lost: map[string]bool{}}
	for i := range agents {
		c := meta.FindStatusCondition(agents[i].Status.Conditions, conditionAgentReady)
		out.works[agents[i].Name] = c == nil || c.Status != metav1.ConditionFalse
	}
	for name := range lost {
		out.lost[name] = true
	}
	return out
}

// on says whether an agent on the node can announce, and whether it is lost.
func (a *agents) on(node string) (works, lost bool) {
	if a == nil {
		return false, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.living.works[node], a.living.lost[node]
}
