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
	for i := range a.voters { // without gossip, by the conditions of Nodes
		if n := &a.voters[i]; a.group == nil && n.Alive && !n.Leaving {
			roster = append(roster, n.Name)
		}
	}
	for i := range nodes {
		name := nodes[i].Name
		m, alive := a.members[name]
		_, died := a.diedAt(name)
		switch {
		case alive && a.group != nil && !m.Leaving:
			roster = append(roster, name)
		case !alive && (died || a.lostNodes.Has(name)):
			lost.Insert(name)
		}
	}
	slices.Sort(roster)
	if !slices.Equal(roster, a.roster) || !lost.Equal(a.lostNodes) {
		a.roster, a.lostNodes, a.reportDirty = roster, lost, true
		clear(a.speaking)
	}
}

// reportLost returns the lost agents that this one reports. One that has lost all of
// several others cannot tell whether they are lost, or it is itself: it reports no more
// than before.
func (a *agent) reportLost() (out []string) {
	alone := len(a.roster) <= 1 && len(a.lostNodes) > 1
	for _, name := range slices.Sorted(maps.Keys(a.lostNodes)) {
		if len(out) < maxLost && chosen(a.node, name, a.roster, deathReporters) && (!alone || slices.Contains(a.lostReported, name)) {
			out = append(out, name)
		}
	}
	a.lostReported = out
	return out
}
