package agent

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// deathReporters is how many agents report that another one is lost: a death costs
	// as many writes, whatever the number of agents, and two of them may die as well.
	deathReporters = 3
	maxLost        = 1000
)

// countMembers notes which agents are alive, and which are lost: their nodes are in
// the cluster, and they have died or were lost before this agent started. An agent
// that has left is not lost.
func (a *agent) countMembers(nodes []corev1.Node) {
	var roster []string
	lost := sets.New[string]()
	for i := range nodes {
		name := nodes[i].Name
		if _, alive := a.members[name]; alive {
			continue
		}
		if _, died := a.diedAt(name); died || a.lostNodes.Has(name) {
			lost.Insert(name)
		}
	}
	for i := range a.voters {
		if a.voters[i].Alive && !a.voters[i].Leaving {
			roster = append(roster, a.voters[i].Name)
		}
	}
	slices.Sort(roster)
	if !slices.Equal(roster, a.roster) || !lost.Equal(a.lostNodes) {
		a.roster, a.lostNodes, a.reportDirty = roster, lost, true
		clear(a.speaking)
	}
}

// reportLost returns the lost agents that this one reports.
func (a *agent) reportLost() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(a.lostNodes)) {
		if len(out) < maxLost && chosen(a.node, name, a.roster, deathReporters) {
			out = append(out, name)
		}
	}
	return out
}
