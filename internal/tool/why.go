package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/snapshot"
)

func newWhy(version string) *cobra.Command {
	o := options{version: version}
	c := &cobra.Command{
		Use:   "why SERVICE|ADDRESS",
		Short: "Explain why a Service is, or is not, reachable",
		Long: `Follows a Service from its class to the node that answers for its address. Marks
each step, names the obstacle of each node, and shows the command that would help.
It works by conditions and reports, not by events: these expire. What only events say
is noted.

SERVICE is namespace/name, or a name in the namespace of the context.

Exits with 0 if all steps hold, 1 if one does not, 2 if not everything is known.`,
		Example: `  kubectl fairlead why shop/web
  kubectl fairlead why 192.0.2.7`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return errors.New("name one Service, such as shop/web, or one address")
			}
			return nil
		},
	}
	o.connection(c)
	o.limited(c)
	o.named(c)
	o.deciding(c)
	o.printing(c)
	c.ValidArgsFunction = o.complete(services, addresses)
	c.RunE = func(c *cobra.Command, args []string) error {
		o.routes = true
		s, namespace, err := o.read(c.Context())
		if err != nil {
			return err
		}
		var all whys
		if a, err := lb.ParseAddr(args[0]); err == nil {
			all.Items = s.WhyAddress(a)
		} else {
			key := types.NamespacedName{Namespace: namespace, Name: args[0]}
			if ns, name, ok := strings.Cut(args[0], "/"); ok {
				key = types.NamespacedName{Namespace: ns, Name: name}
			}
			if kinds := []string{"svc", "service", "services"}; slices.Contains(kinds, key.Namespace) && s.Object(key) == nil {
				key.Namespace = namespace // "svc/web", as for kubectl
			}
			all.Items = []*snapshot.Why{s.WhyService(key)}
		}
		if err := o.noteEvents(c.Context(), s, all.Items); err != nil {
			return err
		}
		return o.print(c, "Why", all, func(p *page) {
			for _, w := range all.Items {
				printWhy(p, w)
			}
		})
	}
	return c
}

// noteEvents adds what only events say.
func (o *options) noteEvents(ctx context.Context, s *snapshot.Snapshot, all []*snapshot.Why) error {
	api, _, err := o.client()
	if err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(api)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	for _, w := range all {
		s.NoteEvents(ctx, kube, w)
	}
	return nil
}

// whys are the chains of all Services that were asked about.
type whys struct {
	Items []*snapshot.Why `json:"items"`
}

// Health is the worst of all.
func (w whys) Health() (worst snapshot.Health) {
	for _, i := range w.Items {
		if h := i.Health(); worst == snapshot.Healthy || h == snapshot.Problems {
			worst = h
		}
	}
	return worst
}

func printWhy(p *page, w *snapshot.Why) {
	title := strings.TrimSpace(w.Service + "  " + strings.Join(w.Addresses, ", "))
	if w.Service != "" {
		title += "  " + strings.ToUpper(string(w.State))
	}
	p.line(bold, title, "")
	var fixes []string
	for _, s := range w.Steps {
		sign, colour := mark(s.Mark)
		text := s.Fact
		if s.Reason != "" && (s.Mark == snapshot.Failed || s.Mark == snapshot.Noted) {
			text = s.Reason + ": " + text
		}
		p.line(colour, sign+" ", fmt.Sprintf("%s: %s", s.Name, text))
		for _, n := range s.Nodes {
			p.line("", "    ", n.Node+" "+n.Obstacle)
		}
		if s.Mark != snapshot.Passed {
			fixes = append(fixes, s.Fix...)
		}
	}
	seen := map[string]bool{}
	for _, fix := range fixes {
		if !seen[fix] {
			p.line(bold, "→ ", fix)
		}
		seen[fix] = true
	}
	p.unknown(w.Unknown)
}
