package charts_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"fairlead.io/internal/reasons"
	"fairlead.io/test/kit/prometheus"
	"fairlead.io/test/kit/tree"
)

const alertsFile = "fairlead/files/alerts.yaml"

// alert is a rule of the chart.
type alert struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	read(t, alertsFile, &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("no alerts")
	}
	return all
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Debian's promtool finds no mistake, and fires and clears each alert with the series of
// testdata/alerts.test.yaml.
func TestAlertsFireAndClear(t *testing.T) {
	promtool := prometheus.Program(t, "promtool")
	const cases = "testdata/alerts.test.yaml"
	for _, args := range [][]string{{"check", "rules", alertsFile}, {"test", "rules", cases}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	var file struct {
		Tests []struct {
			Input []struct{ Series string } `json:"input_series"`
			Cases []struct {
				Alert string `json:"alertname"`
				Fires []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	read(t, cases, &file)
	metrics := knownMetrics(t)
	fires, clears := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, s := range test.Input {
			metrics.check(t, cases, s.Series, "instance", "pod", "cluster", "node")
		}
		for _, c := range test.Cases {
			if len(c.Fires) > 0 {
				fires[c.Alert] = true
			} else if fires[c.Alert] {
				clears[c.Alert] = true
			}
		}
	}
	for _, a := range alerts(t) {
		if !fires[a.Alert] || !clears[a.Alert] {
			t.Errorf("%s: %s does not fire and then clear it", cases, a.Alert)
		}
	}
}

// What alerts ask for exists: metrics, their labels, and reasons.
func TestAlertsAskForWhatExists(t *testing.T) {
	metrics := knownMetrics(t)
	for _, a := range alerts(t) {
		metrics.check(t, a.Alert, a.Expr, "cluster", "node")
		for _, match := range regexp.MustCompile(`reason(?:=~|!=|=)"([^"]+)"`).FindAllStringSubmatch(a.Expr, -1) {
			for code := range strings.SplitSeq(match[1], "|") {
				if !slices.ContainsFunc(knownReasons(), func(known string) bool { return known == code }) {
					t.Errorf("%s: there is no reason %s", a.Alert, code)
				}
			}
		}
	}
}

func knownReasons() (out []string) {
	for code := range reasons.All {
		out = append(out, string(code))
	}
	return out
}

// The guide lists each alert, those that need the metrics of agents once more, and the README
// counts them.
func TestAlertsAreInTheDocumentation(t *testing.T) {
	guide, readme := text(t, "docs/guides/monitoring.md"), text(t, "README.md")
	all := alerts(t)
	for _, a := range all {
		if row := fmt.Sprintf("| [%s](../runbooks.md#%s) | ", a.Alert, strings.ToLower(a.Alert)); !strings.Contains(guide, row) {
			t.Errorf("docs/guides/monitoring.md does not list %s", a.Alert)
		}
		// Metrics that only agents have. The controller has fairlead_agent_ready.
		fromAgents := regexp.MustCompile(`fairlead_(agent_(takeovers|conflicts)|bgp_)`).MatchString(a.Expr)
		if line := lineWith(guide, "| `agent.metricsPort` |"); fromAgents != strings.Contains(line, a.Alert) {
			t.Errorf("%s needs the metrics of agents: %t; docs/guides/monitoring.md says %q", a.Alert, fromAgents, line)
		}
	}
	number := map[int]string{10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}[len(all)]
	if !strings.Contains(strings.ToLower(readme), number+" alerts") || !strings.Contains(guide, number+" alerts") {
		t.Errorf("there are %d alerts", len(all))
	}
}

func lineWith(text, start string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, start) {
			return line
		}
	}
	return ""
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(tree.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Each alert has a severity, says what is the matter, and links to a section of the
// runbook and to a page that exist. The runbook has no section of an alert that is gone.
func TestAlertsLinkToTheRunbook(t *testing.T) {
	var names []string
	for _, a := range alerts(t) {
		names = append(names, strings.ToLower(a.Alert))
		if s := a.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", a.Alert)
		}
		if want := "docs/runbooks.md#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: the runbook is %s, want %s", a.Alert, a.Annotations["runbook_url"], want)
		}
		for _, link := range []string{a.Annotations["runbook_url"], a.Annotations["docs_url"]} {
			path, section, _ := strings.Cut(link, "#")
			if section != "" && !slices.Contains(sections(t, path), section) {
				t.Errorf("%s: %s has no section #%s", a.Alert, path, section)
			}
			if _, err := os.Stat(tree.Path(path)); err != nil {
				t.Errorf("%s: %v", a.Alert, err)
			}
		}
	}
	for _, section := range sections(t, "docs/runbooks.md") {
		if strings.HasPrefix(section, "fairlead") && !slices.Contains(names, section) {
			t.Errorf("docs/runbooks.md: there is no alert #%s", section)
		}
	}
}

// sections returns the anchors of the sections of a page.
func sections(t *testing.T, path string) (out []string) {
	t.Helper()
	raw, err := os.ReadFile(tree.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllStringSubmatch(string(raw), -1) {
		text := strings.ToLower(regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(heading[1], ""))
		out = append(out, strings.ReplaceAll(text, " ", "-"))
	}
	return out
}
