package metallb

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

var update = flag.Bool("update", false, "write what the files in testdata are translated to")

// TestObjects reads testdata/*.txtar: objects of MetalLB's kinds in "objects", and
// below what they are translated to: "pools" and "problems". Where there is a file
// "orphans", it has the name of a pool that is gone in its first line and then the
// advertisements of its addresses. With -update these are written anew.
func TestObjects(t *testing.T) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			objects := read(t, archive.Files[0].Data)
			for i := range archive.Files[1:] {
				f := &archive.Files[i+1]
				got := f.Name + "?"
				switch pools, problems := objects.Translate(); f.Name {
				case "pools":
					got = showPools(pools)
				case "problems":
					got = showProblems(problems)
				case "orphans":
					name, _, _ := strings.Cut(string(f.Data), "\n")
					got = name + "\n" + showAdvertisements(objects.Orphans(name))
				}
				if d := cmp.Diff(string(f.Data), got); d != "" && !*update {
					t.Errorf("%s differ (-want +got):\n%s", f.Name, d)
				}
				f.Data = []byte(got)
			}
			if *update {
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			inAnyOrder(t, objects)
		})
	}
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
		shuffled.Unserved = shuffle(o.Unserved)
		pools, problems := shuffled.Translate()
		if got := showPools(pools) + showProblems(problems); got != want {
			t.Fatalf("another order of the objects changes what they say (-want +got):\n%s", cmp.Diff(want, got))
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
		default:
			o.Unserved = append(o.Unserved, Unserved{m.Kind, types.NamespacedName{Namespace: m.Namespace, Name: m.Name}, m.UID})
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
