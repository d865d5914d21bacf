package agent

import (
	"slices"
	"strings"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Kinds of what this agent may refuse.
const (
	kindPeer          = "BGPPeer"
	kindAdvertisement = "BGPAdvertisement"
)

// maxRefused is how many objects the Agent object has that are refused.
const maxRefused = 32

// reportUnused returns what of BGP this node does not use, as the Agent object has it. What
// every agent finds alike is reported by one of them: peers whose Secret cannot be used, which
// the controller does not read, and objects that go on as they were. What depends on the node, and on the Services that it serves,
// is reported by each: routes that contradict older ones.
func (a *agent) reportUnused() []v1alpha1.Refused {
	found := map[[2]string]lb.Reason{}
	note := func(kind, name string, why lb.Reason) {
		// Of several about one object the first by its text counts, whatever the order.
		if have, twice := found[[2]string{kind, name}]; !twice || why.Text < have.Text {
			found[[2]string{kind, name}] = why
		}
	}
	for _, r := range a.routed {
		for _, f := range r.refused {
			note(kindAdvertisement, f.Route, f.Reason)
		}
	}
	if a.directory.pools != nil && a.speaks() {
		for _, c := range a.directory.pools.Configurations {
			for _, p := range c.Problems {
				if (p.Kind == kindPeer || p.Kind == kindAdvertisement) && !p.Reason.Ready() {
					note(p.Kind, p.Name, p.Reason)
				}
			}
		}
	}
	var out []v1alpha1.Refused
	for of, why := range found {
		out = append(out, v1alpha1.Refused{Kind: of[0], Name: of[1], Reason: string(why.Code), Message: prose.Cut(why.Text, maxMessage)})
	}
	slices.SortFunc(out, func(x, y v1alpha1.Refused) int {
		return strings.Compare(x.Kind+"/"+x.Name, y.Kind+"/"+y.Name)
	})
	return out[:min(len(out), maxRefused)]
}
