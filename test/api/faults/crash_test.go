package faults

import (
	"fmt"
	"testing"
)

// TestKilledAHundredTimes kills the controller with SIGKILL a hundred times
// while Services come and go. There is one at a time, so no two Services have one
// address, and none ever loses its address.
func TestKilledAHundredTimes(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "storm", "10.1.0.0/24")
	l := keepLedger(t)
	storm{name: "storm", writers: 4, most: 30, kills: 100}.rage(t, l)
	held := settled(t, "storm")
	l.survived(t)
	// Nothing has leaked: the whole pool can be had.
	create(t, "rest", 256-len(held))
	settled(t, "storm")
}

// TestAPIServerKilledAndBack kills the API server under a running controller.
func TestAPIServerKilledAndBack(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.2.0.0/24")
	theRig.Start(t)
	create(t, "before", 20)
	before := settled(t, "edge")

	for round := range 3 {
		if err := theRig.API.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		create(t, fmt.Sprintf("after-%d", round), 10)
		after := settled(t, "edge")
		for name, address := range before {
			if after[name] != address {
				t.Errorf("round %d: service %s had %s, has %s", round, name, address, after[name])
			}
		}
	}
}
