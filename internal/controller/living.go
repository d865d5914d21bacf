package controller

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/kubeapi"
)

// conditionAgentReady is the condition of an Agent object that says whether it can
// announce.
const conditionAgentReady = "Ready"

// living says of nodes with an agent whether it works, and which agents others have
// lost.
type living struct{ works, lost map[string]bool }

func (l living) equal(o living) bool {
	return maps.Equal(l.works, o.works) && maps.Equal(l.lost, o.lost)
}

// livingOf reads Agent objects. A report of an agent counts as long as its node is
// Ready and nobody has lost it: the object of a dead one says for ever what it saw
// last. Of two that have lost each other, the one is lost that more agents have lost;
// if that is the same, neither.
func livingOf(agents []v1alpha1.Agent, nodes []corev1.Node) living {
	ready := map[string]bool{}
	for i := range nodes {
		ready[nodes[i].Name] = kubeapi.NodeReady(&nodes[i])
	}
	out := living{works: map[string]bool{}, lost: map[string]bool{}}
	reports := map[string][]string{} // by the lost node, who says so
	for i := range agents {
		a := &agents[i]
		c := meta.FindStatusCondition(a.Status.Conditions, conditionAgentReady)
		out.works[a.Name] = c == nil || c.Status == metav1.ConditionTrue
		if !ready[a.Name] {
			continue
		}
		for _, lost := range a.Status.Lost {
			if lost != a.Name {
				reports[lost] = append(reports[lost], a.Name)
			}
		}
	}
	byReports := slices.SortedFunc(maps.Keys(reports), func(a, b string) int {
		if n := len(reports[b]) - len(reports[a]); n != 0 {
			return n
		}
		if a < b {
			return -1
		}
		return 1
	})
	for _, node := range byReports {
		out.lost[node] = slices.ContainsFunc(reports[node], func(by string) bool {
			mutual := slices.Contains(reports[by], node)
			return !out.lost[by] && !(mutual && len(reports[by]) >= len(reports[node]))
		})
	}
	maps.DeleteFunc(out.lost, func(_ string, lost bool) bool { return !lost })
	return out
}

// on says whether an agent on the node can announce, and whether others have lost it.
func (a *agents) on(node string) (works, lost bool) {
	if a == nil {
		return false, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.living.works[node], a.living.lost[node]
}
