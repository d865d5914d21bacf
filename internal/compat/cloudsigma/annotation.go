package cloudsigma

import (
	"slices"
	"strings"

	"fairlead.io/internal/lb"
)

// AnnotationPool says from which addresses of the account the Service gets one:
// static are those with a subscription, dynamic the others. A Service that has an
// address keeps it when the annotation changes; fairlead.io/reallocate: "true" moves
// it.
//
// Type: static or dynamic
// Default: static
// Impact: none for a Service that has an address
const AnnotationPool = "cloudsigma.com/ip-pool"

// The two pools.
const (
	Static  = "static"
	Dynamic = "dynamic"
)

// Pool is the pool that s asks for, "" if it does not say. An unknown one counts as
// static; unknown is then what is written there.
func Pool(s *lb.Service) (pool, unknown string) {
	value, given := s.Annotations[AnnotationPool]
	switch pool = strings.ToLower(strings.TrimSpace(value)); {
	case !given:
		return "", ""
	case slices.Contains([]string{Static, Dynamic}, pool):
		return pool, ""
	case pool == "":
		return Static, `""`
	}
	return Static, value
}
