package cloudsigma

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// A change of cards that the cloud ignores or refuses is tried again after firstRetry,
// doubling to maxRetry.
const (
	firstRetry = 5 * time.Second
	maxRetry   = 5 * time.Minute
)

// failed is the outcome of a look that went wrong.
func failed(w *lb.Want, err error) lb.Outcome {
	out := lb.Outcome{Condition: lb.ConditionSays}
	text := err.Error()
	after, passing := cloud.RetryAfter(err)
	e, _ := errors.AsType[*cloud.Error](err)
	switch {
	case cloud.IsUnauthorized(err):
		out.Reason = Reasons.With(CredentialsInvalid, text)
	case cloud.IsForbidden(err):
		out.Reason = Reasons.With(AccessDenied, text)
	case w.Gone:
		out.Reason = lb.DeleteLoadBalancerFailed.With(text)
	case passing && e != nil:
		out.Reason = lb.CloudUnavailable.With(text)
	default:
		out.Reason = lb.SyncLoadBalancerFailed.With(text)
	}
	out.Again = after
	return out
}

// dry is the outcome of a look at which nothing is done.
func dry(out *lb.Outcome, w *lb.Want, seen *observation) {
	out.Again, out.Yields = 0, false
	switch {
	case seen.blocked != nil && out.Plan.Empty():
		out.Reason = *seen.blocked
	case len(w.Verdict.Addresses) == 0 && !w.Gone:
		out.Reason = w.Verdict.Reason
	default:
		out.Reason = lb.ChangesPlanned.With(out.Plan)
	}
}

// conclude says how the Service stands after a look that may have ended with err. It
// returns the error that is to be retried.
func (b *Backend) conclude(out *lb.Outcome, w *lb.Want, seen *observation, err error) error {
	card, isCard := errors.AsType[*cardError](err)
	switch {
	case errors.Is(err, errContested):
		out.Reason, out.Passing, out.Again = lb.CloudBusy.With(prose.Commas(w.Verdict.Addresses)), true, handOverPause
		return nil
	case isCard && (cloudsigma.IsIgnored(err) || cloud.IsInvalid(err)):
		reason := Reasons.With(AttachRefused, prose.Addrs(card.addresses), err)
		if cloudsigma.IsIgnored(err) {
			reason = Reasons.With(AttachIgnored, card.server, prose.Addrs(card.addresses))
		}
		out.Reason, out.Condition, out.Again = reason, lb.ConditionSays, b.backOff(w)
		return nil
	case err != nil:
		f := failed(w, err)
		out.Reason, out.Condition, out.Again = f.Reason, f.Condition, f.Again
		return err
	case w.Gone:
		if !out.Plan.Empty() {
			out.Tell = append(out.Tell, lb.DeletingLoadBalancer.With(out.Plan))
		}
		clean := released(&w.Service)
		out.Gone, out.Reason, out.Condition, out.Ingress, out.Carriers, out.Marks = true, lb.DeletedLoadBalancer.With(), clean.Condition, clean.Ingress, clean.Carriers, clean.Marks
		return nil
	}
	b.served(out, w, seen)
	return nil
}

// backOff is when to try a change of cards again.
func (b *Backend) backOff(w *lb.Want) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.memos[w.Service.UID]
	if m == nil {
		return maxRetry
	}
	m.failures++
	return min(maxRetry, firstRetry<<min(m.failures-1, 10))
}

// served says how a Service stands after all was done that could be.
func (b *Backend) served(out *lb.Outcome, w *lb.Want, seen *observation) {
	s := &w.Service
	out.Reason, out.Condition = b.reason(w, seen), lb.ConditionSays
	if seen.blocked != nil {
		out.Reason, out.Passing = *seen.blocked, seen.passing
	}
	out.Carriers = lb.Carriers{}
	var ready []lb.Ingress
	for _, p := range seen.desired.Placed {
		carriers := p.Carriers
		if p.Why != "" { // it stays where it is
			if carriers = s.Carriers[p.Address]; !seen.desired.Published[p.Address] {
				continue
			}
		}
		out.Carriers[p.Address] = carriers
		ready = append(ready, lb.Ingress{IP: p.Address.String(), Mode: lb.IPModeVIP})
	}
	switch {
	case len(ready) == len(w.Verdict.Addresses) || len(s.Ingress) == 0:
		out.Ingress = slices.Concat([]lb.Ingress{}, ready)
	default: // what it has stays until all is there that it is to have
		for _, addr := range s.Published() {
			if out.Carriers[addr] == nil && s.Carriers[addr] != nil {
				out.Carriers[addr] = s.Carriers[addr]
			}
		}
	}
	maps.DeleteFunc(out.Carriers, func(_ netip.Addr, nodes []string) bool { return len(nodes) == 0 })
	out.Marks.Annotations = native.Dialect{}.Notes(s, &w.Verdict, "")
	if out.Ingress != nil && !slices.Equal(s.Ingress, out.Ingress) {
		out.Owns = "status (" + list(s.Published()) + " instead of " + list(w.Verdict.Addresses) + ")"
	}
}

// reason is that of the verdict. Of an address that was asked for and is in no pool,
// it says who has it.
func (b *Backend) reason(w *lb.Want, seen *observation) lb.Reason {
	r := w.Verdict.Reason
	if r.Code != lb.AddressNotInPool {
		return r
	}
	for _, addr := range w.Request.Addresses {
		if why := taken(seen.account, b.cluster, addr); why != "" {
			return Reasons.With(AddressTaken, addr, why).Keeping(w.Verdict.Addresses)
		}
	}
	return r
}

func list(addresses []netip.Addr) string {
	if len(addresses) == 0 {
		return "nothing"
	}
	return prose.Commas(addresses)
}
