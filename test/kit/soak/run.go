// Package soak breaks a real cluster at random for a while, with steady traffic, and
// checks all the time that the rules of package invariant hold. The cluster is a sandbox
// that is up; controllers and agents are processes of the real binary on its hosts.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/client"
	"fairlead.io/test/kit/daemons"
	"fairlead.io/test/kit/invariant"
	"fairlead.io/test/kit/site"
)

// Options of a run.
type Options struct {
	Cluster *sandbox.Cluster // of three nodes, with the server of package site beside it
	Binary  string           // Fairlead
	Scratch string           // a directory that nodes see, too
	Seed    uint64           // of the order of faults
	For     time.Duration    // how long faults happen; one that has begun is ended
	Out     io.Writer        // for what happens, and for breaches
}

const (
	// every is how often a connection to each address is made, and each address asked for.
	every = 100 * time.Millisecond
	// settling is how long it may take after a fault until all is well.
	settling = time.Minute
	// giveUp is how long it may take until the run ends.
	giveUp = 4 * time.Minute
)

// limits are those of what needs no fault: the benchmarks' target for outages, and what
// a fence of one second leaves to a former owner.
var limits = invariant.Limits{Silence: time.Second, Questions: 8, Two: 1500 * time.Millisecond, Answering: 350 * time.Millisecond, Quiet: 1200 * time.Millisecond}

// starting is what may be seen until all is well for the first time.
var starting = invariant.Allowance{Silence: time.Second, Two: time.Second, Move: time.Second}

// world is a cluster that is broken.
type world struct {
	daemons.Daemons
	outMu    sync.Mutex
	out      io.Writer
	nodes    []string
	api      kube.WithWatch
	check    *invariant.Checker
	services []*service
	replicas []*replica
	report   *Report
	began    time.Time
	told     int       // breaches
	quoted   time.Time // when logs were shown last
}

// Run breaks the cluster. It fails if it could not; breaches are in the report.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	w := &world{out: o.Out, nodes: []string{"node1", "node2", "node3"}, began: time.Now(), report: &Report{Seed: o.Seed}}
	w.Daemons = daemons.Daemons{Cluster: o.Cluster, Binary: o.Binary, Scratch: o.Scratch, Agents: map[string]*daemons.Agent{}}
	w.check = invariant.New(w.began, limits)
	if w.api, err = site.Client(o.Cluster); err != nil {
		return nil, err
	}
	if w.Kubeconfig, err = daemons.WriteKubeconfig(o.Cluster, o.Scratch); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close(context.WithoutCancel(ctx))) }()
	if err := w.open(ctx); err != nil {
		return nil, err
	}
	started := w.check.Act(time.Now(), "start", starting)
	stop, err := w.observe(ctx)
	if err != nil {
		return nil, err
	}
	stop = sync.OnceFunc(stop)
	defer stop()
	if err := w.settled(ctx); err != nil {
		w.tell()
		return nil, err
	}
	started(time.Now())
	before, err := w.count(ctx)
	if err != nil {
		return nil, err
	}
	w.say("all is well; faults for %s, seed %d", o.For, o.Seed)
	w.faults(ctx, o)
	w.broken(w.sameElements(ctx, before[elements]))
	stop()
	w.broken(w.drained(ctx))
	w.report.Trends = w.check.Trends(time.Now(), growth)
	w.tell()
	w.report.Counts, w.report.Breaches = w.check.Counts(), w.check.Breaches(0)
	return w.report, ctx.Err()
}

// faults performs the steps of the schedule until the time is over, or all is not well
// any more.
func (w *world) faults(ctx context.Context, o Options) {
	began := time.Now()
	defer func() { w.report.Took = time.Since(began) }()
	for step := range Schedule(o.Seed, kinds(faults)) {
		pause(ctx, step.Calm)
		if ctx.Err() != nil || time.Since(began) > o.For {
			return
		}
		w.check.TakeWorst() // of the calm, in which nothing may be seen at all
		moved := w.check.Counts().Moves
		w.say("%s", step)
		w.broken(w.perform(ctx, step))
		err := w.settled(ctx)
		w.report.happened(step, w.check.TakeWorst(), w.check.Counts().Moves-moved)
		if err != nil {
			w.broken(fmt.Errorf("the run ends, because not all is well: %w", err))
			return
		}
		w.broken(w.measure(ctx))
	}
}

// broken notes an error, if there is one, as a breach of no other rule.
func (w *world) broken(err error) {
	if grown, is := errors.AsType[*grownError](err); is {
		w.check.Broken(time.Now(), invariant.Grows, grown.Error())
	} else if err != nil {
		w.check.Broken(time.Now(), invariant.Other, err.Error())
	}
}

// observe makes connections, asks for addresses, watches Services and tells of breaches
// until stop is called.
func (w *world) observe(ctx context.Context) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { w.watch(ctx) })
	quiet, err := client.Question(w.Cluster, every, w.check, w.addresses()...)
	if err != nil {
		cancel()
		running.Wait()
		return nil, err
	}
	hangUp := client.Repeat(w.Cluster, every, func(t client.Try) { w.check.Connected(t.To.Addr(), t.Began, t.Ended, t.Err) }, w.ports()...)
	running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			w.check.Tick(time.Now())
			w.tell()
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return func() {
		hangUp()
		quiet()
		cancel()
		running.Wait()
	}, nil
}

// say tells a person who waits what is going on.
func (w *world) say(format string, args ...any) {
	w.outMu.Lock()
	defer w.outMu.Unlock()
	fmt.Fprintf(w.out, "%8.2fs %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

// tell tells of new breaches, with what happened before and what the daemons say. Where
// there is one there are often more, of which only the first tells something.
func (w *world) tell() {
	const atOnce = 5 * time.Second
	w.outMu.Lock()
	defer w.outMu.Unlock()
	for _, b := range w.check.Breaches(w.told) {
		w.told++
		fmt.Fprintf(w.out, "\nBREACH at %.2fs (%s): %s: %s\n", b.At.Sub(w.began).Seconds(), b.At.Format(time.TimeOnly), b.Rule, b.Text)
		if time.Since(w.quoted) < atOnce {
			continue
		}
		w.quoted = time.Now()
		fmt.Fprintln(w.out, "What happened before:")
		for _, line := range b.Before {
			fmt.Fprintln(w.out, line)
		}
		fmt.Fprintf(w.out, "%s\n", w.logs())
	}
}
