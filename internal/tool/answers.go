package tool

import (
	"fairlead.io/internal/migrate"
	"fairlead.io/internal/snapshot"
)

// Answers are what commands print with -o json and -o yaml, by kind: an empty one of
// each. The schema of the documentation is made from their types.
func Answers() map[string]any {
	return map[string]any{
		"Status": snapshot.Status{}, "Why": whys{}, "Addresses": snapshot.Addresses{}, "Plan": snapshot.Plan{}, "Checks": snapshot.Checks{},
		"Migration": migrate.Migration{}, "Verification": migrate.Verification{},
	}
}
