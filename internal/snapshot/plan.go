package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/controller"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Plan is what a change would do: the answer of "kubectl fairlead plan".
type Plan struct {
	// Time of the facts. What happens after it may change the outcome.
	Time   metav1.Time `json:"time"`
	Change string      `json:"change"`
	// Moves are addresses that another node, or no node, would announce.
	Moves []Move `json:"moves,omitempty"`
	// Routes are addresses that other nodes would announce by BGP.
	Routes []RouteChange `json:"routes,omitempty"`
	// Services that would have other addresses, or another reason.
	Services []ServiceChange `json:"services,omitempty"`
	// Skipped is what was not decided, and why.
	Skipped []string `json:"skipped,omitempty"`
	Unknown []string `json:"unknown,omitempty"`
}

// Move of one address.
type Move struct {
	Address  string   `json:"address"`
	Services []string `json:"services"`
	// From is the node that announces it now, To the one that would; empty is none.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Cost to clients, in a sentence.
	Cost string `json:"cost"`
	// Reason why no node would announce it.
	Reason string `json:"reason,omitempty"`
}

// ServiceChange is what a Service would have.
type ServiceChange struct {
	Service string   `json:"service"`
	Before  []string `json:"before,omitempty"`
	After   []string `json:"after,omitempty"`
	Reason  string   `json:"reason,omitempty"`
	Message string   `json:"message,omitempty"`
	Cost    string   `json:"cost"`
}

// What changes cost clients.
const (
	costMove     = "no new connection fails; established connections continue through the former node"
	costUnkept   = "no new connection fails; established connections break: keepConnections is 0s"
	costNoGossip = "new connections may fail for a moment; established connections break: gossip is disabled"
	costPlaced   = "new connections fail until the cloud has moved the address; established connections break"
	costStart    = "reachable"
	costSilence  = "not reachable"
	costKeeps    = "none: the Service keeps its address and is reachable"
	costRenumber = "clients must use the new address"
	costFirst    = "none: the Service gets its first address"
	costLoses    = "not reachable: the Service has no address any more"
	costReason   = "none: only the reason changes"
	costNone     = "not reachable: the Service gets no address"
	// costCloudRefuses is if the cloud does not answer, or refuses.
	costCloudRefuses = "unknown: the cloud does not say"
)

// Health sums up: a plan that makes an address unreachable is a problem.
func (p *Plan) Health() Health {
	for _, m := range p.Moves {
		if m.To == "" {
			return Problems
		}
	}
	for _, r := range p.Routes {
		if r.Cost == costSilence {
			return Problems
		}
	}
	for _, c := range p.Services {
		if c.Cost == costLoses || c.Cost == costNone {
			return Problems
		}
	}
	unclear := func(c ServiceChange) bool { return c.Cost == costCloudRefuses }
	if len(p.Unknown) > 0 || slices.ContainsFunc(p.Services, unclear) {
		return Unknown
	}
	return Healthy
}

// PlanRemove predicts what removing a pool does, or addresses from all pools.
func (s *Snapshot) PlanRemove(ctx context.Context, what string) (*Plan, error) {
	if err := s.predictable(); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.Survey.Pools, func(p lb.Pool) bool { return p.Key.String() == what }) {
		return s.plan(ctx, "remove pool "+what, nil, func(all []lb.Pool) []lb.Pool {
			return slices.DeleteFunc(slices.Clone(all), func(p lb.Pool) bool { return p.Key.String() == what })
		})
	}
	span, err := lb.ParseSpan(what)
	if err != nil {
		return nil, fmt.Errorf("there is no pool %q, and %w", what, err)
	}
	return s.plan(ctx, "remove addresses "+what, nil, func(all []lb.Pool) []lb.Pool { return without(all, span) })
}

// without takes a range out of all pools.
func without(all []lb.Pool, span netipx.IPRange) []lb.Pool {
	out := slices.Clone(all)
	for i := range out {
		var b netipx.IPSetBuilder
		for _, r := range out[i].Spans {
			b.AddRange(r)
		}
		b.RemoveRange(span)
		if set, err := b.IPSet(); err == nil {
			out[i].Spans = set.Ranges()
		}
	}
	return out
}

// PlanApply predicts what applying objects does.
func (s *Snapshot) PlanApply(ctx context.Context, objects []client.Object) (*Plan, error) {
	var names []string
	for _, o := range objects {
		names = append(names, strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind)+" "+o.GetName())
	}
	return s.plan(ctx, "apply "+prose.Few(names), objects, nil)
}

// predictable says why nothing can be predicted: a right is missing.
func (s *Snapshot) predictable() error {
	if why := cmp.Or(s.unread("services", "nodes", "agents"), s.Undecided(), s.Unelected()); why != "" {
		return fmt.Errorf("%s: nothing can be predicted", why)
	}
	return nil
}

// plan decides with some objects, or pools, changed, and compares.
func (s *Snapshot) plan(ctx context.Context, change string, changed []client.Object, amend func([]lb.Pool) []lb.Pool) (*Plan, error) {
	p := &Plan{Time: metav1.NewTime(s.At), Change: change, Unknown: s.Unknown}
	if err := s.predictable(); err != nil {
		return nil, err
	}
	all, err := s.objects.with(changed...)
	if err != nil {
		return nil, err
	}
	after, err := s.examine(ctx, all, func(f *controller.Facts) { f.Amend = amend })
	if err != nil {
		return nil, err
	}
	for i := range after.Services {
		if c, differs := s.compareService(&after.Services[i]); differs {
			p.Services = append(p.Services, c)
		}
	}
	p.Moves = s.compareElections(p, all, after, amend)
	if servesOVN(s.Config) {
		s.compareBindings(p, all, after)
	}
	return p, s.compareClouds(ctx, p, all, after, changed)
}

// compareService says what a Service would have that it has not now.
func (s *Snapshot) compareService(after *controller.Surveyed) (c ServiceChange, differs bool) {
	if !after.Settled {
		return c, false
	}
	var had []netip.Addr
	var reason lb.Reason
	before := s.Service(after.Key)
	if before != nil && before.Settled {
		had, reason = before.Verdict.Addresses, before.Verdict.Reason
	}
	has := after.Verdict.Addresses
	if slices.Equal(had, has) && reason.Code == after.Verdict.Reason.Code {
		return c, false
	}
	c = ServiceChange{Service: after.Key.String(), Before: prose.Texts(had), After: prose.Texts(has),
		Reason: string(after.Verdict.Reason.Code), Message: after.Verdict.Reason.Text}
	switch {
	case slices.Equal(had, has) && after.Verdict.Reason.Code == lb.OutOfPool:
		c.Cost = costKeeps
	case before == nil && len(has) == 0:
		c.Cost = costNone
	case slices.Equal(had, has):
		c.Cost = costReason
	case len(had) == 0:
		c.Cost = costFirst
	case len(has) == 0:
		c.Cost = costLoses
	default:
		c.Cost = costRenumber
	}
	return c, true
}

// compareElections says which addresses another node would announce.
func (s *Snapshot) compareElections(p *Plan, all *objects, survey *controller.Survey, amend func([]lb.Pool) []lb.Pool) (out []Move) {
	now, voters := s.announced(), s.voters(all.nodes())
	ballots := s.ballotsOf(all, survey, amend)
	for _, a := range sortedAddrs(ballots) {
		b := ballots[a]
		if b.leased {
			p.Skipped = append(p.Skipped, a.String()+": assigned by DHCP; the agents decide by the lease")
			continue
		}
		from, outcome := now[a].Node, b.elect(voters)
		if b.node != "" {
			outcome = elect.Outcome{}
		}
		if change, differs := s.compareRoutes(b, voters, outcome.Owner != ""); differs {
			p.Routes = append(p.Routes, change)
		}
		if outcome.Owner == from {
			continue
		}
		m := Move{Address: a.String(), From: from, To: outcome.Owner, Cost: s.moveCost(b)}
		for _, of := range b.services {
			m.Services = append(m.Services, of.Request.Service.String())
		}
		switch {
		case outcome.Owner == "":
			m.Cost, m.Reason = costSilence, outcome.String()
		case from == "":
			m.Cost = costStart
		}
		out = append(out, m)
	}
	return out
}

// moveCost is what a planned move of an address costs clients.
func (s *Snapshot) moveCost(b *ballot) string {
	switch first := b.services[0]; {
	case first.Placed:
		return costPlaced
	case s.Install.NoGossip:
		return costNoGossip
	case b.pools("").Keep(b.addr, first, s.Install.KeepConnections) <= 0:
		return costUnkept
	}
	return costMove
}
