package lb

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestImpactsAreOrdered(t *testing.T) {
	all := []Impact{ImpactNone, ImpactNewConnections, ImpactSeconds, ImpactMinutes, ImpactRefused}
	if !slices.IsSorted(all) {
		t.Errorf("%v are not in order", all)
	}
	var names []string
	for _, i := range append(all, 9) {
		names = append(names, i.String())
	}
	if diff := cmp.Diff([]string{"none", "new connections", "seconds", "minutes", "refused", "Impact(9)"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestPlanAsItIsRead(t *testing.T) {
	member := Step{Verb: VerbCreate, Kind: "member", Part: "tcp/http"}
	named := func(s Step, name string) Step { s.Name = name; return s }
	leaving := Step{Verb: VerbUpdate, Kind: "member", Name: "10.0.0.3:30080", Part: "tcp/http", Changes: []Change{{"enabled", "true", "false"}}}
	for _, test := range []struct {
		name   string
		steps  []Step
		want   string
		impact Impact
	}{
		{"nothing", nil, "nothing to do", ImpactNone},
		{"a new port", []Step{
			{Verb: VerbCreate, Kind: "pool", Name: "tcp/http", Part: "tcp/http"},
			named(member, "10.0.0.1:30080"), named(member, "10.0.0.2:30080"),
			{Verb: VerbCreate, Kind: "health monitor", Part: "tcp/http"},
			{Verb: VerbCreate, Kind: "listener", Name: "tcp/80", Part: "tcp/http"},
		}, "create pool tcp/http; create members 10.0.0.1:30080, 10.0.0.2:30080 of tcp/http; create health monitor of tcp/http; create listener tcp/80 of tcp/http; impact: none", ImpactNone},
		{"updates", []Step{{Verb: VerbUpdate, Kind: "listener", Name: "tcp/80", Impact: ImpactNewConnections,
			Changes: []Change{{"allowed_cidrs", "[]", "[192.0.2.0/24]"}, {"timeout_client_data_ms", "50000", "1000"}}}},
			"update listener tcp/80: allowed_cidrs [] → [192.0.2.0/24], timeout_client_data_ms 50000 → 1000 (new connections); impact: new connections", ImpactNewConnections},
		{"something for later", []Step{leaving, {Verb: VerbDelete, Kind: "member", Name: "10.0.0.3:30080", Part: "tcp/http", Later: time.Second}},
			"update member 10.0.0.3:30080 of tcp/http: enabled true → false; later delete member 10.0.0.3:30080 of tcp/http; impact: none", ImpactNone},
		{"what is not alike stays apart", []Step{named(member, "a"), {Verb: VerbDelete, Kind: "member", Name: "b", Part: "tcp/http"}},
			"create member a of tcp/http; delete member b of tcp/http; impact: none", ImpactNone},
		{"refused, and the rest is done", []Step{
			{Verb: VerbRefuse, Kind: "load balancer", Name: "web", Why: "its flavor stays lb-standard", Impact: ImpactRefused},
			{Verb: VerbDelete, Kind: "listener", Name: "tcp/80", Impact: ImpactSeconds},
		}, "refuse load balancer web: its flavor stays lb-standard; delete listener tcp/80 (seconds); impact: seconds", ImpactSeconds},
		{"only refused", []Step{{Verb: VerbRefuse, Kind: "load balancer", Name: "web", Why: "no", Impact: ImpactRefused}},
			"refuse load balancer web: no; impact: refused", ImpactRefused},
	} {
		p := Plan{Steps: test.steps}
		if diff := cmp.Diff(test.want, p.String()); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		if got := p.Impact(); got != test.impact {
			t.Errorf("%s: impact %s, want %s", test.name, got, test.impact)
		}
	}
}
