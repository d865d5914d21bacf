package metallb

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/script"
)

// TestObjects reads testdata/*.txtar: objects of MetalLB's kinds in "objects", and
// below what they are translated to: "pools" and "problems". Where there is a file
// "orphans", it has the name of a pool that is gone in its first line and then the
// advertisements of its addresses. "events" has the events of reasons that lines start
// with. "peers", "routes" and "bgp problems" have what the objects about BGP mean, among
// Nodes and Secrets.
func TestObjects(t *testing.T) {
	script.Sections(t, func() script.Section {
		objects, bgp := &Objects{}, &BGP{}
		return func(t *testing.T, name, text string) string {
			switch pools, problems := objects.Translate(); name {
			case "objects":
				objects = read(t, []byte(text))
				inAnyOrder(t, objects)
				bgp = readBGP(t, text)
				bgpInAnyOrder(t, bgp)
			case "peers":
				return showPeers(bgp.Translate().Peers)
			case "routes":
				return showRoutes(bgp.Translate().Routes)
			case "bgp problems":
				return showProblems(bgp.Translate().Problems)
			case "pools":
				return showPools(pools)
			case "problems":
				return showProblems(problems)
			case "orphans":
				pool, _, _ := strings.Cut(text, "\n")
				return pool + "\n" + showAdvertisements(objects.Orphans(pool, nil))
			case "events":
				return showEvents(t, text)
			default:
				t.Errorf("what is %q?", name)
			}
			return text
		}
	})
}

// inAnyOrder checks that the order in which the objects are listed changes
// nothing: lists from a cache come in a different one each time.
func inAnyOrder(t *testing.T, o *Objects) {
	t.Helper()
	pools, problems := o.Translate()
	want := showPools(pools) + showProblems(problems)
	shuffled := *o
	for range 50 {
		shuffled.Pools = shuffle(o.Pools)
		shuffled.Advertisements = shuffle(o.Advertisements)
		pools, problems := shuffled.Translate()
		if got := showPools(pools) + showProblems(problems); got != want {
			t.Fatalf("another order of the objects changes what they say (-want +got):\n%s", gocmp.Diff(want, got))
		}
	}
}

func shuffle[T any](in []T) []T {
	out := slices.Clone(in)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// read reads objects, in the namespace metallb-system if they name none.
func read(t testing.TB, text []byte) *Objects {
	t.Helper()
	o := &Objects{Namespace: "metallb-system"}
	for document := range strings.SplitSeq(string(text), "---\n") {
		var m metav1.PartialObjectMetadata
		decode(t, document, &m)
		if m.Namespace == "" {
			m.Namespace = o.Namespace
		}
		switch m.Kind {
		case KindPool:
			var p metallb.IPAddressPool
			decode(t, document, &p)
			p.Namespace = m.Namespace
			o.Pools = append(o.Pools, p)
		case KindAdvertisement:
			var ad metallb.L2Advertisement
			decode(t, document, &ad)
			ad.Namespace = m.Namespace
			o.Advertisements = append(o.Advertisements, ad)
		}
	}
	return o
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

func showProblems(problems []Problem) string {
	var out strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&out, "%s %s: %s\n", p.Kind, p.Object, p.Reason)
	}
	return out.String()
}

func showPools(pools []lb.Pool) string {
	var out strings.Builder
	for i := range pools {
		p := &pools[i]
		var spans, facts []string
		for _, s := range p.Spans {
			spans = append(spans, lb.SpanString(s))
		}
		for _, fact := range []struct {
			is   bool
			text string
		}{
			{p.SinglePool, "single pool"}, {p.Pinned, "pinned"}, {p.ManualOnly, "on request"}, {p.SkipIPv4Ends, "without .0 and .255"},
			{p.Priority != 0, fmt.Sprintf("priority %d", p.Priority)},
		} {
			if fact.is {
				facts = append(facts, fact.text)
			}
		}
		fmt.Fprintf(&out, "%s: %s (%s)\n", p.Key, strings.Join(spans, ", "), strings.Join(facts, ", "))
		if p.Namespaces != nil {
			fmt.Fprintf(&out, "  namespaces: %s\n", strings.Join(sets.List(p.Namespaces), ", "))
		}
		if p.NamespaceSelectors != nil {
			fmt.Fprintf(&out, "  namespaces with %s\n", showSelectors(p.NamespaceSelectors))
		}
		if p.ServiceSelectors != nil {
			fmt.Fprintf(&out, "  Services with %s\n", showSelectors(p.ServiceSelectors))
		}
		if p.Invalid != nil {
			fmt.Fprintf(&out, "  %s\n", p.Invalid.Code)
		}
		out.WriteString(showAdvertisements(p.Advertisements))
	}
	return out.String()
}

func showAdvertisements(ads []lb.Advertisement) string {
	var out strings.Builder
	for _, ad := range ads {
		out.WriteString("  advertised")
		if ad.ServiceSelectors != nil {
			fmt.Fprintf(&out, " for Services with %s", showSelectors(ad.ServiceSelectors))
		}
		out.WriteString(" by nodes")
		if ad.NodeSelectors != nil {
			fmt.Fprintf(&out, " with %s", showSelectors(ad.NodeSelectors))
		}
		if ad.Interfaces != nil {
			fmt.Fprintf(&out, " on %s", strings.Join(ad.Interfaces, ", "))
		}
		for _, p := range ad.Preferred {
			fmt.Fprintf(&out, ", %+d for %s", p.Weight, showSelectors([]labels.Selector{p.Selector}))
		}
		out.WriteString("\n")
	}
	return out.String()
}

func showSelectors(selectors []labels.Selector) string {
	var out []string
	for _, s := range selectors {
		_, selectable := s.Requirements()
		switch {
		case !selectable:
			out = append(out, "(nothing)")
		case s.Empty():
			out = append(out, "(anything)")
		default:
			out = append(out, s.String())
		}
	}
	return strings.Join(out, " or ")
}

// showEvents tells the reasons whose codes lines start with.
func showEvents(t *testing.T, lines string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(lines) {
		code, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		e := Dialect{}.Voice().Event(reasonOf(t, lb.Code(code)), &lb.Request{Service: types.NamespacedName{Namespace: "shop", Name: "web"}}, &lb.Verdict{Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}})
		fmt.Fprintf(&out, "%s: %s by %s: %s\n", code, e.Reason, cmp.Or(e.Component, "Fairlead"), e.Message)
	}
	return out.String()
}

// reasonOf is a reason of a table: only that knows whether all is well.
func reasonOf(t *testing.T, code lb.Code) lb.Reason {
	t.Helper()
	table := lb.Common
	if _, own := Reasons[code]; own {
		table = Reasons
	}
	if _, known := table[code]; !known {
		t.Fatalf("what is reason %q?", code)
	}
	r := table.With(code, table[code].Sample...)
	r.Text = "It is so."
	return r
}
