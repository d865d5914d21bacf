package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fairlead.io/test/kit/invariant"
	"fairlead.io/test/kit/site"
)

// recently is for how long all must have been well.
const recently = time.Second

// settled waits until all is well. That it takes too long is a breach; that it never is
// ends the run.
func (w *world) settled(ctx context.Context) error {
	began := time.Now()
	told := false
	err := site.Await(ctx, giveUp, func() error {
		err := errors.Join(w.revive(ctx), w.well(ctx))
		if err != nil && !told && time.Since(began) > settling {
			told = true
			w.check.Broken(time.Now(), invariant.Other, fmt.Sprintf("not all is well %s after a fault: %v", settling, err))
		}
		return err
	})
	if err == nil {
		err = w.served(ctx)
	}
	if took := time.Since(began); took > 10*time.Second {
		w.say("all is well after %s", took.Round(100*time.Millisecond))
	}
	return err
}

// revive starts agents again that have ended by themselves, which is a breach.
func (w *world) revive(ctx context.Context) error {
	for _, node := range w.nodes {
		if !w.Agents[node].Alive() {
			w.check.Broken(time.Now(), invariant.Other, "the agent on "+node+" has ended by itself")
			if err := w.Run(ctx, node); err != nil {
				return err
			}
		}
	}
	return nil
}

// well says what is not as it should be: one node answers for each address and has it on
// an interface, connections are made, Services have what they had, and all nodes could
// forward.
func (w *world) well(ctx context.Context) error {
	if err := w.check.Complete(); err != nil {
		return err
	}
	since := time.Now().Add(-recently)
	owners := map[string]string{}
	for _, addr := range w.addresses() {
		owner, alone := w.check.Owner(addr, since)
		if !alone {
			return fmt.Errorf("%s, of %q, is not answered for by one alone", addr, owner)
		}
		if !w.check.Working(addr, since) {
			return fmt.Errorf("connections to %s are not made", addr)
		}
		owners[addr.String()] = owner
	}
	where, err := site.OnInterfaces(ctx, w.Cluster, w.nodes...)
	if err != nil {
		return err
	}
	for addr, on := range where {
		owner, ours := owners[addr.String()]
		if !ours || !slices.Equal(on, []string{owner}) {
			return fmt.Errorf("%s, of %q, is on interfaces of %v", addr, owner, on)
		}
	}
	for _, node := range w.nodes {
		if err := site.Forwarded(ctx, w.Cluster, node, w.addresses()...); err != nil {
			return err
		}
	}
	return nil
}
