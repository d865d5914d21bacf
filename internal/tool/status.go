package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.io/internal/snapshot"
)

func newStatus(version string) *cobra.Command {
	o := options{version: version, brief: true}
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how everything is, and what to look at next",
		Long: `Shows the controller and its leader, the agents, the pools, and how many Services
are reachable. Lists each problem with the command that shows more.

Exits with 0 if all is well, 1 if there are problems, 2 if not everything is known.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.connection(c)
	o.limited(c)
	o.deciding(c)
	o.printing(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, _, err := o.read(c.Context())
		if err != nil {
			return err
		}
		status := s.Status()
		return o.print(c, "Status", status, func(p *page) { printStatus(p, &status) })
	}
	return c
}

// unread says that one of these resources could not be listed; "" if all could.
func unread(s *snapshot.Status, resources ...string) string {
	for _, r := range resources {
		if why := "cannot list " + r; slices.Contains(s.Unknown, why) {
			return "unknown: " + why
		}
	}
	return ""
}

// maxProblems is how many problems are shown as text.
const maxProblems = 20

func printStatus(p *page, s *snapshot.Status) {
	const column = "%-12s"
	head := func(name string) string { return fmt.Sprintf(column, name) }
	switch {
	case s.Controller.Unknown != "" && s.Controller.Pods == 0:
		p.line(bold, head("Controller"), "unknown: "+s.Controller.Unknown)
	case s.Controller.Unknown != "":
		p.line(bold, head("Controller"), fmt.Sprintf("%d of %d ready, leader unknown: %s", s.Controller.Ready, s.Controller.Pods, s.Controller.Unknown))
	case s.Controller.Leader == "":
		p.line(bold, head("Controller"), fmt.Sprintf("%d of %d ready, no leader", s.Controller.Ready, s.Controller.Pods))
	default:
		p.line(bold, head("Controller"), fmt.Sprintf("%d of %d ready, leader %s", s.Controller.Ready, s.Controller.Pods, s.Controller.Leader))
	}
	switch a := s.Agents; {
	case !a.Used:
		p.line(bold, head("Agents"), "not used by any class")
	case a.Unknown != "":
		p.line(bold, head("Agents"), "unknown: "+a.Unknown)
	case len(a.Trouble) > 0:
		p.line(bold, head("Agents"), fmt.Sprintf("%d of %d ready: %s", a.Ready, a.Nodes, a.Text()))
	default:
		p.line(bold, head("Agents"), fmt.Sprintf("%d of %d ready", a.Ready, a.Nodes))
	}
	name := "Pools"
	for _, pool := range s.Pools {
		text := pool.Name + ": " + pool.Summary()
		if !pool.Ready {
			text += ", " + pool.Reason
		}
		p.line(bold, head(name), text)
		name = ""
	}
	if len(s.Pools) == 0 {
		p.line(bold, head(name), cmp.Or(unread(s, "services", "pools", "ipaddresspools"), "none"))
	}
	name = "Services"
	for _, b := range s.Backends {
		p.line(bold, head(name), b.Backend+": "+strings.Join(b.Facts, "; "))
		name = ""
	}
	if why := unread(s, "services"); why != "" {
		p.line(bold, head(name), why)
	}
	if n := s.Services[snapshot.NotServed]; n > 0 {
		p.line(bold, head(name), fmt.Sprintf("%d of other classes", n))
	}
	p.unknown(s.Unknown)
	for i, problem := range s.Problems {
		if i == maxProblems {
			p.line("", "", fmt.Sprintf("… and %d more: kubectl fairlead status -o yaml", len(s.Problems)-i))
			break
		}
		text := problem.About + ": "
		if problem.Reason != "" {
			text += problem.Reason + ": "
		}
		p.line(red, "✗ ", text+problem.Message)
		if problem.Next != "" {
			p.line(bold, "  → ", problem.Next)
		}
	}
	if s.Health() == snapshot.Healthy {
		p.line(green, "✓ ", "No problem found.")
	}
}
