package invariant

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Growth is how much larger something may be at the end than in the beginning.
type Growth struct {
	Share float64 // of what it was
	Slack float64 // and so much more
}

// Trend is what became of something that was measured.
type Trend struct {
	What              string
	Samples           int
	First, Last, Most float64
	Grown             bool
}

// enough is how many samples tell a trend.
const enough = 6

// Measured is told how much there is of something.
func (c *Checker) Measured(what string, value float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.series[what] = append(c.series[what], value)
}

// Trends compares how much there was of everything that was measured in the first third
// of the time with the last third, of each the median. limit says how much it may grow.
func (c *Checker) Trends(at time.Time, limit func(what string) Growth) (out []Trend) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, what := range slices.Sorted(maps.Keys(c.series)) {
		t := trend(c.series[what], limit(what))
		if t.What = what; t.Grown {
			c.broken(at, Grows, fmt.Sprintf("%s: from %.6g to %.6g, of %d samples", what, t.First, t.Last, t.Samples))
		}
		if t.Samples >= enough {
			out = append(out, t)
		}
	}
	return out
}

func trend(values []float64, limit Growth) Trend {
	t := Trend{Samples: len(values)}
	if len(values) < enough {
		return t
	}
	third := len(values) / 3
	t.First, t.Last, t.Most = median(values[:third]), median(values[len(values)-third:]), slices.Max(values)
	t.Grown = t.Last > t.First*(1+limit.Share)+limit.Slack
	return t
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
