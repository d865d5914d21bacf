package cloudsigma

import (
	"slices"
	"strings"

	"fairlead.io/internal/lb"
)

// Annotations that users set on a Service.
const (
	// AnnotationPool requests an address with a subscription (static), or one without
	// (dynamic), which may not be reachable from outside. A Service that has an address
	// keeps it when the annotation changes; fairlead.io/reallocate: "true" moves it.
	//
	// Type: static or dynamic
	// Default: static
	// Impact: none for a Service that has an address
	AnnotationPool = "cloudsigma.com/ip-pool"
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
