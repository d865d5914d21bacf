package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"fairlead.io/sandbox"
)

const (
	// creators is how many Services are created at the same time.
	creators = 8
	// shorter are the rounds, and as many times more: whatever else happens on
	// the machine then meets both sides.
	shorter = 3
)

// latency: while a controller runs, Services are created, eight at a time. The
// time is from the answer to the creation until a watch has seen the address;
// it can be negative, when the address is there before the answer.
func latency(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	p50, p99 := make([][]float64, len(sides)), make([][]float64, len(sides))
	err = takeTurns(shorter*s.rounds, sides, func(i int, of side) error {
		ms, err := c.addressEach(ctx, s, of)
		p50[i] = append(p50[i], quantile(ms, 0.5))
		p99[i] = append(p99[i], quantile(ms, 0.99))
		progress("  %s: %.1f ms", of.name, quantile(ms, 0.5))
		return err
	})
	if err != nil {
		return nil, err
	}
	ours, bare := median(p50[0]), median(p50[1])
	return []Row{
		info("creation to address, median, Fairlead to bare loop", ours/bare, "×").atMost(1.3),
		info("creation to address, median, Fairlead", ours, "ms"),
		info("creation to address, median, bare loop", bare, "ms"),
		info("creation to address, 99th percentile, Fairlead", median(p99[0]), "ms"),
		info("creation to address, 99th percentile, bare loop", median(p99[1]), "ms"),
	}, nil
}

// addressEach starts the side, waits until it works, creates Services, and
// returns how many milliseconds each has waited for its address.
func (c *cluster) addressEach(ctx context.Context, s settings, of side) (ms []float64, err error) {
	p, err := of.start(c, s)
	if err != nil {
		return nil, err
	}
	defer func() { p.Stop(&err) }()
	if _, err := c.createWatched(ctx, 1); err != nil { // it is up when this one has its address
		return nil, err
	}
	if err := c.remove(ctx); err != nil {
		return nil, err
	}
	if ms, err = c.createWatched(ctx, s.n/shorter); err != nil {
		return nil, err
	}
	return ms, c.remove(ctx)
}

func (c *cluster) createWatched(ctx context.Context, n int) ([]float64, error) {
	seen, err := c.look(ctx)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	made := make(map[string]time.Time, n)
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		err := c.create(ctx, n, creators, func(name string) {
			now := time.Now()
			mu.Lock()
			made[name] = now
			mu.Unlock()
		})
		if failed <- err; err != nil {
			cancel()
		}
	}()
	at, err := seen.first(ctx, n)
	if createErr := <-failed; createErr != nil {
		return nil, createErr
	}
	if err != nil {
		return nil, err
	}
	ms := make([]float64, 0, n)
	for name, t := range made {
		ms = append(ms, float64(at[name].Sub(t))/float64(time.Millisecond))
	}
	return ms, nil
}
