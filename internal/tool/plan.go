package tool

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.io/internal/snapshot"
)

func newPlan(version string) *cobra.Command {
	o := options{version: version}
	var file, drain, remove string
	c := &cobra.Command{
		Use:   "plan",
		Short: "Predict what a change does, and what it costs clients",
		Long: `Decides about the cluster as it is now, with one thing changed, by the code that the
controller and the agents run. Changes nothing. What cloudscale.ch would do is its own
plan, if $CLOUDSCALE_ACCESS_TOKEN or $CLOUDSCALE_ACCESS_TOKEN_FILE is set; otherwise, and
for CloudSigma and OVN's database, it is SKIP: set the annotation fairlead.io/dry-run on
the Service.

Exits with 0 if every address stays reachable, 1 if one does not, 2 if not everything
is known.`,
		Example: `  kubectl fairlead plan --drain worker-2
  kubectl fairlead plan --remove 192.0.2.0/28
  kubectl fairlead plan -f pool.yaml`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.connection(c)
	o.limited(c)
	o.named(c)
	o.deciding(c)
	o.printing(c)
	f := c.Flags()
	f.StringVarP(&file, "filename", "f", "", "apply the objects in this file: Services, pools and advertisements of all formats, EIps, Nodes; - is standard input")
	f.StringVar(&drain, "drain", "", "cordon this node, and evict its pods")
	f.StringVar(&remove, "remove", "", "remove this pool, or this CIDR, range or address from all pools")
	c.MarkFlagsOneRequired("filename", "drain", "remove")
	c.MarkFlagsMutuallyExclusive("filename", "drain", "remove")
	_ = c.RegisterFlagCompletionFunc("drain", o.complete(nodes))
	_ = c.RegisterFlagCompletionFunc("remove", o.complete(pools))
	c.RunE = func(c *cobra.Command, _ []string) error {
		o.clouds, o.routes, o.drained = planningClouds(os.Getenv), true, drain
		s, namespace, err := o.read(c.Context())
		if err != nil {
			return err
		}
		var p *snapshot.Plan
		switch {
		case drain != "":
			p, err = s.PlanDrain(c.Context(), drain)
		case remove != "":
			p, err = s.PlanRemove(c.Context(), remove)
		default:
			p, err = planFile(c.Context(), s, c.InOrStdin(), file, namespace)
		}
		if err != nil {
			return fmt.Errorf("unknown: %w", err)
		}
		return o.print(c, "Plan", p, func(out *page) { printPlan(out, p) })
	}
	return c
}

func planFile(ctx context.Context, s *snapshot.Snapshot, stdin io.Reader, file, namespace string) (*snapshot.Plan, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	objects, err := s.Decode(data, namespace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s.PlanApply(ctx, objects)
}

func printPlan(p *page, plan *snapshot.Plan) {
	p.line(bold, plan.Change, fmt.Sprintf("   (facts of %s)", plan.Time.UTC().Format(time.TimeOnly+" UTC")))
	for _, c := range plan.Services {
		p.line("", "", fmt.Sprintf("service %s   %s → %s   %s", c.Service, list(c.Before), list(c.After), c.Cost))
		if c.Message != "" {
			p.line("", "    ", c.Reason+": "+c.Message)
		}
	}
	for _, m := range plan.Moves {
		p.line("", "", fmt.Sprintf("%s   %s → %s   %s", m.Address, cmp.Or(m.From, "nobody"), cmp.Or(m.To, "nobody"), m.Cost))
		if m.Reason != "" {
			p.line("", "    ", m.Reason)
		}
	}
	for _, r := range plan.Routes {
		text := fmt.Sprintf("%s   BGP from %s → %s", r.Address, list(r.Before), list(r.After))
		if len(r.Drained) > 0 {
			text += fmt.Sprintf(" (%s: graceful shutdown)", list(r.Drained))
		}
		p.line("", "", text+"   "+r.Cost)
		if r.Reason != "" {
			p.line("", "    ", r.Reason)
		}
	}
	if len(plan.Services)+len(plan.Moves)+len(plan.Routes) == 0 {
		p.line(green, "✓ ", "Nothing changes.")
	}
	for _, s := range plan.Skipped {
		p.line(yellow, "SKIP ", s)
	}
	p.unknown(plan.Unknown)
}

func list(items []string) string {
	if len(items) == 0 {
		return "none"
	}
	return strings.Join(items, ", ")
}
