package ovn

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovn"
	"fairlead.io/internal/prose"
)

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
		} else if left := b.leaving(s.UID, v); left > 0 {
			out.Passing, out.Again, out.Condition, out.Reason = true, left, lb.ConditionStays, lb.Reason{}
		}
		return out
	}
	b.left(s.UID)
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

// leaving says how long to wait, without a word, for other Services of the cluster that have
// lost an address and whose rows still have it. It is 0 if something else is in the way.
func (b *Backend) leaving(uid types.UID, v *ovn.View) time.Duration {
	if v.RouterMissing || len(v.Conflicts) == 0 || slices.ContainsFunc(v.Conflicts, func(r ovn.Rival) bool { return !r.Ours }) {
		b.left(uid)
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	since, waits := b.waiting[uid]
	if !waits {
		since = time.Now()
		b.waiting[uid] = since
	}
	return moveGrace - time.Since(since)
}

// left says that no other Service is in the way.
func (b *Backend) left(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, uid)
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
