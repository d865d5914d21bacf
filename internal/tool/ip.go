package tool

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.io/internal/snapshot"
)

func newIP(version string) *cobra.Command {
	o := options{version: version}
	var l snapshot.Listing
	c := &cobra.Command{
		Use:   "ip",
		Short: "List addresses: who has which, and which node announces it",
		Long: `Lists each address that Services have, with its pool or EIp, its Services, and the node
that announces it, the nodes that do so by BGP, or the router of OVN that answers for it.

Exits with 0 if all addresses that it lists are announced, 1 if one is not, 2 if not
everything is known.`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.connection(c)
	o.limited(c)
	o.deciding(c)
	o.printing(c)
	f := c.Flags()
	f.StringVar(&l.Pool, "pool", "", "only addresses of this pool; one of MetalLB is metallb/NAME")
	f.BoolVar(&l.Free, "free", false, "show the free addresses of each pool instead")
	f.BoolVar(&l.ByNamespace, "by-namespace", false, "show how many addresses each namespace has, and its quota, instead")
	c.MarkFlagsMutuallyExclusive("free", "by-namespace")
	_ = c.RegisterFlagCompletionFunc("pool", o.complete(pools))
	c.RunE = func(c *cobra.Command, _ []string) error {
		s, _, err := o.read(c.Context())
		if err != nil {
			return err
		}
		a := s.Addresses(l)
		if l.Pool != "" && len(a.Pools) == 0 && len(a.Addresses) == 0 && len(a.Unknown) == 0 {
			return fmt.Errorf("there is no pool %q", l.Pool)
		}
		if l.Free || l.ByNamespace {
			a.Addresses = nil // what is not shown decides nothing
		}
		return o.print(c, "Addresses", a, func(p *page) {
			switch {
			case l.Free:
				printFree(p, &a)
			case l.ByNamespace:
				printNamespaces(p, &a)
			default:
				printAddresses(p, &a)
			}
			p.unknown(a.Unknown)
		})
	}
	return c
}

// none stands for nothing in a table.
const none = "-"

func printAddresses(p *page, a *snapshot.Addresses) {
	var rows [][]string
	for _, x := range a.Addresses {
		node := cmp.Or(strings.Join(nodesOf(x), ", "), none)
		if x.Reason != "" {
			node = "nobody: " + x.Reason
		}
		pool := cmp.Or(x.Pool, none)
		if x.EIp != "" {
			pool = "EIp " + x.EIp
		}
		if x.Router != "" {
			node = "router " + x.Router
		}
		rows = append(rows, []string{x.Address, pool, strings.Join(x.Services, ","), node, cmp.Or(interfaceOf(x), none), cmp.Or(x.For, none)})
	}
	p.table([]string{"ADDRESS", "POOL", "SERVICE", "NODE", "INTERFACE", "FOR"}, rows)
}

// nodesOf are the nodes that announce an address: that of the LAN first, then those that
// announce it to routers.
func nodesOf(x snapshot.Address) []string {
	var out []string
	if x.Node != "" {
		out = append(out, x.Node)
	}
	for _, n := range x.Nodes {
		if n != x.Node {
			out = append(out, n)
		}
	}
	if len(out) > fewNodes {
		out = append(out[:fewNodes], fmt.Sprintf("and %d more", len(out)-fewNodes))
	}
	return out
}

// fewNodes is how many nodes of one address are shown.
const fewNodes = 4

// interfaceOf is the interface on which an address is announced, and that it is announced to routers.
func interfaceOf(x snapshot.Address) string {
	switch {
	case len(x.Nodes) == 0:
		return x.Interface
	case x.Interface == "":
		return "BGP"
	}
	return x.Interface + ", BGP"
}

func printFree(p *page, a *snapshot.Addresses) {
	var rows [][]string
	for _, x := range a.Pools {
		for _, r := range x.Free {
			rows = append(rows, []string{x.Name, r})
		}
		if len(x.Free) == 0 {
			rows = append(rows, []string{x.Name, none})
		}
	}
	p.table([]string{"POOL", "FREE"}, rows)
}

func printNamespaces(p *page, a *snapshot.Addresses) {
	var rows [][]string
	for _, x := range a.Pools {
		for _, n := range x.Namespaces {
			quota := none
			if n.Quota > 0 {
				quota = fmt.Sprint(n.Quota)
			}
			rows = append(rows, []string{x.Name, n.Namespace, fmt.Sprint(n.Used), quota})
		}
	}
	p.table([]string{"POOL", "NAMESPACE", "USED", "QUOTA"}, rows)
}
