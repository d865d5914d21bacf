package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// metric is one metric as the source describes it.
type metric struct{ name, kind, help, labels string }

func metricsPage(p *page) error {
	p.title("Metrics", "internal/serve, internal/controller, internal/cloudscale, internal/cloudsigma, internal/ovn and internal/agent", "Served at `/metrics` over HTTPS. Clients need the ClusterRole `fairlead-metrics-reader`, which\nthe chart installs (`metallb-fairlead-metrics-reader` in a release named `metallb`). Metrics of\nthe Go runtime and of the process are included. [Monitoring](../guides/monitoring.md) has alerts\nand a dashboard.")
	shared, err := sharedLabels("internal/cloud/metrics.go")
	if err != nil {
		return err
	}
	for _, daemon := range []struct{ heading, about, sources string }{
		{"Both daemons", "Alerts can tell by it which version runs where.", "internal/serve/*.go"},
		{"Controller", "Only the replica that leads has metrics of pools and Services. Metrics of controller-runtime are included.", "internal/controller/*.go internal/controller/*/*.go"},
		{"Controller, in a cloud", "If cloudscale.ch or CloudSigma is configured. The metrics `node_controller_…` and\n`cloud_node_lifecycle_controller_…` of the node controllers, which all cloud controller\nmanagers have, are included.", "internal/cloudscale/*.go internal/cloudsigma/*.go"},
		{"Controller, with OVN", "If a class has the backend `ovn`.", "internal/ovn/*.go"},
		{"Agent", "Each agent reports on its own node. The chart's value `agent.metricsPort` sets the port of the\nnode. Without it, metrics are served on a loopback address only.\n\nMetrics that start with `metallb_` have the same names and meaning as MetalLB's.\n`metallb_layer2_requests_received` and `metallb_layer2_responses_sent` are missing, because the\nkernel answers requests and does not count them.", "internal/agent/*.go internal/agent/*/*.go"},
	} {
		found, err := metricsIn(daemon.sources)
		if err != nil {
			return err
		}
		p.heading(daemon.heading)
		p.printf("%s\n\n", daemon.about)
		p.table("metric", "type", "labels", "meaning")
		for _, m := range found {
			if m.labels == "" && strings.Contains(daemon.sources, "internal/cloudscale/") {
				m.labels = shared[m.kind]
			}
			p.row("`"+m.name+"`", m.kind, m.labels, m.help)
		}
	}
	return nil
}

// metricsIn returns the metrics that the files of patterns describe, by name.
func metricsIn(patterns string) ([]metric, error) {
	var paths []string
	for pattern := range strings.FieldsSeq(patterns) {
		matched, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		paths = append(paths, matched...)
	}
	parsed, err := goFiles(slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") })...)
	if err != nil {
		return nil, err
	}
	var found []metric
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			m, is := metricOf(n)
			if is {
				found = append(found, m)
			}
			return !is
		})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no metric found in %s", patterns)
	}
	slices.SortFunc(found, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return found, nil
}

// sharedLabels are the labels that a file gives to metrics whose options it is given
// (prometheus.NewCounterVec(options, labels)), by the kind of metric.
func sharedLabels(path string) (map[string]string, error) {
	parsed, err := goFiles(path)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if kind, vec := strings.CutSuffix(strings.TrimPrefix(selected(call.Fun), "New"), "Vec"); vec {
					out[strings.ToLower(kind)] = list(call.Args[1])
				}
			}
			return true
		})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no metric with labels found in %s", path)
	}
	return out, nil
}

// metricOf reads prometheus.NewDesc(name, help, labels, …), whose values are
// gauges, or counters if the name is ours and ends in _total; the options of the
// client's own counters, gauges and histograms; and prometheus.New…Vec(options,
// labels).
func metricOf(n ast.Node) (metric, bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if selected(n.Fun) == "NewDesc" {
			kind := "gauge"
			if strings.HasPrefix(text(n.Args[0]), "fairlead_") && strings.HasSuffix(text(n.Args[0]), "_total") {
				kind = "counter"
			}
			return metric{name: text(n.Args[0]), kind: kind, help: text(n.Args[1]), labels: list(n.Args[2])}, true
		}
		if strings.HasSuffix(selected(n.Fun), "Vec") {
			m, is := metricOf(n.Args[0])
			m.labels = list(n.Args[1])
			return m, is
		}
	case *ast.CompositeLit:
		kind, is := strings.CutSuffix(selected(n.Type), "Opts")
		if !is || !slices.Contains([]string{"Counter", "Gauge", "Histogram"}, kind) {
			return metric{}, false
		}
		m := metric{kind: strings.ToLower(kind)}
		for _, e := range n.Elts {
			pair, ok := e.(*ast.KeyValueExpr)
			if !ok {
				continue
			}
			switch key, _ := pair.Key.(*ast.Ident); key.Name {
			case "Name":
				m.name = text(pair.Value)
			case "Help":
				m.help = text(pair.Value)
			}
		}
		return m, m.name != ""
	}
	return metric{}, false
}

// selected returns Name of an expression prometheus.Name, else "".
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		if x, ok := s.X.(*ast.Ident); ok && x.Name == "prometheus" {
			return s.Sel.Name
		}
	}
	return ""
}

// text returns the value of a string literal, else "".
func text(e ast.Expr) string {
	if l, ok := e.(*ast.BasicLit); ok {
		if s, err := strconv.Unquote(l.Value); err == nil {
			return s
		}
	}
	return ""
}

// list returns the literals of a []string, as they are shown in a table.
func list(e ast.Expr) string {
	var out []string
	if l, ok := e.(*ast.CompositeLit); ok {
		for _, v := range l.Elts {
			out = append(out, "`"+text(v)+"`")
		}
	}
	return strings.Join(out, ", ")
}
