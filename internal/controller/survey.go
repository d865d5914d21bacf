package controller

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/apikinds"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/ipam"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// kindNode is needed to tell which agents are lost.
var kindNode = corev1.SchemeGroupVersion.WithKind("Node")

// Facts are what a survey is about: objects that somebody has read.
type Facts struct {
	client.Reader
	// Lacks says of a kind whether its objects could not be read, and why: that it is
	// not there, if nothing else is said.
	Lacks func(kind schema.GroupVersionKind) (why string, lacks bool)
	// Amend, if set, changes the pools that were read: what would be if they were these?
	Amend func([]lb.Pool) []lb.Pool
}

// Survey is what a controller that starts now would decide about all Services. It
// writes nothing, and asks no cloud.
type Survey struct {
	// Services of type LoadBalancer, by namespace and name.
	Services []Surveyed
	Usage    []ipam.PoolUsage
	// Free returns ranges of addresses that a pool can hand out, at most limit of them.
	Free func(pool lb.PoolKey, f lb.Family, limit int) []netipx.IPRange
	// Pools of all formats, without those of clouds.
	Pools []lb.Pool
	// Warnings about objects of all formats.
	Warnings []lb.Warning
	// Lost are the agents that do not answer, and why.
	Lost map[string]lb.Reason
	// Routing is what agents report about routers.
	Routing Routing
	// AgentsKnown says whether Agents and Nodes could be read. Without it, nothing is known of
	// who announces what.
	AgentsKnown bool
}

// Surveyed is one Service, and what is decided about it.
type Surveyed struct {
	*lb.Service
	// Class that the configuration has for it; nil if it has none.
	Class *config.Class
	// Ignored is why the Service is left alone although its class is served.
	Ignored string
	// Settled says that its addresses are from pools, and that Verdict is what it
	// should have.
	Settled bool
	Request lb.Request
	Verdict lb.Verdict
	// Announced says that agents announce the addresses of its class.
	Announced bool
	// Silences are why nobody answers for its addresses, by address. What has just
	// begun is among them, and may be over in a moment.
	Silences map[string]lb.Reason
}

// Examine makes a survey of facts, for a controller with these options. It uses
// Config, Dialects, Backends and Reasons.
func Examine(ctx context.Context, o Options, facts Facts) (*Survey, error) {
	var list corev1.ServiceList
	if err := facts.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list services: %w", err)
	}
	c := newClasses(o)
	l := newLedger(func([]types.NamespacedName) {})
	l.alloc.SetWords(c.words())
	var all []lb.Service
	for i := range list.Items {
		l.setSpecIPs(nil, &list.Items[i])
		if s := kubeapi.Service(&list.Items[i]); s.LoadBalancer {
			all = append(all, *s)
		}
	}
	slices.SortFunc(all, func(a, b lb.Service) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	out := &Survey{}
	shared := &common{cache: facts, classes: c, ledger: l, log: slog.New(slog.DiscardHandler)}
	shared.readings = newReadings(c, readableOf{facts}, func(_ compat.Dialect, w lb.Warning) { out.Warnings = append(out.Warnings, w) })
	shared.readings.cache, shared.readings.amend = facts, facts.Amend
	if shared.agents = newAgents(c, readableOf{facts}, l.wake); shared.agents != nil {
		shared.agents.cache, shared.agents.reasons = facts, o.Reasons
	}
	imported, err := (&importer{common: shared}).importThese(ctx, all)
	if err != nil {
		return nil, err
	}
	silences, err := out.readAgents(ctx, shared.agents, facts)
	if err != nil {
		return nil, err
	}
	out.Usage, out.Pools, out.Free = l.usage(), shared.readings.allPools(), l.alloc.Free
	decided := map[types.NamespacedName]lb.Request{}
	namespaces, err := (&importer{common: shared}).allNamespaceLabels(ctx)
	if err != nil {
		return nil, err
	}
	for _, i := range imported {
		decided[i.service.Key] = (&importer{common: shared}).requestOf(i, namespaces)
	}
	for i := range all {
		out.Services = append(out.Services, surveyed(shared, &all[i], decided, silences))
	}
	return out, nil
}

// readAgents takes over which agents are lost, and for which addresses nobody answers.
func (s *Survey) readAgents(ctx context.Context, a *agents, facts Facts) (map[string]silence, error) {
	if _, lacking := facts.Lacks(kindNode); lacking || a == nil {
		return nil, nil
	}
	list, nodes, err := a.list(ctx)
	if err != nil || list == nil {
		return nil, err
	}
	s.AgentsKnown = true
	s.Lost = lostAgents(list, nodes)
	s.Routing = routingOf(list, s.Lost, a.reasons)
	return findSilence(list, s.Lost, a.reasons), nil
}

func surveyed(c *common, s *lb.Service, decided map[types.NamespacedName]lb.Request, silences map[string]silence) Surveyed {
	out := Surveyed{Service: s, Class: c.classes.listed(s), Ignored: c.classes.ignored(s), Silences: map[string]lb.Reason{}}
	if out.Request, out.Settled = decided[s.Key]; out.Settled {
		out.Verdict, _ = c.ledger.alloc.Verdict(s.Key)
		c.remark(s, &out.Request, &out.Verdict)
	}
	if out.Class == nil || out.Ignored != "" {
		return out
	}
	if b := c.classes.backends[out.Class.Backend]; b != nil {
		out.Announced = b.needs().Agents
	} else {
		out.Announced = out.Class.Backend.Places()
	}
	out.hear(silences)
	return out
}

// hear takes over for which addresses nobody answers.
func (s *Surveyed) hear(silences map[string]silence) {
	s.Silences = map[string]lb.Reason{}
	for _, a := range s.Published() {
		if silence, is := silences[a.String()]; is && s.Announced {
			s.Silences[a.String()] = silence.reason
		} else if silence, is := silences[everyAddress]; is && s.Announced {
			s.Silences[a.String()] = silence.reason
		}
	}
}

// WithAgents returns the survey with what agents report now. What is decided about
// addresses stays as it is: that takes a while for many Services, and agents report often.
func (s *Survey) WithAgents(list []v1alpha1.Agent, nodes []corev1.Node, known lb.Table) *Survey {
	if !s.AgentsKnown {
		return s
	}
	out := *s
	out.Lost = lostAgents(list, nodes)
	out.Routing = routingOf(list, out.Lost, known)
	silences := findSilence(list, out.Lost, known)
	out.Services = slices.Clone(s.Services)
	for i := range out.Services {
		out.Services[i].hear(silences)
	}
	return &out
}

// Announcer returns the node that announces each address, as agents report it.
func Announcer(list []v1alpha1.Agent, nodes []corev1.Node) map[string]string {
	out := map[string]string{}
	for address, a := range announcers(list, nodes) {
		out[address] = a.node
	}
	return out
}

// readableOf has the kinds of which objects were read.
type readableOf struct{ facts Facts }

// Has says whether a kind was read.
func (r readableOf) Has(kind schema.GroupVersionKind) bool {
	_, lacks := r.facts.Lacks(kind)
	return !lacks
}

// Lacks says why a kind was not read.
func (r readableOf) Lacks(kind schema.GroupVersionKind) (string, bool) { return r.facts.Lacks(kind) }

// Follow does nothing: what was read does not change.
func (r readableOf) Follow(schema.GroupVersionKind, apikinds.Follower) error { return nil }
