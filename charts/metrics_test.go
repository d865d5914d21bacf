package charts_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fairlead.io/test/kit/tree"
)

// metrics are the labels of all metrics, by name.
type metrics map[string][]string

// others are metrics that libraries of ours have.
var others = metrics{
	"process_cpu_seconds_total":     nil,
	"process_resident_memory_bytes": nil,
	"workqueue_depth":               {"name"},
}

// knownMetrics reads the reference, which is generated from the constants in the code. A
// histogram has several series.
func knownMetrics(t *testing.T) metrics {
	t.Helper()
	raw, err := os.ReadFile(tree.Path("docs/reference/metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	all := metrics{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+) \\| ([^|]*) \\|").FindAllStringSubmatch(string(raw), -1) {
		labels := strings.FieldsFunc(row[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		all[row[1]] = labels
		if row[2] == "histogram" {
			all[row[1]+"_bucket"], all[row[1]+"_sum"], all[row[1]+"_count"] = append(labels, "le"), labels, labels
		}
	}
	if len(all) < 20 {
		t.Fatalf("docs/reference/metrics.md has only %d metrics", len(all))
	}
	for name, labels := range others {
		all[name] = labels
	}
	return all
}

var (
	selectors = regexp.MustCompile(`\b((?:fairlead|metallb|process|workqueue)_\w+)(?:\{([^}]*)\})?`)
	matcher   = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping  = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// check finds the metrics in an expression. Each has to exist, with the labels that it is
// selected by, and one of them has those that are grouped by. A scrape adds others.
func (m metrics) check(t *testing.T, where, expr string, added ...string) {
	t.Helper()
	found := selectors.FindAllStringSubmatch(expr, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric of ours in %s", where, expr)
	}
	has := slices.Clone(added)
	for _, s := range found {
		labels, exists := m[s[1]]
		if !exists {
			t.Errorf("%s: there is no metric %s", where, s[1])
		}
		has = append(has, labels...)
		for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(labels, l[1]) && !slices.Contains(added, l[1]) {
				t.Errorf("%s: metric %s has no label %s", where, s[1], l[1])
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if !slices.Contains(has, strings.TrimSpace(label)) {
				t.Errorf("%s: no metric has the label %s: %s", where, strings.TrimSpace(label), expr)
			}
		}
	}
}
