package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/sandbox/simulator"
)

func cloudsigmaCommand() *cobra.Command {
	var p cloudsigma.Process
	var dynamic, subscribable []string
	var firewallDelay, tokenLifetime time.Duration
	var netns string
	var take func() error
	cmd := &cobra.Command{
		Use:   sandbox.CloudSigma,
		Short: "run a simulated cloud with the API of CloudSigma",
		Long: `Run a simulated cloud with the API 2.0 of CloudSigma until it is interrupted,
including the endpoints of OAuth and impersonation. It prints the environment
variables for Fairlead. Use /sandbox/ at the same address, with the same token,
for faults, knobs, manual edits and the log of requests.`,
		Example: "  sandbox cloudsigma --node node1=dhcp --node node2=manual --subscribed 192.0.2.7",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if p.Dynamic, err = prefixes(dynamic); err != nil {
				return err
			}
			if p.Subscribable, err = prefixes(subscribable); err != nil {
				return err
			}
			p.Knobs.FirewallDelay, p.Knobs.TokenLifetime = simulator.Duration(firewallDelay), simulator.Duration(tokenLifetime)
			if netns != "" {
				p.Enforce = func(ctx context.Context, s *cloudsigma.Simulator) error { return s.Enforce(ctx, netns) }
			}
			if err := take(); err != nil {
				return err
			}
			return p.Run(cmd.Context(), os.Stdout)
		},
	}
	take = addCloudFlags(cmd, &p.Process)
	f := cmd.Flags()
	f.StringVar(&p.Email, "email", "", "email address of the user (default user@example.com)")
	f.StringVar(&p.ClientID, "client-id", "", "ID of the OAuth client (default fairlead)")
	f.StringArrayVar(&p.Nodes, "node", nil, "initial server: NAME=ADDRESS, NAME=dhcp or NAME=manual")
	f.StringArrayVar(&p.Subscribed, "subscribed", nil, "initial subscribed address")
	f.StringVar(&p.NICs, "nics", "dhcp", "mode of the public network cards of servers in the seed: dhcp or manual")
	f.StringArrayVar(&dynamic, "dynamic", nil, "prefix of addresses assigned by DHCP (default 203.0.113.0/24 and 2001:db8:1::/64)")
	f.StringArrayVar(&subscribable, "subscribable", nil, "prefix of addresses that can be bought (default 192.0.2.0/24 and 2001:db8:f::/64)")
	f.StringVar(&p.Knobs.Running, "running", "", "effect of a PUT on the cards of a running server: store (default), ignore or reject")
	f.StringVar(&p.Knobs.Unowned, "unowned", "", "static cards with addresses that are not subscribed: refuse (default) or accept")
	f.StringVar(&p.Knobs.TagForm, "tag-form", "", "accepted form of a tag's resources: both (default), strings or objects")
	f.DurationVar(&firewallDelay, "firewall-delay", 0, "time until the firewall of a running server has a change; up to 30s at CloudSigma")
	f.DurationVar(&tokenLifetime, "token-lifetime", 0, "lifetime of tokens of impersonated users (default 15m, which the answer does not tell)")
	f.StringVar(&netns, "switch", "", "network namespace of a bridge whose ports, named after the servers, get the firewalls")
	return cmd
}
