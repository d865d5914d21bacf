package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/reasons"
)

// pages make docs/reference/, each from what the code itself uses.
var pages = map[string]func(*page) error{
	"reasons.md":          reasonsPage,
	"kinds.md":            kindsPage,
	"annotations.md":      annotationsPage,
	"cloudscale.md":       cloudscalePage,
	"cloudsigma.md":       cloudsigmaPage,
	"kube-dc.md":          kubedcPage,
	"configuration.md":    configurationPage,
	"kube-vip.md":         kubevipPage,
	"flags.md":            flagsPage,
	"kubectl-fairlead.md": toolPage,
	"metrics.md":          metricsPage,
}

func reference() (files, error) {
	made := files{}
	for name, fill := range pages {
		var p page
		if err := fill(&p); err != nil {
			return nil, fmt.Errorf("make %s: %w", name, err)
		}
		made["docs/reference/"+name] = p.Bytes()
	}
	return made, nil
}

// page is a page of the reference while it is written.
type page struct{ bytes.Buffer }

func (p *page) title(title, from, about string) {
	fmt.Fprintf(p, "# %s\n\n<!-- Made from %s by \"make generate\". Do not edit. -->\n\n%s\n", title, from, about)
}

func (p *page) heading(text string) { fmt.Fprintf(p, "\n## %s\n\n", text) }

func (p *page) printf(format string, args ...any) { fmt.Fprintf(p, format, args...) }

// row writes one row of a table.
func (p *page) row(cells ...string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(strings.Join(strings.Fields(c), " "), "|", "\\|")
	}
	fmt.Fprintf(p, "| %s |\n", strings.Join(cells, " | "))
}

// table writes the head of a table.
func (p *page) table(heads ...string) {
	p.row(heads...)
	fmt.Fprintf(p, "|%s\n", strings.Repeat("---|", len(heads)))
}

func reasonsPage(p *page) error {
	p.title("Reasons", "internal/reasons", `Every report about a Service, a pool, an agent or a node has one of these reasons. The same code is used
as the reason of the condition (`+"`fairlead.io/Ready`"+` on a Service, `+"`Ready`"+` on a pool and on an
agent), as the reason of the event, and as the label of the metric. The list is complete.

A Service has the condition `+"`fairlead.io/Announced`"+` only while nobody answers for one of its
addresses. It is then False, with a reason of the section "Events on Services".

If MetalLB has its own event for the same thing, Services with MetalLB configuration get the event
with MetalLB's name. Services with kube-vip configuration get events with the names that cloud
providers use: [list of names](../guides/migrate-from-kube-vip.md#when-a-service-waits).

    kubectl describe service NAME    # the events
    kubectl get service NAME -o yaml # the condition
    kubectl describe pool NAME
    kubectl describe agent NODE
    kubectl describe node NODE       # in a cloud`)
	condition := func(on string, ready bool) func(lb.About) bool {
		return func(a lb.About) bool { return a.On == on && a.Ready == ready && !a.Event }
	}
	for _, group := range []struct {
		heading string
		has     func(lb.About) bool
	}{
		{"On Services that have what they request", condition("Service", true)},
		{"On Services that wait", condition("Service", false)},
		{"Events on Services", func(a lb.About) bool { return a.On == "Service" && a.Event }},
		{"On pools that assign addresses", condition("Pool", true)},
		{"On pools that do not", condition("Pool", false)},
		{"On agents that announce", condition("Agent", true)},
		{"On agents that do not, or not everything", condition("Agent", false)},
		{"Events on nodes of a cloud", func(a lb.About) bool { return a.On == "Node" }},
		{"On the ConfigMap of kube-vip's cloud provider", func(a lb.About) bool { return a.On == "ConfigMap" }},
		{"On kube-dc's EIps", func(a lb.About) bool { return a.On == "EIp" }},
		{"On MetalLB's objects", func(a lb.About) bool {
			return !slices.Contains([]string{"Service", "Pool", "Agent", "Node", "ConfigMap", "EIp"}, a.On)
		}},
	} {
		p.heading(group.heading)
		for _, code := range slices.SortedFunc(maps.Keys(reasons.All), inOrder) {
			if about := reasons.All[code]; group.has(about) {
				p.printf("### %s\n\n%s\n\n> %s\n\nWhat to do: %s\n\n", code, about.Means, about.Example(), about.Do)
				if name := metallb.EventName(code); name != "" {
					p.printf("MetalLB's event: `%s`\n\n", name)
				}
			}
		}
	}
	return nil
}

// inOrder puts the best news first, then goes by name.
func inOrder(a, b lb.Code) int {
	return cmp.Or(
		cmp.Compare(warns(a), warns(b)),
		cmp.Compare(a, b),
	)
}

func warns(c lb.Code) int {
	if reasons.All[c].Warning {
		return 1
	}
	return 0
}
