package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.io/internal/migrate"
	"fairlead.io/internal/snapshot"
)

func newMigrate(version string) *cobra.Command {
	o := options{version: version}
	var from, verify string
	var m migrate.Options
	c := &cobra.Command{
		Use:   "migrate --from SYSTEM",
		Short: "Show how to replace another load balancer, or compare afterwards",
		Long: `Takes stock of another load balancer: what runs, its objects, roles and Services, and
whether each Service keeps its address. Refuses what Fairlead cannot serve, and says why.
Otherwise prints the steps of the guide with the names of the cluster. It changes nothing:
you run the steps.

Save the state before the first step with -o json. With --verify, compares the cluster
with it: every Service has its address, Fairlead serves it, routers have their sessions and
routes, and the old controller is gone.

Exits with 0 if all is well, 1 if the migration is refused or something differs, 2 if not
everything is known.`,
		Example: `  kubectl fairlead migrate --from metallb -o json > before.json
  kubectl fairlead migrate --from metallb
  kubectl fairlead migrate --from metallb --verify before.json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.connection(c)
	o.limited(c)
	o.printing(c)
	f := c.Flags()
	f.StringVar(&from, "from", "", "system to replace: "+strings.Join(migrate.Names(), ", "))
	f.StringVar(&verify, "verify", "", "compare with the state that this file has, as -o json printed it before the migration")
	f.StringVar(&m.Image, "image", "", "image of Fairlead that the steps install (default: that of the chart)")
	f.BoolVar(&m.Alongside, "alongside", false, "from kube-vip: replace its cloud provider, and keep kube-vip as the announcer")
	f.StringToStringVar(&m.SecondAddresses, "second-address", nil, "from MetalLB with BGP: NODE=ADDRESS, a second address of each node that the routers accept as a neighbour; no route is missing then")
	_ = c.MarkFlagRequired("from")
	_ = c.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(migrate.Names(), cobra.ShellCompDirectiveNoFileComp))
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if err := o.checkOutput(); err != nil {
			return err
		}
		source, err := migrate.SourceNamed(from)
		if err != nil {
			return err
		}
		if m.Alongside && source.Name != "kube-vip" {
			return errors.New("--alongside is only for --from kube-vip")
		}
		if len(m.SecondAddresses) > 0 && source.Name != "metallb" {
			return errors.New("--second-address is only for --from metallb")
		}
		if m.REST, _, err = o.client(); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), o.timeout)
		defer cancel()
		if verify != "" {
			return o.verify(ctx, c, source, verify, m)
		}
		found, err := migrate.Prepare(ctx, source, m)
		if err != nil {
			return fmt.Errorf("unknown: %w", err)
		}
		return o.print(c, "Migration", found, func(p *page) { printMigration(p, source, found) })
	}
	return c
}

func (o *options) verify(ctx context.Context, c *cobra.Command, source migrate.Source, file string, m migrate.Options) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var before struct {
		migrate.Migration
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(data, &before); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if before.Kind != "Migration" {
		return fmt.Errorf("%s has no state: make it with kubectl fairlead migrate --from %s -o json before the migration", file, source.Name)
	}
	v, err := migrate.Verify(ctx, source, &before.Migration, m)
	if err != nil {
		return fmt.Errorf("unknown: %w", err)
	}
	return o.print(c, "Verification", v, func(p *page) {
		p.line(bold, "Compared with "+v.Before.UTC().Format(time.DateTime+" UTC"), "")
		printEach(p, v.Checks)
		p.unknown(v.Unknown)
	})
}

func printMigration(p *page, source migrate.Source, m *migrate.Migration) {
	p.line(bold, "Migrate from "+source.Title, fmt.Sprintf("   (facts of %s)", m.Time.UTC().Format(time.TimeOnly+" UTC")))
	printEach(p, m.Checks)
	p.unknown(m.Unknown)
	if len(m.Steps) == 0 {
		sign, colour := "✗ ", red
		if m.Health() == snapshot.Unknown {
			sign, colour = "? ", yellow
		}
		p.line(colour, sign, "The steps are not shown, because of what is marked above.")
		return
	}
	p.line("", "", "The steps, as in "+m.Guide+". Run them yourself:")
	for _, s := range m.Steps {
		head := ""
		if s.Number != "" {
			head = s.Number + ". "
		}
		fmt.Fprintln(p.out)
		p.line(bold, head+s.Title, "")
		for _, part := range s.Parts {
			if part.Commands == "" {
				p.line("", "   ", part.Text)
				continue
			}
			for line := range strings.SplitSeq(part.Commands, "\n") {
				fmt.Fprintln(p.out, strings.TrimRight("       "+line, " "))
			}
		}
	}
}
