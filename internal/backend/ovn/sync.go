package ovn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
	"fairlead.io/internal/ovsdb"
)

const (
	// awayGrace is how long the database may be away before Services say so: a cluster
	// elects a new leader in less.
	awayGrace = 5 * time.Second
	// awayRetry is when a Service is looked at again while the database is away. When it
	// is back, all are at once.
	awayRetry = 10 * time.Second
	// northdPatience is how long northd may take before an address is published without
	// its word.
	northdPatience = 5 * time.Second
	// moveGrace is how long another Service may take to leave an address before the one that
	// has it now says that it waits.
	moveGrace = 5 * time.Second
	// attempts is how often a plan is made again because the database was changed while
	// it was committed.
	attempts = 3
)

// Sync takes one look at a Service and does what can be done now. Whatever our condition
// says, it names the addresses that the Service keeps: they are proven by it.
func (b *Backend) Sync(ctx context.Context, w lb.Want) (lb.Outcome, error) {
	out, err := b.sync(ctx, &w)
	if out.Condition == lb.ConditionSays && !w.Gone && !out.Reason.Ready() && out.Reason.Code != w.Verdict.Reason.Code {
		kept := w.Service
		if out.Ingress != nil {
			kept.Ingress = out.Ingress
		}
		out.Reason = out.Reason.Keeping(kept.Published())
	}
	return out, err
}

func (b *Backend) sync(ctx context.Context, w *lb.Want) (lb.Outcome, error) {
	if w.Gone {
		return b.release(ctx, w)
	}
	place, err := b.placer.Place(ctx, w)
	if err != nil {
		return lb.Outcome{Condition: lb.ConditionSays, Reason: lb.SyncLoadBalancerFailed.With(err)}, err
	}
	if place.Unknown {
		return lb.Outcome{Passing: true, Again: place.Again}, nil
	}
	if place.Elsewhere != nil {
		return lb.Outcome{Tell: []lb.Reason{*place.Elsewhere}}, nil
	}
	addresses := place.Addresses
	if len(addresses) == 0 {
		addresses = w.Verdict.Addresses
	}
	if len(addresses) == 0 {
		return b.without(ctx, w, &place)
	}
	want := desired(w, &place, addresses)
	if w.DryRun {
		return b.dry(w, want, &place)
	}
	b.know(&w.Service)
	view, cfg, err := b.write(ctx, want)
	if err != nil {
		return b.failed(w, err)
	}
	return b.conclude(w, want, &place, addresses, view, cfg), nil
}

// without removes what a Service has in the database that has no address any more:
// somebody else may get it. One that will have an address in a moment goes on publishing
// the one that it had.
func (b *Backend) without(ctx context.Context, w *lb.Want, place *Place) (lb.Outcome, error) {
	s := &w.Service
	if w.DryRun {
		return b.dry(w, &ovn.Service{Namespace: s.Key.Namespace, Name: s.Key.Name}, place)
	}
	plan, err := b.clear(ctx, s.Key)
	if err != nil {
		return b.failed(w, err)
	}
	out := lb.Outcome{Plan: plan, Done: len(plan.Steps), Tell: place.Tell, Again: place.Again}
	switch {
	case place.Waits != nil:
		out.Reason = *place.Waits
	case w.Verdict.Reason.Code != "":
		out.Reason = w.Verdict.Reason
	default:
		out.Passing = true
		return out, nil
	}
	out.Condition, out.Ingress = lb.ConditionSays, []lb.Ingress{}
	out.Marks.Annotations = native.Dialect{}.Notes(s, &w.Verdict, "")
	return out, nil
}

// write makes the database as it is to be, and returns how it was. cfg is 0 if nothing was
// written.
func (b *Backend) write(ctx context.Context, want *ovn.Service) (view *ovn.View, cfg int64, err error) {
	drift := false
	for range attempts {
		if view, err = b.db.Look(want); err != nil || view.Plan.Empty() {
			return view, 0, err
		}
		drift = drift || view.Drift
		view.Drift = drift
		if cfg, err = b.db.Commit(ctx, want.Key(), view.Plan); err == nil {
			b.placer.Written(keyOf(want.Key()))
			return view, cfg, nil
		}
		if _, refused := errors.AsType[*ovsdb.TransactionError](err); !refused {
			return view, cfg, err
		}
	}
	return view, 0, err
}

// failed is the outcome of a look that went wrong.
func (b *Backend) failed(w *lb.Want, err error) (lb.Outcome, error) {
	if !errors.Is(err, ovn.ErrUnavailable) {
		return lb.Outcome{Condition: lb.ConditionSays, Reason: lb.SyncLoadBalancerFailed.With(err)}, err
	}
	text := strings.TrimPrefix(err.Error(), ovn.ErrUnavailable.Error()+": ")
	out := lb.Outcome{Condition: lb.ConditionSays, Reason: Reasons.With(NorthboundUnavailable, text), Again: awayRetry}
	if away := b.db.Away(); away < awayGrace {
		out.Passing, out.Again = true, awayGrace-away
		out.Reason = lb.Reason{}
	}
	return out, nil
}

// release removes what a Service has.
func (b *Backend) release(ctx context.Context, w *lb.Want) (lb.Outcome, error) {
	s := &w.Service
	if w.DryRun {
		return b.dry(w, &ovn.Service{Namespace: s.Key.Namespace, Name: s.Key.Name}, &Place{})
	}
	plan, err := b.clear(ctx, s.Key)
	if err != nil {
		return b.failed(w, err)
	}
	out := lb.Outcome{Gone: true, Plan: plan, Done: len(plan.Steps)}
	if !s.Deleting {
		out.Condition, out.Reason = lb.ConditionGoes, lb.DeletedLoadBalancer.With()
		out.Marks.Annotations = native.Dialect{}.Notes(s, &lb.Verdict{}, "")
		if s.Attested() {
			out.Ingress = []lb.Ingress{}
		}
	}
	return out, nil
}

// dry says what would be done.
func (b *Backend) dry(w *lb.Want, want *ovn.Service, place *Place) (lb.Outcome, error) {
	view, err := b.db.Peek(want)
	if err != nil {
		return b.failed(w, err)
	}
	plan := lb.Plan{Steps: slices.Concat(place.Plan.Steps, view.Plan.Steps)}
	out := lb.Outcome{Plan: plan, Reason: lb.ChangesPlanned.With(plan), Tell: place.Tell}
	if blocked := blocks(want, view); blocked != nil {
		out.Reason = *blocked
	} else if place.Waits != nil && plan.Empty() {
		out.Reason = *place.Waits
	}
	return out, nil
}
