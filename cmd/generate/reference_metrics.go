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
	p.title("Metrics", "internal/controller", "Served under `/metrics` over HTTPS to whoever has the ClusterRole\n`fairlead-metrics-reader`, which the chart installs. The metrics of controller-runtime\nand of the Go runtime are served beside them.\n")
	paths, err := filepath.Glob("internal/controller/*.go")
	if err != nil {
		return err
	}
	parsed, err := goFiles(slices.DeleteFunc(paths, func(p string) bool { return strings.HasSuffix(p, "_test.go") })...)
	if err != nil {
		return err
	}
	var found []metric
	for _, f := range parsed {
		ast.Inspect(f, func(n ast.Node) bool {
			if m, is := metricOf(n); is {
				found = append(found, m)
			}
			return true
		})
	}
	if len(found) == 0 {
		return fmt.Errorf("no metric found in %d files", len(parsed))
	}
	slices.SortFunc(found, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	p.table("metric", "type", "labels", "meaning")
	for _, m := range found {
		p.row("`"+m.name+"`", m.kind, m.labels, m.help)
	}
	return nil
}

// metricOf reads prometheus.NewDesc(name, help, labels, …), whose values are
// gauges, and the options of the client's own counters, gauges and histograms.
func metricOf(n ast.Node) (metric, bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		if selected(n.Fun) == "NewDesc" {
			return metric{name: text(n.Args[0]), kind: "gauge", help: text(n.Args[1]), labels: list(n.Args[2])}, true
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
