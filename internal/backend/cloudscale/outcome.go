package cloudscale

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// failed is the outcome of a look that went wrong.
func failed(w lb.Want, err error) lb.Outcome {
	out := lb.Outcome{Condition: lb.ConditionSays}
	text := err.Error()
	after, passing := cloud.RetryAfter(err)
	e, _ := errors.AsType[*cloud.Error](err)
	switch {
	case cloud.IsUnauthorized(err):
		out.Reason = lb.TokenInvalid.With(text)
	case cloud.IsForbidden(err):
		out.Reason = lb.TokenReadOnly.With(text)
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
func dry(o *lb.Outcome, seen *Observation) {
	switch {
	case seen.Blocked != nil:
		o.Reason = *seen.Blocked
	case seen.busy:
		o.Reason, o.Passing = lb.CloudBusy.With(seen.Desired.Name), true
	default:
		o.Reason, o.Again = lb.ChangesPlanned.With(o.Plan), 0
	}
}

// conclude says how the Service stands after a look at which nothing went wrong.
func (b *Backend) conclude(out *lb.Outcome, w lb.Want, seen *Observation, result Result) {
	own := seen.Actual.lb()
	if result.Created != nil {
		own = result.Created
	}
	waiting := result.Busy || seen.busy
	published := w.Service.Ingress
	switch {
	case w.Gone:
		gone(out, &w.Service, seen, waiting)
		return
	case seen.Blocked != nil:
		out.Reason = *seen.Blocked
	case own == nil || waiting && len(published) == 0:
		out.Reason, out.Passing = lb.CloudBusy.With(seen.Desired.Name), true
		out.Marks.Annotations = b.annotations(seen, result)
		return
	default:
		if !waiting {
			out.Ingress = ingress(&seen.Desired, own, b.have.floatingIPs.Peek())
			published = out.Ingress
		}
		served(out, own, published)
	}
	out.Condition, out.Marks.Annotations = lb.ConditionSays, b.annotations(seen, result)
}

// served says how a Service stands that has what it asks for, as far as it can
// be had.
func served(o *lb.Outcome, own *cloudscale.LoadBalancer, published []lb.Ingress) {
	o.Reason = lb.EnsuredLoadBalancer.With(own.Name, prose.And(texts(published)))
	if why := refusals(o.Plan, kindFloatingIP); why != "" {
		o.Reason = Reasons.With(FloatingAddressRefused, why)
	}
	if why := refusals(o.Plan, kindLoadBalancer); why != "" {
		o.Reason = lb.ChangeRefused.With(why)
	}
}

// gone says how a Service stands that shall leave nothing.
func gone(o *lb.Outcome, s *lb.Service, seen *Observation, waiting bool) {
	if !o.Plan.Empty() {
		o.Tell = append(o.Tell, lb.DeletingLoadBalancer.With(o.Plan))
	}
	switch {
	case seen.Blocked != nil:
		o.Reason, o.Condition = lb.DeleteLoadBalancerFailed.With(strings.TrimSuffix(seen.Blocked.Text, ".")), lb.ConditionSays
	case waiting:
		o.Reason = lb.DeletingLoadBalancer.With(o.Plan)
	default:
		clean := released(s)
		o.Gone, o.Reason, o.Condition, o.Marks = true, lb.DeletedLoadBalancer.With(), clean.Condition, clean.Marks
	}
}

// refusals of one kind, as a sentence.
func refusals(p lb.Plan, kind string) string {
	var out []string
	for _, s := range p.Refused() {
		if s.Kind == kind {
			out = append(out, s.Key()+": "+s.Why)
		}
	}
	return strings.Join(out, "; ")
}

// annotations that the Service shall have once it has a load balancer.
func (b *Backend) annotations(seen *Observation, result Result) map[string]string {
	own := seen.Actual.lb()
	if result.Created != nil {
		own = result.Created
	}
	if own == nil || seen.Desired.Gone || seen.Desired.Nothing {
		return nil
	}
	out := map[string]string{
		compat.AnnotationUUID:          own.UUID,
		compat.AnnotationConfigVersion: strconv.Itoa(int(seen.Version)),
		compat.AnnotationCreating:      "",
	}
	if seen.Desired.Zone == "" {
		out[compat.AnnotationZone] = own.Zone.Slug
	}
	return out
}

// ingress is what is published: a host name, or addresses. A floating IP takes
// the place of the addresses of its family, for it is the one that stays.
func ingress(d *Desired, own *cloudscale.LoadBalancer, floating []cloudscale.FloatingIP) []lb.Ingress {
	if d.Hostname != "" {
		return []lb.Ingress{{Hostname: d.Hostname}}
	}
	var addresses []netip.Addr
	if d.PublishFloatingIPs {
		for _, f := range floating {
			wanted := slices.ContainsFunc(d.FloatingIPs, func(p netip.Prefix) bool { return sameNetwork(p, f.Network) })
			if wanted && f.Network.IsSingleIP() && f.LoadBalancer != nil && f.LoadBalancer.UUID == own.UUID {
				addresses = append(addresses, f.Network.Addr())
			}
		}
		slices.SortFunc(addresses, netip.Addr.Compare)
	}
	floats := slices.Clone(addresses)
	for _, v := range own.VIPAddresses {
		if !slices.ContainsFunc(floats, func(a netip.Addr) bool { return a.Is4() == v.Address.Is4() }) {
			addresses = append(addresses, v.Address)
		}
	}
	out := make([]lb.Ingress, 0, len(addresses))
	for _, a := range addresses {
		out = append(out, lb.Ingress{IP: a.String(), Mode: d.IPMode})
	}
	return out
}

func texts(in []lb.Ingress) []string {
	var out []string
	for _, i := range in {
		out = append(out, i.IP+i.Hostname)
	}
	return out
}

// news says as what a plan is told, if it is: a change that takes several looks
// is told at the first. A plan undoes what somebody else did if all was as it
// should be, and nothing else is wanted since.
func (b *Backend) news(w lb.Want, seen *Observation, p lb.Plan) lb.Code {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, wanted := b.memos[w.Service.UID], fingerprint(&seen.Desired)
	switch {
	case len(p.Steps) == len(p.Refused()) || w.Gone:
		return ""
	case m.settled == wanted:
		return lb.DriftRepaired
	case m.told == wanted:
		return ""
	case seen.Actual.lb() == nil:
		return lb.EnsuringLoadBalancer
	default:
		return lb.UpdatedLoadBalancer
	}
}

// remember what the next look has to know.
func (b *Backend) remember(w lb.Want, seen *Observation, result Result, err error) {
	if seen.busy {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.memos[w.Service.UID]
	m, wanted := memo{told: before.told, missing: before.missing, mark: before.mark}, fingerprint(&seen.Desired)
	if result.Done > 0 {
		m.told = wanted
	}
	switch {
	case result.Unknown:
		m.created = seen.Actual.Now
	case err == nil && result.Again == 0 && !seen.Desired.Nothing:
		m.settled, m.told = wanted, wanted
	}
	if b.memos[w.Service.UID] = m; w.Gone && err == nil && !result.Busy {
		delete(b.memos, w.Service.UID)
	}
}

// fingerprint is the same for the same Desired. The zone does not count: it is
// written down by us, and never changed.
func fingerprint(d *Desired) string {
	settings := d.Settings
	settings.Zone = ""
	selector := ""
	if settings.NodeSelector != nil {
		selector, settings.NodeSelector = settings.NodeSelector.String(), nil
	}
	raw, err := json.Marshal(struct {
		Settings  compat.Settings
		Selector  string
		Tags      cloudscale.Tags
		Endpoints []endpoint
		Contested int
		Members   bool
	}{settings, selector, d.Tags, d.Endpoints, len(d.Contested), d.MembersOnly})
	if err != nil { // all of it is plain data
		panic(err)
	}
	return string(raw)
}
