package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudscale"
)

func cloudscaleCommand() *cobra.Command {
	var p cloudscale.Process
	var subnets, public, floating, reserved []string
	var busy string
	var inherit bool
	cmd := &cobra.Command{
		Use:   "cloudscale",
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
			if inherit {
				listener, err := net.FileListener(os.NewFile(3, "listener"))
				if err != nil {
					return fmt.Errorf("take over the listener: %w", err)
				}
				p.Listeners = append(p.Listeners, listener)
			}
			return p.Run(cmd.Context(), os.Stdout)
		},
	}
	f := cmd.Flags()
	f.StringVar(&p.Listen, "listen", "127.0.0.1:0", "address and port of the API")
	f.StringVar(&p.TokenFile, "token-file", "", "file with the access token (default: generated and printed)")
	f.StringVar(&p.SeedFile, "seed", "", "JSON file with initial networks, subnets, servers and floating IPs")
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
	f.BoolVar(&inherit, "inherit", false, "also listen at the socket that is descriptor 3")
	if err := f.MarkHidden("inherit"); err != nil {
		panic(err)
	}
	return cmd
}

func cloudCommand(c *sandbox.Cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "cloud METHOD PATH [BODY]",
		Short: "send a request to the cloud of the cluster, with its token",
		Example: `  sandbox cloud GET /v1/load-balancers
  sandbox cloud POST /sandbox/faults '{"kind": "listeners", "status": 503}'`,
		Args: cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := c.CloudRequest(cmd.Context(), args[0], args[1], strings.Join(args[2:], ""))
			if err != nil {
				return err
			}
			_, err = os.Stdout.Write(answer)
			return err
		},
	}
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}
