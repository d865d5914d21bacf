package eip

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// arbitrate decides which of the claims on one address have their ports: the oldest ones
// whose ports no older one has. While another Service still has one of the ports in the
// database, they wait for it to go. If two of different namespaces came to have one at the
// same time, the older one keeps it.
func (v *View) arbitrate(group []*record, rules []Rule) {
	taken := map[lb.Port]types.NamespacedName{}
	inDatabase := map[lb.Port][]types.NamespacedName{}
	var claims []*bound
	for _, r := range group {
		for _, b := range r.claims {
			if _, listed := b.lost[group[0]]; !listed {
				b.lost[group[0]] = nil
				claims = append(claims, b)
			}
		}
		for _, row := range r.rows {
			for _, p := range row.Ports {
				inDatabase[p] = append(inDatabase[p], row.Service)
			}
		}
	}
	slices.SortFunc(claims, func(a, b *bound) int { return olderClaim(a.Claim, b.Claim) })
	for _, b := range claims {
		ports, key := b.Service.PortList(), b.Service.Key
		older := func(p lb.Port) (holder types.NamespacedName, ok bool) { holder, ok = taken[p]; return }
		has := func(p lb.Port) bool { return slices.Contains(inDatabase[p], key) }
		still := func(p lb.Port) (types.NamespacedName, bool) {
			i := slices.IndexFunc(inDatabase[p], func(s types.NamespacedName) bool {
				return s != key && (!has(p) || v.Others[s] != nil && olderClaim(Claim{Service: v.Others[s]}, b.Claim) < 0)
			})
			if i < 0 {
				return types.NamespacedName{}, false
			}
			return inDatabase[p][i], true
		}
		reason := conflict(group[0], ports, older)
		if reason == nil {
			for _, p := range ports {
				taken[p] = key
			}
			reason = conflict(group[0], ports, still)
		}
		if reason == nil {
			reason = ruled(group[0], ports, rules, has)
		}
		for _, r := range group {
			b.lost[r] = reason
		}
	}
}

// ruled is the conflict with an OvnDnatRule. A Service that has the port already keeps it.
func ruled(r *record, ports []lb.Port, rules []Rule, has func(lb.Port) bool) *lb.Reason {
	for _, p := range ports {
		i := slices.IndexFunc(rules, func(rule Rule) bool { return rule.Port == p })
		if i >= 0 && !has(p) {
			reason := Reasons.With(EIpTaken, r.object.Name, "OvnDnatRule", rules[i].Name, fmt.Sprintf(" for %s %d", p.Protocol, p.Number))
			return &reason
		}
	}
	return nil
}

func conflict(r *record, ports []lb.Port, holder func(lb.Port) (types.NamespacedName, bool)) *lb.Reason {
	for _, p := range ports {
		if other, ok := holder(p); ok {
			reason := Reasons.With(PortConflict, fmt.Sprintf("%s %d", p.Protocol, p.Number), r.object.Name, other)
			return &reason
		}
	}
	return nil
}
