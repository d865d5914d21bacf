package soak

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"
)

// Kind is what the schedule has to know of a fault.
type Kind struct {
	Name string
	// Node: it happens to a node, and not to the control plane.
	Node bool
	// NoAPI: there is no API server meanwhile. NeedsAPI: it cannot happen then.
	NoAPI, NeedsAPI bool
	// Least and Most is how long it lasts; the same for one that is over at once.
	Least, Most time.Duration
}

// Choice is a fault that is to happen.
type Choice struct {
	Kind Kind
	Pick uint32        // what it happens to, of those that can be chosen
	Hold time.Duration // how long it lasts
}

// Step is what happens at once: one fault, or one of a node and one of the control plane.
type Step struct {
	Calm    time.Duration // before it, in which nothing happens
	Choices []Choice
	Between time.Duration // of two, the second begins so long after the first
}

func (s Step) String() string {
	var names []string
	for _, c := range s.Choices {
		name := c.Kind.Name
		if c.Hold > 0 {
			name += " for " + c.Hold.String()
		}
		names = append(names, name)
	}
	return strings.Join(names, fmt.Sprintf(", and %s later ", s.Between))
}

const (
	// leastCalm is longer than members doubt themselves and others after a death.
	leastCalm, mostCalm = 4 * time.Second, 7 * time.Second
	// pairs is how many steps have one with two faults among them.
	pairs = 4
	// between is the longest time from the first to the second fault.
	between = 3 * time.Second
)

// Schedule is an endless order of faults, always the same for a seed. Each kind happens
// once before any happens again.
func Schedule(seed uint64, kinds []Kind) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		random := rand.New(rand.NewPCG(seed, 0))
		for {
			for _, i := range random.Perm(len(kinds)) {
				first := choose(random, kinds[i])
				step := Step{Calm: span(random, leastCalm, mostCalm), Choices: []Choice{first}}
				if partners := compatible(first.Kind, kinds); random.IntN(pairs) == 0 && len(partners) > 0 {
					step.Between = span(random, 0, between)
					step.Choices = append(step.Choices, choose(random, partners[random.IntN(len(partners))]))
				}
				if !yield(step) {
					return
				}
			}
		}
	}
}

// compatible are the kinds that can happen together with k.
func compatible(k Kind, kinds []Kind) (out []Kind) {
	for _, other := range kinds {
		if other.Node != k.Node && !(k.NoAPI && other.NeedsAPI) && !(k.NeedsAPI && other.NoAPI) {
			out = append(out, other)
		}
	}
	return out
}

func choose(random *rand.Rand, k Kind) Choice {
	return Choice{Kind: k, Pick: random.Uint32(), Hold: span(random, k.Least, k.Most)}
}

// span is a time between two, of whole milliseconds.
func span(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64((most-least)/time.Millisecond)+1))*time.Millisecond
}
