package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"fairlead.io/test/kit/invariant"
)

// Report is what became of a run.
type Report struct {
	Seed     uint64
	Took     time.Duration
	Faults   map[string]*Outcome // by name; two at once are one
	Counts   invariant.Counts
	Trends   []invariant.Trend
	Breaches []invariant.Breach
	// Elements of our sets in the beginning and at the end, and connections that are
	// tracked when there is no traffic any more.
	ElementsBefore, ElementsAfter, TrackedAfter float64
}

// Outcome is what was noticed of a fault.
type Outcome struct {
	Times, Moves int
	Worst        invariant.Worst
}

// together is the name of faults of which two happen at once.
const together = "two at once"

// happened notes what was noticed of a step.
func (r *Report) happened(s Step, worst invariant.Worst, moves int) {
	name := s.Choices[0].Kind.Name
	if len(s.Choices) > 1 {
		name = together
	}
	if r.Faults == nil {
		r.Faults = map[string]*Outcome{}
	}
	o := r.Faults[name]
	if o == nil {
		o = &Outcome{}
		r.Faults[name] = o
	}
	o.Times++
	o.Moves += moves
	o.Worst = invariant.Worst{Silence: max(o.Worst.Silence, worst.Silence), Two: max(o.Worst.Two, worst.Two), Outage: max(o.Worst.Outage, worst.Outage)}
}

// Happened is how many faults there were, two at once being one.
func (r *Report) Happened() (n int) {
	for _, o := range r.Faults {
		n += o.Times
	}
	return n
}

// Print writes the tables.
func (r *Report) Print(out io.Writer) {
	fmt.Fprintf(out, "\nseed %d, %s of faults\n\n", r.Seed, r.Took.Round(time.Second))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(cells ...any) { fmt.Fprintln(w, strings.TrimSuffix(fmt.Sprintln(cells...), "\n")) }
	row("fault\ttimes\tno new connection\tno answer\ttwo answer\tmoves")
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		o := r.Faults[name]
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%d\n", name, o.Times, ms(o.Worst.Outage), ms(o.Worst.Silence), ms(o.Worst.Two), o.Moves)
	}
	row("\t\t\t\t\t")
	c := r.Counts
	for _, line := range []struct {
		what string
		n    int
	}{
		{"connections made", c.Made}, {"connections that failed in the window of a fault", c.Failed}, {"connections reset in a move that nobody planned", c.Reset},
		{"connections that were a second late in a planned move", c.Late},
		{"questions for addresses", c.Questions}, {"answers", c.Answers}, {"addresses moved", c.Moves},
		{"changes of the addresses of Services", c.ServiceChanges},
	} {
		fmt.Fprintf(w, "%s\t%d\t\t\t\t\n", line.what, line.n)
	}
	row("\t\t\t\t\t")
	row("what must not grow\tsamples\tfirst third\tlast third\tmost\t")
	for _, t := range r.longest() {
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.0f\t%.0f\t\n", t.What, t.Samples, t.First, t.Last, t.Most)
	}
	fmt.Fprintf(w, "%s, in the beginning and at the end\t\t%.0f\t%.0f\t\t\n", elements, r.ElementsBefore, r.ElementsAfter)
	fmt.Fprintf(w, "%s, after all traffic\t\t\t%.0f\t\t\n", tracked, r.TrackedAfter)
	row("\t\t\t\t\t")
	broken := map[string]int{}
	for _, b := range r.Breaches {
		broken[b.Rule]++
	}
	row("breaches\t\t\t\t\t")
	for _, rule := range invariant.Rules {
		fmt.Fprintf(w, "%s\t%d\t\t\t\t\n", rule, broken[rule])
	}
	_ = w.Flush()
}

// longest are the trends that tell most: of what was measured most often, and those that
// have grown.
func (r *Report) longest() (out []invariant.Trend) {
	most := map[string]int{}
	kindOf := func(t invariant.Trend) string {
		kind, who, _ := strings.Cut(t.What, ", ")
		daemon, _, _ := strings.Cut(who, " ")
		return kind + daemon
	}
	for _, t := range r.Trends {
		most[kindOf(t)] = max(most[kindOf(t)], t.Samples)
	}
	for _, t := range r.Trends {
		if t.Grown || t.Samples == most[kindOf(t)] {
			out = append(out, t)
		}
	}
	return out
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
