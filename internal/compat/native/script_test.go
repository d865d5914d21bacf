package native

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/script"
)

// TestScripts reads testdata/*.txtar: Pools in "objects", and in "pools" what they
// are translated to; "unread" says why they cannot be read. Then Services, each in
// "service", followed by what it asks for in "asks" and "asks, in a class of other
// pools". "events" has the events of reasons that lines start with.
func TestScripts(t *testing.T) {
	script.Sections(t, func() script.Section {
		reading := Dialect{}.Read(compat.Objects{})
		var s *lb.Service
		return func(t *testing.T, name, text string) string {
			asks := func(dialects ...lb.Dialect) string {
				return showRequest(compat.Readings{{Dialect: Dialect{}, Reading: reading}}.Request(s, nil, compat.Class{Dialects: dialects}))
			}
			switch name {
			case "objects":
				reading = Dialect{}.Read(objects(t, text))
			case "unread":
				reading = Dialect{}.Read(compat.Objects{Unread: map[schema.GroupVersionKind]string{KindPool: strings.TrimSpace(text)}})
			case "pools":
				return showPools(reading.Pools())
			case "service":
				s = kubeapi.Service(parse[corev1.Service](t, text))
			case "asks":
				return asks(lb.Native)
			case "asks, in a class of other pools":
				return asks("metallb")
			case "events":
				return showEvents(t, text)
			default:
				t.Errorf("what is %q?", name)
			}
			return text
		}
	})
}

func objects(t *testing.T, text string) compat.Objects {
	t.Helper()
	out := compat.Objects{All: map[schema.GroupVersionKind][]compat.Object{}}
	for document := range strings.SplitSeq(text, "---\n") {
		out.All[KindPool] = append(out.All[KindPool], parse[v1alpha1.Pool](t, document))
	}
	return out
}

func showPools(pools []lb.Pool) string {
	var out strings.Builder
	for i := range pools {
		p := &pools[i]
		var facts []string
		for _, fact := range []struct {
			is   bool
			text string
		}{
			{p.Priority != 0, fmt.Sprintf("priority %d", p.Priority)}, {p.Descending, "highest first"}, {p.ManualOnly, "on request"},
			{p.Disabled, "disabled"}, {p.Exclusive, "not shared"}, {p.Quota != 0, fmt.Sprintf("%d for each namespace", p.Quota)},
		} {
			if fact.is {
				facts = append(facts, fact.text)
			}
		}
		fmt.Fprintf(&out, "%s: %s (%s)\n", p.Key, showSpans(p.Spans), strings.Join(facts, ", "))
		line := func(what, text string) {
			if text != "" {
				fmt.Fprintf(&out, "  %s %s\n", what, text)
			}
		}
		line("without", showSpans(p.Excluded))
		line("for namespaces", strings.Join(sets.List(p.Namespaces), ", "))
		line("for namespaces with", showSelectors(p.NamespaceSelectors))
		line("for Services with", showSelectors(p.ServiceSelectors))
		for _, a := range slices.SortedFunc(maps.Keys(p.Reserved), netip.Addr.Compare) {
			line("reserved:", fmt.Sprintf("%s for %s", a, p.Reserved[a]))
		}
		for _, ad := range p.Advertisements {
			line("announced on", strings.Join(ad.Interfaces, ", "))
			line("announced by nodes with", showSelectors(ad.NodeSelectors))
			for _, x := range ad.Preferred {
				line("preferred:", fmt.Sprintf("%+d for %s", x.Weight, x.Selector))
			}
			if ad.Failback {
				line("with", "failback")
			}
		}
		for _, r := range p.Routes {
			fmt.Fprintf(&out, "  by BGP to peers %q as /%d and /%d, localPref %d, communities %v, nodes %q\n", r.Peers, r.Aggregation[lb.IPv4], r.Aggregation[lb.IPv6], r.LocalPref, r.Communities, showSelectors(r.NodeSelectors))
		}
		if p.Invalid != nil {
			fmt.Fprintf(&out, "  %s\n", p.Invalid)
		}
	}
	return out.String()
}

func showSpans(spans []netipx.IPRange) string {
	var out []string
	for _, s := range spans {
		out = append(out, lb.SpanString(s))
	}
	return strings.Join(out, ", ")
}

func showSelectors(selectors []labels.Selector) string {
	var out []string
	for _, s := range selectors {
		if _, selectable := s.Requirements(); !selectable {
			out = append(out, "(nothing)")
			continue
		}
		out = append(out, s.String())
	}
	return strings.Join(out, " or ")
}

func showRequest(r lb.Request) string {
	var out strings.Builder
	line := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "[]" && text != "false" && text != "[false false]" {
			fmt.Fprintf(&out, "%s: %s\n", name, text)
		}
	}
	line("families", r.Families)
	line("policy", map[lb.FamilyPolicy]string{lb.PreferDualStack: "both if possible", lb.RequireDualStack: "both"}[r.Policy])
	line("addresses", r.Addresses)
	line("pool", r.Pool)
	line("share", r.ShareKey)
	line("backends", r.Backends)
	line("reallocate", r.Reallocate)
	line("from", r.From)
	line("DHCP", r.DHCP)
	line("leased", r.Leased)
	if !r.Route.Equal(&lb.RouteRequest{}) {
		line("routes", fmt.Sprintf("communities %v %q, local preference %d (%v), drain %v, wrong: %s", r.Route.Communities, r.Route.Aliases, r.Route.LocalPref, r.Route.HasLocalPref, r.Route.Drain, r.Route.Wrong))
	}
	line("voice", r.Voice)
	for _, reason := range []*lb.Reason{r.Unread, r.Invalid} {
		if reason != nil {
			fmt.Fprintf(&out, "%s\n", reason)
		}
	}
	return out.String()
}

// showEvents tells the reasons whose codes lines start with.
func showEvents(t *testing.T, lines string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(lines) {
		code, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		e := Dialect{}.Voice().Event(reasonOf(t, lb.Code(code)), &lb.Request{}, &lb.Verdict{})
		fmt.Fprintf(&out, "%s: %s by %s: %s\n", code, e.Reason, cmp.Or(e.Component, "Fairlead"), e.Message)
	}
	return out.String()
}

// reasonOf is a reason of a table: only that knows whether all is well.
func reasonOf(t *testing.T, code lb.Code) lb.Reason {
	t.Helper()
	table := lb.Common
	if _, known := table[code]; !known {
		t.Fatalf("what is reason %q?", code)
	}
	r := table.With(code, table[code].Sample...)
	r.Text = "It is so."
	return r
}
