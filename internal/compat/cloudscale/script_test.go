package cloudscale

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/script"
)

// TestScripts reads testdata/*.txtar: Services, each in "service", followed by what
// it asks of its load balancer by the rules of a version in "settings 1" or "settings
// 2", by what is wrong in "problems 1" or "problems 2", and by annotations that are not
// known in "unknown". "events" has the events of reasons that lines start with.
func TestScripts(t *testing.T) {
	script.Sections(t, func() script.Section {
		var s *lb.Service
		return func(t *testing.T, name, text string) string {
			switch name {
			case "service":
				var object corev1.Service
				if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
					t.Fatalf("%v in:\n%s", err, text)
				}
				s = kubeapi.Service(&object)
				untouched(t, s)
			case "settings 1":
				return showSettings(t, s, VersionUpstream)
			case "settings 2":
				return showSettings(t, s, VersionCurrent)
			case "problems 1":
				return showProblems(s, VersionUpstream)
			case "problems 2":
				return showProblems(s, VersionCurrent)
			case "unknown":
				return strings.Join(append(Unknown(s), ""), "\n")
			case "events":
				return showEvents(t, text)
			default:
				t.Errorf("what is %q?", name)
			}
			return text
		}
	})
}

// untouched: these annotations ask for no pool and no address, so a request is as if
// there were none.
func untouched(t *testing.T, s *lb.Service) {
	t.Helper()
	r, before := lb.Request{Families: s.Families}, lb.Request{Families: s.Families}
	reading := Dialect{}.Read(compat.Objects{})
	reading.Amend(&r, s, compat.Class{Words: Format})
	if fmt.Sprint(r) != fmt.Sprint(before) || len(reading.Pools()) > 0 || len(reading.Warnings()) > 0 || !reading.Same(reading) {
		t.Errorf("asks for %+v", r)
	}
}

func showSettings(t *testing.T, s *lb.Service, v Version) string {
	t.Helper()
	settings, problems := Read(s, v)
	if len(problems) > 0 {
		return showProblems(s, v)
	}
	selector := settings.NodeSelector.String()
	settings.NodeSelector = nil
	raw, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(raw)) { // what is not said is left out
		silent := strings.HasSuffix(line, ": null\n") || strings.HasSuffix(line, ": \"\"\n")
		if silent && !strings.HasPrefix(strings.TrimSpace(line), "- ") {
			continue
		}
		out.WriteString(line)
	}
	if selector != "" {
		fmt.Fprintf(&out, "NodeSelector: %s\n", selector)
	}
	return out.String()
}

func showProblems(s *lb.Service, v Version) string {
	var out strings.Builder
	_, problems := Read(s, v)
	for _, p := range problems {
		fmt.Fprintf(&out, "%s\n", p)
	}
	return out.String()
}

// showEvents tells the reasons whose codes lines start with.
func showEvents(t *testing.T, lines string) string {
	t.Helper()
	var out strings.Builder
	for line := range strings.Lines(lines) {
		code, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		e := Dialect{}.Voice().Event(reasonOf(t, lb.Code(code)), nil, nil)
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
