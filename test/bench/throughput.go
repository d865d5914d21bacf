package main

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/sandbox"
)

// throughput: Services that are pending when a controller starts all get their
// address. The time is from the start of the process until a watch has seen the
// last address. One run takes a second or two and varies, so there are three times as many as of other groups.
func throughput(ctx context.Context, s settings) (rows []Row, err error) {
	c, err := startCluster(ctx, sandbox.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	perSecond := make([][]float64, len(sides))
	err = takeTurns(3*s.rounds, sides, func(i int, of side) error {
		seconds, err := c.addressAll(ctx, s, of, nil)
		perSecond[i] = append(perSecond[i], float64(s.n)/seconds)
		progress("  %s: %.2f s", of.name, seconds)
		return err
	})
	if err != nil {
		return nil, err
	}
	ours, bare := median(perSecond[0]), median(perSecond[1])
	return []Row{
		info("addresses per second, Fairlead to bare loop", ours/bare, "×").atLeast(0.9),
		info("addresses per second from the start, Fairlead", ours, "1/s"),
		info("addresses per second from the start, bare loop", bare, "1/s"),
	}, nil
}

// addressAll makes pending Services, each changed a bit, and returns how long the
// side needs.
func (c *cluster) addressAll(ctx context.Context, s settings, of side, change func(*corev1.Service)) (seconds float64, err error) {
	if err := c.createLike(ctx, s.n, inFlight, change, nil); err != nil {
		return 0, err
	}
	seen, err := c.look(ctx)
	if err != nil {
		return 0, err
	}
	p, err := of.start(c, s)
	if err != nil {
		return 0, err
	}
	at, err := seen.first(ctx, s.n)
	p.Stop(&err)
	if err != nil {
		return 0, err
	}
	return last(at).Sub(p.Started).Seconds(), c.remove(ctx)
}
