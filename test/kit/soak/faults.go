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

// fault is something that goes wrong, or that people do.
type fault struct {
	Kind
	// ends: the agent of the node ends, so that it is not for the veteran.
	ends bool
	// strike begins it, mend ends it. mend is nil if it ends by itself.
	strike, mend   func(context.Context, *world, *target) error
	struck, mended invariant.Allowance
}

// target is what a fault happens to.
type target struct {
	node    string
	service *service
	pick    uint32
	// end is called by mend, if strike has left something that has to end.
	end func(context.Context) error
}

// Times that faults are given.
const (
	// outage is how long nobody may answer after a death, besides the second that is allowed
	// always and that test/bench allows on a quiet machine.
	outage = 2 * time.Second
	// aftermath is how long an address may move because of something.
	aftermath = 8 * time.Second
	// unheard is for owners that do not hear each other, but the LAN.
	unheard = 4 * time.Second
	// rewritten is how long it may take until the controller has put right what somebody
	// else has written.
	rewritten = 5 * time.Second
)

var (
	nothing = invariant.Allowance{}
	moves   = invariant.Allowance{Move: aftermath}
	planned = invariant.Allowance{Move: aftermath, Planned: true}
	death   = invariant.Allowance{Silence: outage, Move: aftermath}
)

// faults are all kinds. What a fault is not allowed, nobody may notice.
var faults = slices.Concat(nodeFaults, controlFaults)

func kinds(all []fault) (out []Kind) {
	for _, f := range all {
		out = append(out, f.Kind)
	}
	return out
}

func faultOf(k Kind) fault {
	return faults[slices.IndexFunc(faults, func(f fault) bool { return f.Name == k.Name })]
}

// aim finds what a fault happens to: the node that has an address, or a Service.
func (w *world) aim(ctx context.Context, f fault, pick uint32) (*target, error) {
	t := &target{service: w.services[int(pick)%len(w.services)], pick: pick}
	if !f.Node {
		return t, nil
	}
	if err := w.find(t); err != nil || !f.ends || t.node != w.veteran() {
		return t, err
	}
	// Its agent may not end, so its addresses are sent to others.
	err := w.act("make the node with the address another than the veteran", planned, func() error {
		return errors.Join(w.cordon(ctx, w.veteran(), true), site.Await(ctx, settling, func() error {
			if err := w.find(t); err != nil || t.node == w.veteran() {
				return errors.Join(err, errors.New("the veteran still has the address"))
			}
			return nil
		}), w.cordon(ctx, w.veteran(), false))
	})
	pause(ctx, aftermath) // so that this explains nothing of what the fault does
	return t, errors.Join(err, w.find(t))
}

// find finds the node that has the address.
func (w *world) find(t *target) error {
	owner, _ := w.check.Owner(t.service.addrs[0], time.Time{})
	if owner == "" {
		return fmt.Errorf("nobody has %s", t.service.addrs[0])
	}
	t.node = owner
	return nil
}

// veteran is the node whose agent is never ended, so that it can be seen whether it grows.
func (w *world) veteran() string { return w.nodes[len(w.nodes)-1] }

// under is a fault that goes on.
type under struct {
	fault  fault
	target *target
	until  time.Time
}

// perform does what a step says: faults begin, last, and end.
func (w *world) perform(ctx context.Context, s Step) (err error) {
	var going []under
	targets := make([]*target, len(s.Choices))
	for i, c := range s.Choices { // before anything is broken
		if targets[i], err = w.aim(ctx, faultOf(c.Kind), c.Pick); err != nil {
			return err
		}
	}
	for i, c := range s.Choices {
		if i > 0 {
			pause(ctx, s.Between)
		}
		f, t := faultOf(c.Kind), targets[i]
		err = errors.Join(err, w.act(f.Name+at(t), f.struck, func() error { return f.strike(ctx, w, t) }))
		going = append(going, under{f, t, time.Now().Add(c.Hold)})
	}
	slices.SortStableFunc(going, inOrder)
	for _, g := range going {
		pause(ctx, time.Until(g.until))
		if g.fault.mend != nil {
			// Also if the run ends: nothing may stay broken.
			ctx := context.WithoutCancel(ctx)
			err = errors.Join(err, w.act("end of "+g.fault.Name+at(g.target), g.fault.mended, func() error { return g.fault.mend(ctx, w, g.target) }))
		}
	}
	return err
}

// inOrder is how faults end: an API server is needed to start something again.
func inOrder(a, b under) int {
	switch {
	case a.fault.NoAPI:
		return -1
	case b.fault.NoAPI:
		return 1
	default:
		return a.until.Compare(b.until)
	}
}

func at(t *target) string {
	if t.node == "" {
		return ""
	}
	return ", " + t.node
}

// act does something, in a window of what it explains.
func (w *world) act(name string, allows invariant.Allowance, do func() error) error {
	done := w.check.Act(time.Now(), name, allows)
	err := do()
	done(time.Now())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// pause lets time pass, less if the run ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
