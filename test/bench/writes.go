package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"fairlead.io/sandbox"
)

const (
	idle = time.Minute
	// agent is how the controller calls itself in the API server's audit log.
	agent = "fairlead-controller/"
)

// writes: what the controller writes to the API server, counted in the server's
// audit log, refused and repeated writes included.
func writes(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{Audit: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	if err := c.create(ctx, s.n, inFlight, nil); err != nil {
		return nil, err
	}
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	p, err := startFairlead(c, s)
	if err != nil {
		return nil, err
	}
	defer func() { p.Stop(&err) }()
	if _, err := seen.first(ctx, s.n); err != nil {
		return nil, err
	}
	served, err := c.quiet(ctx, 5*time.Second, s.n)
	if err != nil {
		return nil, err
	}
	progress("  waiting for a minute in which nothing is written")
	if err := pause(ctx, idle); err != nil {
		return nil, err
	}
	after, err := c.writes()
	if err != nil {
		return nil, err
	}
	each := func(what string) float64 { return float64(served[what]) / float64(s.n) }
	return []Row{
		info("of a Service, each", each("patch services/status"), "").exactly(1),
		info("of events, for each Service", each("create events"), "").exactly(1),
		info("of all kinds, while all Services were served", float64(total(served)), ""),
		info("of all kinds, in an idle minute", float64(total(after)-total(served)), "").exactly(0),
	}, nil
}

// quiet waits until at least n events, and for that time nothing more, are
// written, and returns the counts.
func (c *cluster) quiet(ctx context.Context, silence time.Duration, n int) (counts map[string]int, err error) {
	var since time.Time
	err = poll(ctx, "the controller has nothing more to write", time.Second, func() (bool, error) {
		now, err := c.writes()
		if err != nil {
			return false, err
		}
		if total(now) != total(counts) {
			since = time.Now()
		}
		counts = now
		return counts["create events"] >= n && time.Since(since) >= silence, nil
	})
	return counts, err
}

// writes counts the controller's writes by verb and resource; leases, which are
// renewed all the time, are none of them.
func (c *cluster) writes() (map[string]int, error) {
	all, err := c.api.WriteCounts()
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	for w, n := range all {
		if !strings.HasPrefix(w.UserAgent, agent) || w.Resource == "leases" {
			continue
		}
		what := fmt.Sprintf("%s %s", w.Verb, w.Resource)
		if w.Subresource != "" {
			what += "/" + w.Subresource
		}
		counts[what] += n
	}
	return counts, nil
}

func total(counts map[string]int) (sum int) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
