package kubevip

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
	"fairlead.io/test/kit/script"
)

// TestScripts reads testdata/*.txtar: the data of the ConfigMap in "data", and what
// it is translated to below: "pools", "problems" and, for the namespaces that are
// named there, "namespaces". Then Services, each in "service", followed by what it
// asks for and has in "asks", and what of that is ignored in a class that has kube-vip's
// pools among others in "ignored, where kube-vip is not first". "events" has the events of reasons that lines start with.
func TestScripts(t *testing.T) {
	script.Sections(t, func() script.Section {
		config := Parse(nil)
		var s *lb.Service
		return func(t *testing.T, name, text string) string {
			switch name {
			case "data":
				config = Parse(&corev1.ConfigMap{Data: decode[map[string]string](t, text)})
			case "pools":
				return showPools(config.Pools)
			case "problems":
				return showProblems(config.Problems)
			case "namespaces":
				return showNamespaces(config, text)
			case "service":
				s = kubeapi.Service(new(decode[corev1.Service](t, text)))
			case "asks":
				return showService(config, s)
			case "ignored, where kube-vip is not first":
				return showIgnored(config, s)
			case "events":
				return showEvents(t, text)
			default:
				t.Errorf("what is %q?", name)
			}
			return text
		}
	})
}

func decode[T any](t testing.TB, text string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return out
}

func showPools(pools []lb.Pool) string {
	var out strings.Builder
	for i := range pools {
		p := &pools[i]
		var has []string
		for _, f := range lb.Families {
			if p.DHCP[f] {
				has = append(has, f.String()+" from a DHCP server")
			}
		}
		for _, s := range p.Spans {
			has = append(has, lb.SpanString(s))
		}
		fmt.Fprintf(&out, "%s: %s", p.Key.Name, strings.Join(has, ", "))
		if len(p.Withheld) > 0 {
			fmt.Fprintf(&out, ", but not %s", prose.Addrs(p.Withheld))
		}
		if p.LinkLocal {
			out.WriteString("; link-local, too")
		}
		if p.Descending {
			out.WriteString("; highest first")
		}
		switch {
		case p.Quota == lb.NothingNew:
			out.WriteString("; nothing new")
		case p.Quota > 0:
			fmt.Fprintf(&out, "; %d for each namespace", p.Quota)
		}
		if p.Invalid != nil {
			out.WriteString("; invalid")
		}
		switch {
		case p.Namespaces != nil:
			fmt.Fprintf(&out, "; for %s", strings.Join(sets.List(p.Namespaces), ", "))
		case len(p.Except) > 0:
			fmt.Fprintf(&out, "; for all but %s", strings.Join(sets.List(p.Except), ", "))
		default:
			out.WriteString("; for all")
		}
		out.WriteString("\n")
	}
	return out.String()
}

func showProblems(problems []Problem) string {
	var out strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&out, "%s\n", p.Reason)
	}
	return out.String()
}

// showNamespaces says of each of the namespaces that lines start with what c says.
func showNamespaces(c *Config, lines string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		namespace, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		fmt.Fprintf(&out, "%s: pool %q, interface %q, shares %v\n", namespace, c.PoolKey(namespace), c.Interface(namespace), c.shares(namespace))
	}
	return out.String()
}

func showService(c *Config, s *lb.Service) string {
	r := requestOf(s)
	c.amend(&r, s)
	narrowed := r
	narrow(&narrowed, s)
	var out strings.Builder
	line := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "[]" {
			fmt.Fprintf(&out, "%s: %s\n", name, text)
		}
	}
	requested, inSpec := Requested(s)
	if inSpec {
		requested += " (spec.loadBalancerIP)"
	}
	line("requested", requested)
	line("given", Given(s))
	line("held", Held(s))
	if Attested(s) {
		line("attested", true)
	}
	line("addresses", r.Addresses)
	if len(r.Addresses) > 0 && !r.Anywhere {
		line("only from", "pools")
	}
	for _, f := range lb.Families {
		if r.DHCP[f] {
			line("from a DHCP server", f)
		}
	}
	if len(narrowed.Families) < len(r.Families) {
		line("where kube-vip announces, only", narrowed.Families)
	}
	if r.Alone {
		line("shares with", "nobody")
	} else {
		line("shares with", r.ShareAmong)
	}
	if r.Invalid != nil {
		line("invalid", *r.Invalid)
	}
	return out.String()
}

func showIgnored(c *Config, s *lb.Service) string {
	r := requestOf(s)
	reading := &Reading{Config: c, key: types.NamespacedName{Namespace: "kube-system", Name: "kubevip"}}
	reading.Amend(&r, s, compat.Class{Dialects: []lb.Dialect{lb.Native, Name}})
	if r.Ignored == nil {
		return "nothing\n"
	}
	return r.Ignored.String() + "\n"
}

// requestOf is a request for an address of each of the families of s.
func requestOf(s *lb.Service) lb.Request {
	r := lb.Request{Families: s.Families, Policy: lb.RequireDualStack}
	if len(r.Families) == 1 {
		r.Policy = lb.SingleStack
	}
	return r
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
