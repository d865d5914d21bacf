package main

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudscale"
)

func cloudscaleCommand() *cobra.Command {
	var p cloudscale.Process
	var subnets, public, floating, reserved []string
	var busy string
	var take func() error
	cmd := &cobra.Command{
		Use:   sandbox.Cloudscale,
		Short: "run a simulated cloud with the API of cloudscale.ch",
		Long: `Run a simulated cloud with the API of cloudscale.ch until it is interrupted. It
prints the environment variables for Fairlead. Use /sandbox/ at the same address,
with the same token, for faults, manual edits and the log of requests.`,
		Example: "  sandbox cloudscale --subnet 10.0.0.0/24 --node node1=10.0.0.11 --node node2=10.0.0.12",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.Subnets, err = prefixes(subnets); err != nil {
				return err
			}
			if p.FloatingIPs, err = prefixes(floating); err != nil {
				return err
			}
			if p.Reserved, err = prefixes(reserved); err != nil {
				return err
			}
			if len(public) > 0 {
				own, err := prefixes(public)
				if err != nil {
					return err
				}
				p.Public = map[string][]netip.Prefix{"lpg1": own}
			}
			if p.Busy = cloudscale.Busy(busy); p.Busy != cloudscale.BusyRefuses && p.Busy != cloudscale.BusyWaits {
				return fmt.Errorf("--busy %q: want %s or %s", busy, cloudscale.BusyWaits, cloudscale.BusyRefuses)
			}
			if err := take(); err != nil {
				return err
			}
			return p.Run(cmd.Context(), os.Stdout)
		},
	}
	take = addCloudFlags(cmd, &p.Process)
	f := cmd.Flags()
	f.StringArrayVar(&subnets, "subnet", nil, "initial subnet of a private network")
	f.StringArrayVar(&p.Nodes, "node", nil, "initial server: NAME=ADDRESS[,ADDRESS] in those subnets")
	f.StringArrayVar(&public, "public", nil, "prefix of public addresses in lpg1 (default 203.0.113.0/24 and 2001:db8:1::/64)")
	f.StringArrayVar(&floating, "floating", nil, "prefix of floating IPs (default 192.0.2.0/24 and 2001:db8:f::/48)")
	f.StringArrayVar(&reserved, "reserved", nil, "prefix whose addresses are never assigned")
	f.DurationVar(&p.Creating, "creating", 0, "time that a new load balancer is in state changing (default 1s)")
	f.DurationVar(&p.Changing, "changing", 0, "duration of each change of a load balancer (default 1s)")
	f.StringVar(&busy, "busy", string(cloudscale.BusyWaits), "reaction to a change of a load balancer in state changing: wait or refuse")
	f.BoolVar(&p.KeepListeners, "keep-listeners", false, "keep the listeners of a deleted pool, without a pool")
	f.BoolVar(&p.Forward, "forward", false, "forward packets and run real health checks")
	f.StringVar(&p.Card, "card", "", "network card that gets the addresses of load balancers")
	return cmd
}
