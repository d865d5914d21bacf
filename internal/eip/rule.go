package eip

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/lb"
)

// Rule has changed; nil is that it is gone. It returns the OvnEips that it is, or was,
// about.
func (b *Book) Rule(name string, r *kubeovn.OvnDnatRule) (ovnEips []string) {
	if old := b.rules[name]; old != nil {
		b.rulesOf.remove(old.Spec.OvnEip, name)
		delete(b.rules, name)
		ovnEips = append(ovnEips, old.Spec.OvnEip)
	}
	if r != nil && r.DeletionTimestamp == nil {
		b.rules[name] = r
		b.rulesOf.add(r.Spec.OvnEip, name)
		ovnEips = append(ovnEips, r.Spec.OvnEip)
	}
	return ovnEips
}

// rulesFor are those of some OvnEips, sorted by name. One that has no port has none of
// ours.
func (b *Book) rulesFor(ovnEips map[string]*kubeovn.OvnEip) map[string][]Rule {
	if len(b.rules) == 0 {
		return nil
	}
	out := map[string][]Rule{}
	for ovnEip := range ovnEips {
		for _, name := range slices.Sorted(maps.Keys(b.rulesOf[ovnEip])) {
			spec := b.rules[name].Spec
			if number, err := strconv.ParseUint(spec.ExternalPort, 10, 16); err == nil {
				out[ovnEip] = append(out[ovnEip], Rule{name, lb.Port{Protocol: strings.ToUpper(spec.Protocol), Number: uint16(number)}})
			}
		}
	}
	return out
}
