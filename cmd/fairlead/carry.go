package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"fairlead.io/internal/carry"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

func newCarryCommand() *cobra.Command {
	var (
		address string
		logs    logFlags
		o       carry.Options
	)
	c := &cobra.Command{
		Use:   "carry",
		Short: "Keep one address on this node",
		Long: `Keeps one address on an interface of this node, announces it, and removes it at the
end. The controller runs this in a pod for each address where nodes have no agent.
Runs in the network namespace of the node, with NET_ADMIN and NET_RAW, and without
access to the API server.`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&address, "address", "", "address to carry, such as 192.0.2.7")
	f.StringVar(&o.Interface, "interface", "", "interface that carries it (default: the one with the node's default route)")
	logs.add(f)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if o.Address, err = lb.ParseAddr(address); err != nil {
			return fmt.Errorf("--address %q: %w", address, err)
		}
		if o.Log, err = logs.logger(os.Stderr, ""); err != nil {
			return err
		}
		// It is followed until the address is off the interface.
		ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
		defer cancel()
		kernel, err := link.Watch(ctx)
		if err != nil {
			return err
		}
		o.Kernel, o.Open = kernel, carry.Open
		o.Log.Info("starting", "version", version, "address", o.Address.String())
		return carry.Run(c.Context(), o)
	}
	return c
}
