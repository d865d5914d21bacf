package tool

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.io/internal/snapshot"
)

// completionTime is how long a shell waits for names.
const completionTime = 3 * time.Second

// names are what a shell can complete.
type names func(*snapshot.Snapshot) []string

// complete returns the names that begin with what was typed. If the cluster cannot be
// read, there are none.
func (o *options) complete(of ...names) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		from, _, err := o.source()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx := c.Context()
		if ctx == nil {
			ctx = context.Background() //nolint:forbidigo // cobra may have none
		}
		ctx, cancel := context.WithTimeout(ctx, completionTime)
		defer cancel()
		s, err := snapshot.Read(ctx, from)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var out []string
		for _, list := range of {
			for _, name := range list(s) {
				if strings.HasPrefix(name, typed) {
					out = append(out, name)
				}
			}
		}
		slices.Sort(out)
		return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
	}
}

func services(s *snapshot.Snapshot) (out []string) {
	if s.Survey != nil {
		for i := range s.Survey.Services {
			out = append(out, s.Survey.Services[i].Key.String())
		}
	}
	return out
}

func addresses(s *snapshot.Snapshot) (out []string) {
	for _, a := range s.Addresses(snapshot.Listing{}).Addresses {
		out = append(out, a.Address)
	}
	return out
}

func pools(s *snapshot.Snapshot) (out []string) {
	for _, p := range s.Addresses(snapshot.Listing{}).Pools {
		out = append(out, p.Name)
	}
	return out
}

func nodes(s *snapshot.Snapshot) (out []string) {
	for i := range s.Nodes {
		out = append(out, s.Nodes[i].Name)
	}
	return out
}
