package main

import (
	"context"
	"fmt"
	"time"

	"fairlead.io/internal/member/membersim"
)

const (
	// stressed is how long members are beside hogs, each of which takes all CPU
	// that it can get.
	stressed = 20 * time.Second
	hogs     = 64
)

// members: how long agents need to know that one of them is dead, in virtual
// time on a network of its own; and whether they think so of any that is alive
// but has hardly any CPU, with real sockets and real time.
func members(ctx context.Context, s settings) ([]Row, error) {
	var rows []Row
	for _, size := range []struct{ members, runs int }{{3, 40 * s.rounds}, {10, 20 * s.rounds}, {100, s.rounds}} {
		d, err := membersim.Detect(ctx, size.members, size.runs)
		if err != nil {
			return nil, err
		}
		var ms []float64
		for _, each := range d.Each {
			ms = append(ms, milliseconds(each))
		}
		progress("  %d of %d members have died", size.runs, size.members)
		of := fmt.Sprintf("a death is known to one of %d, of %d times", size.members, len(ms))
		rows = append(rows, info(of+" the median", median(ms), "ms"), info(of+" the 99th percentile", quantile(ms, 0.99), "ms").below(1000))
	}
	calm, err := membersim.Stress(ctx, 3, hogs, stressed)
	if err != nil {
		return nil, err
	}
	each := calm.CPU.Seconds() / stressed.Seconds() / 3 * 100
	return append(rows,
		info(fmt.Sprintf("false deaths among 3 beside %d busy processes, in %.0f s", hogs, stressed.Seconds()), float64(calm.Deaths), "").exactly(0),
		info("of a core, each of these 3", each, "%"),
	), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
