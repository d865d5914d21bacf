package ovn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
	"fairlead.io/internal/ovsdb"
	"fairlead.io/internal/prose"
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

// blocks is why nothing can be written; nil if it can be.
func blocks(want *ovn.Service, v *ovn.View) *lb.Reason {
	var r lb.Reason
	switch {
	case v.RouterMissing:
		r = Reasons.With(RouterMissing, want.Router)
	case len(v.Conflicts) > 0:
		r = Reasons.With(VIPConflict, v.Conflicts[0].VIP, rivals(v.Conflicts))
	case v.Refused:
		r = Reasons.With(SourceRangesUnsupported, v.Unfiltered)
	default:
		return nil
	}
	return &r
}

// conclude says how a Service stands after a look at which nothing went wrong.
func (b *Backend) conclude(w *lb.Want, want *ovn.Service, place *Place, addresses []netip.Addr, v *ovn.View, cfg int64) lb.Outcome {
	s := &w.Service
	out := lb.Outcome{Condition: lb.ConditionSays, Plan: v.Plan, Done: len(v.Plan.Steps), Tell: append(tell(w, want, v), place.Tell...)}
	if blocked := blocks(want, v); blocked != nil {
		out.Reason = *blocked
		if kept := kept(s, want); len(kept) < len(s.Ingress) {
			out.Ingress = kept
		}
		return out
	}
	ingress := make([]lb.Ingress, len(addresses))
	for i, a := range addresses {
		// OVN has translated before a node sees the packet.
		ingress[i] = lb.Ingress{IP: a.String(), Mode: lb.IPModeProxy}
	}
	published := slices.Equal(s.Published(), addresses)
	if v.GatewayMissing {
		gateway := ""
		if want.Gateway != "" {
			gateway = " " + want.Gateway
		}
		out.Reason = Reasons.With(GatewayMissing, want.Router, gateway)
		return out
	}
	if wait := b.await(s, want.Key(), cfg, published, &out); wait > 0 {
		out.Passing, out.Again, out.Condition = true, wait, lb.ConditionStays
		return out
	}
	out.Reason = w.Verdict.Reason
	if len(w.Verdict.Addresses) == 0 {
		out.Reason = lb.EnsuredLoadBalancer.With(strings.Join(rowNames(want), ", "), prose.Addrs(addresses))
	}
	if place.Waits != nil {
		out.Reason = *place.Waits
	}
	out.Ingress = ingress
	out.Marks.Annotations = native.Dialect{}.Notes(s, &w.Verdict, "")
	if !slices.Equal(s.Ingress, ingress) {
		out.Owns = fmt.Sprintf("status (%s instead of %s)", list(s.Published()), list(addresses))
	}
	return out
}

// kept is what of the status is still so. Addresses that the Service has no more are not
// published any longer, whatever keeps it from its new ones.
func kept(s *lb.Service, want *ovn.Service) []lb.Ingress {
	return slices.DeleteFunc(slices.Clone(s.Ingress), func(i lb.Ingress) bool {
		a, err := netip.ParseAddr(i.IP)
		return err == nil && !slices.ContainsFunc(want.Listeners, func(l ovn.Listener) bool { return l.VIP.Addr() == a })
	})
}

// await says how long to wait for northd before the address is published. One that is
// published already stays so. Rows that are as they are to be, of a Service that does not
// publish them, were written before this process started: northd need not have them yet.
func (b *Backend) await(s *lb.Service, key string, cfg int64, published bool, out *lb.Outcome) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if published {
		delete(b.pending, s.UID)
		return 0
	}
	p, waiting := b.pending[s.UID]
	switch {
	case cfg > 0:
		if !waiting || b.db.Programmed(p.cfg) {
			p.since = time.Now()
		}
		p.cfg = cfg
	case !waiting:
		p = pending{cfg: b.db.Cfg(), since: time.Now()}
	}
	b.pending[s.UID] = p // until it is published, so that it is waited for once
	if b.db.Programmed(p.cfg) {
		return 0
	}
	if left := northdPatience - time.Since(p.since); left > 0 {
		b.db.Await(key, p.cfg)
		return left
	}
	out.Tell = append(out.Tell, Reasons.With(NorthdBehind, northdPatience))
	return 0
}

// tell has what there is to say besides how the Service stands.
func tell(w *lb.Want, want *ovn.Service, v *ovn.View) (out []lb.Reason) {
	say := func(c lb.Code, args ...any) { out = append(out, Reasons.With(c, args...)) }
	switch {
	case v.Drift:
		out = append(out, lb.DriftRepaired.With(v.Plan))
	case v.Had && v.Plan.Impact() > lb.ImpactNone: // backends change too often to be told
		out = append(out, lb.UpdatedLoadBalancer.With(v.Plan))
	}
	if len(v.MissingSwitches) > 0 {
		say(SwitchMissing, prose.And(v.MissingSwitches))
	}
	if len(v.Contested) > 0 {
		say(VIPContested, v.Contested[0].VIP, rivals(v.Contested))
	}
	if len(v.Outside) > 0 {
		say(BackendsOutside, want.Router, prose.Commas(v.Outside))
	}
	if version, old := before2503(v.Version); len(v.Gateways) > 1 && old {
		say(SeveralGateways, want.Router, prose.And(v.Gateways), version)
	}
	if v.Unfiltered != "" && !v.Refused {
		say(SourceRangesIgnored, v.Unfiltered)
	}
	return out
}

// before2503 reads the version of northd, such as 23.03.1-20.27.0-70.6, and says whether
// it is known to be older than 25.03.
func before2503(text string) (version string, older bool) {
	version, _, _ = strings.Cut(text, "-")
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return version, false
	}
	year, err1 := strconv.Atoi(parts[0])
	month, err2 := strconv.Atoi(parts[1])
	return version, err1 == nil && err2 == nil && (year < 25 || year == 25 && month < 3)
}

func rivals(all []ovn.Rival) string {
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = fmt.Sprintf("load balancer %s on %s has it", r.Name, r.On)
	}
	return strings.Join(out, "; ")
}

func rowNames(s *ovn.Service) (out []string) {
	for _, protocol := range ovn.Protocols {
		if slices.ContainsFunc(s.Listeners, func(l ovn.Listener) bool { return l.Protocol == protocol }) {
			out = append(out, s.RowName(protocol))
		}
	}
	return out
}

func list(addresses []netip.Addr) string {
	if len(addresses) == 0 {
		return "nothing"
	}
	return prose.Commas(addresses)
}
