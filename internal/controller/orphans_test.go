package controller

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/kubernetes/fake"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

// reaper is a backend with pools that has left something behind.
type reaper struct {
	keeper
	left  []lb.Orphan
	fails error
}

func (r *reaper) Orphans(_ context.Context, exists lb.Exists) (out []lb.Orphan, _ error) {
	for _, o := range r.left {
		if !o.Lives(exists) {
			out = append(out, o)
		}
	}
	return out, r.fails
}

func (r *reaper) Remove(context.Context, []lb.Orphan) (lb.Plan, error) { return lb.Plan{}, nil }

// What is left behind is told once, also if it cannot be looked for now and then, and
// counted, be there pools or not.
func TestOrphansAreToldOnceAndCounted(t *testing.T) {
	orphaned := lb.LoadBalancerOrphaned.With("web", "1", "shop/gone")
	r := &reaper{keeper: keeper{speaker: speaker{dialect: "stock"}}, left: []lb.Orphan{{ID: "1", UID: "gone", Reason: orphaned}, {ID: "2", UID: "web", Reason: orphaned}}}
	s := serviceOf("web", "", false)
	c := commonOf(classesOf(&config.Configuration{Classes: []config.Class{{Backend: "has"}}}, map[config.Backend]backend.Backend{"has": r}), objectsOf(t, s), fake.NewClientset(s))
	svc := &services{common: c, name: "has", backend: c.classes.backends["has"]}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{t.Context(), c.ledger, []*services{svc}, nil, func() bool { return true }, lb.Table{lb.LoadBalancerOrphaned: {On: "Service"}}})
	for _, look := range []struct {
		fails         error
		gone          bool
		events, count int
	}{{events: 1, count: 1}, {count: 1}, {fails: errors.New("away"), count: 1}, {count: 1}, {gone: true}} {
		if r.fails = look.fails; look.gone {
			r.left = nil
		}
		if err := svc.lookForOrphans(t.Context()); !errors.Is(err, look.fails) {
			t.Fatal(err)
		}
		if got := told(c.events); len(got) != look.events {
			t.Errorf("%+v: told %q", look, got)
		}
		all, err := registry.Gather()
		all = slices.DeleteFunc(all, func(m *dto.MetricFamily) bool { return m.GetName() != "fairlead_services" })
		if err != nil || len(all) != 1 || len(all[0].GetMetric()) != 1 || all[0].GetMetric()[0].GetGauge().GetValue() != float64(look.count) {
			t.Errorf("%+v: counted %v, %v", look, all, err)
		}
	}
}
