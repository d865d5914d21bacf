package metallb

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// OldAnnotations lists the annotations of s that have MetalLB's prefix of old,
// and what to use in their place; both are empty if there are none.
func OldAnnotations(s *corev1.Service) (old, use string) {
	var names []string
	for key := range s.Annotations {
		if name, ok := strings.CutPrefix(key, "metallb.universe.tf/"); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", ""
	}
	slices.Sort(names)
	prefixed := func(prefix string) string { return prefix + strings.Join(names, " and "+prefix) }
	return prefixed("metallb.universe.tf/"), prefixed("metallb.io/")
}
