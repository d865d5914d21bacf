package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/test/kit/tree"
)

const page = `# Tests

Text with a | in it.

| test | layer 2 | BGP |
|---|---|---|
| should work | passes | passes |
| Local should spread | [one node](#one) | passes |
| should survive a rolling update | passes | passes |

More text.
`

func read(t *testing.T, text string) *table {
	t.Helper()
	table, err := readTable(text)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTheTableIsWrittenAsItIsRead(t *testing.T) {
	if diff := cmp.Diff(page, read(t, page).replaceIn(page)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"no table", "| test | layer 2 |\n|---|---|\n| a | b | c |\n"} {
		if _, err := readTable(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		column, focus string
		slow          bool
		want          []string
	}{
		{"layer 2", "", false, []string{"should work"}},
		{"BGP", "", false, []string{"should work", "Local should spread"}},
		{"layer 2", "", true, []string{"should work", "Local should spread", "should survive a rolling update"}},
		{"BGP", "spread", true, []string{"Local should spread"}},
	} {
		if diff := cmp.Diff(c.want, read(t, page).choose(c.column, c.focus, c.slow)); diff != "" {
			t.Errorf("%+v: %s", c, diff)
		}
	}
}

func TestProblems(t *testing.T) {
	everything := []string{"should work", "Local should spread", "should survive a rolling update"}
	passed, failed := result{status: statusPassed}, result{status: "failed"}
	for _, c := range []struct {
		name    string
		column  string
		chosen  []string
		results map[string]result
		want    []string
	}{
		{"as it says", "layer 2", everything, map[string]result{"should work": passed, "Local should spread": failed, "should survive a rolling update": passed}, nil},
		{"not chosen", "layer 2", everything[:1], map[string]result{"should work": passed}, nil},
		{"fails", "BGP", everything[:2], map[string]result{"should work": passed, "Local should spread": failed}, []string{`"Local should spread": failed`}},
		{"absent", "BGP", everything[:1], nil, []string{`"should work" did not run`}},
		{"passes now", "layer 2", everything[1:2], map[string]result{"Local should spread": passed}, []string{`"Local should spread" passes now: say so in docs/conformance.md`}},
		{"unknown", "BGP", nil, map[string]result{"should be new": passed}, []string{`"should be new" is not in the table of docs/conformance.md`}},
	} {
		if diff := cmp.Diff(c.want, read(t, page).problems(c.column, c.chosen, c.results)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestUpdate(t *testing.T) {
	table := read(t, page)
	table.update("layer 2", map[string]result{
		"should work": {status: "failed"}, "Local should spread": {status: "failed"}, "should be new": {status: statusPassed},
	})
	want := []row{
		{"should work", []string{"failed", "passes"}},
		{"Local should spread", []string{"[one node](#one)", "passes"}},
		{"should survive a rolling update", []string{"passes", "passes"}},
		{"should be new", []string{"passes", "?"}},
	}
	if diff := cmp.Diff(want, table.rows, cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
}

func TestReadReport(t *testing.T) {
	report, err := os.ReadFile(filepath.Join("testdata", "junit.xml"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readReport(report)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]result{
		"should handle load balancer cleanup finalizer for service":        {"failed", 915.5},
		"ExternalTrafficPolicy: Local should work from pods":               {"passed", 12.25},
		"should only allow access from service loadbalancer source ranges": {"skipped", 3},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Error(diff)
	}
}

func TestProgress(t *testing.T) {
	var shown strings.Builder
	p := &progress{out: &shown}
	for _, part := range []string{
		"[sig-network] LoadBalancers [Feature:LoadBalancer] should wo", "rk [Slow]\n/a/path.go:1\n  STEP: • is no end\n• [20.",
		"0 seconds]\n---\n[sig-network] LoadBalancers should fly\n• [FAILED] [3 seconds]\n[sig-network] LoadBalancers [It] should fly\n",
	} {
		if n, err := p.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("wrote %d of %d: %v", n, len(part), err)
		}
	}
	if diff := cmp.Diff("• [20.0 seconds] should work\n• [FAILED] [3 seconds] should fly\n", shown.String()); diff != "" {
		t.Error(diff)
	}
}

func TestPatternFindsFullNames(t *testing.T) {
	full := "[sig-network] LoadBalancers ExternalTrafficPolicy: Local [Feature:LoadBalancer] [Slow] should work for type=LoadBalancer"
	if !regexp.MustCompile(pattern([]string{"should fly", plainName(full)})).MatchString(full) {
		t.Error("a test is not found by its name")
	}
	for _, other := range [][]string{{"should fly"}, {"should work"}, nil} {
		if regexp.MustCompile(pattern(other)).MatchString(full) {
			t.Errorf("another test is found by %v", other)
		}
	}
}

// The page has a column for each way to announce, and explains what does not pass.
func TestThePage(t *testing.T) {
	text, err := os.ReadFile(tree.Path(pagePath))
	if err != nil {
		t.Fatal(err)
	}
	table := read(t, string(text))
	if diff := cmp.Diff(string(text), table.replaceIn(string(text))); diff != "" {
		t.Error(diff)
	}
	var columns []string
	for _, w := range ways {
		columns = append(columns, w.column)
		if _, err := os.Stat(tree.Path(w.pool)); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff(columns, table.columns); diff != "" {
		t.Error(diff)
	}
	reason := regexp.MustCompile(`^\[.+\]\(#.+\)$`)
	for _, r := range table.rows {
		for i, cell := range r.cells {
			if cell != passes && !reason.MatchString(cell) {
				t.Errorf("%s, %s: %q is neither %q nor a link to the reason", r.test, table.columns[i], cell, passes)
			}
		}
	}
}
