package soak

import (
	"fmt"
	"testing"
	"time"
)

func first(seed uint64, n int) (steps []Step) {
	for s := range Schedule(seed, kinds(faults)) {
		if steps = append(steps, s); len(steps) == n {
			break
		}
	}
	return steps
}

// The same seed is the same order; another one is not.
func TestScheduleIsRepeatable(t *testing.T) {
	a, b, c := fmt.Sprint(first(7, 100)), fmt.Sprint(first(7, 100)), fmt.Sprint(first(8, 100))
	if a != b {
		t.Error("the same seed gives another order")
	}
	if a == c {
		t.Error("another seed gives the same order")
	}
}

// Every fault happens once before one happens again, in its limits; those that happen at
// once go together.
func TestSchedule(t *testing.T) {
	together := 0
	const rounds = 40
	steps := first(1, rounds*len(faults))
	for round := range rounds {
		seen := map[string]bool{}
		for _, s := range steps[round*len(faults):][:len(faults)] {
			seen[s.Choices[0].Kind.Name] = true
			if s.Calm < leastCalm || s.Calm > mostCalm {
				t.Errorf("calm for %s", s.Calm)
			}
			for _, c := range s.Choices {
				if c.Hold < c.Kind.Least || c.Hold > c.Kind.Most {
					t.Errorf("%s lasts %s", c.Kind.Name, c.Hold)
				}
			}
			if len(s.Choices) == 1 {
				continue
			}
			together++
			a, b := s.Choices[0].Kind, s.Choices[1].Kind
			if len(s.Choices) > 2 || a.Node == b.Node || a.NoAPI && b.NeedsAPI || b.NoAPI && a.NeedsAPI {
				t.Errorf("at once: %s", s)
			}
			if s.Between < 0 || s.Between > between {
				t.Errorf("%s between two", s.Between)
			}
		}
		if len(seen) != len(faults) {
			t.Errorf("round %d has %d of %d faults", round, len(seen), len(faults))
		}
	}
	if share := float64(together) / float64(len(steps)); share < 0.15 || share > 0.35 {
		t.Errorf("%.2f of the steps have two faults", share)
	}
}

// What the table of faults says makes sense.
func TestFaults(t *testing.T) {
	names := map[string]bool{}
	for _, f := range faults {
		switch {
		case names[f.Name]:
			t.Errorf("%s is there twice", f.Name)
		case f.strike == nil || f.Least > f.Most || f.Most > 15*time.Second:
			t.Errorf("%s cannot happen", f.Name)
		case f.ends && !f.Node:
			t.Errorf("%s ends the agent of no node", f.Name)
		}
		names[f.Name] = true
	}
}

// The API server comes first, what begins early next.
func TestInOrder(t *testing.T) {
	now := time.Now()
	late, early := under{until: now.Add(time.Second)}, under{until: now}
	server := under{fault: fault{Kind: Kind{NoAPI: true}}, until: now.Add(time.Minute)}
	if inOrder(server, early) >= 0 || inOrder(early, server) <= 0 || inOrder(early, late) >= 0 || inOrder(late, early) <= 0 {
		t.Error("faults end in another order")
	}
}
