// Command fairlead assigns addresses to Services of type LoadBalancer.
//
//	fairlead controller   assigns addresses, or reports why it cannot
//	fairlead agent        announces addresses from a node
//	fairlead carry        keeps one address on a node without an agent
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "fairlead:", err)
		return 1
	}
	return 0
}

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "fairlead",
		Short:         "External addresses for Kubernetes Services of type LoadBalancer",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newControllerCommand(), newAgentCommand(), newCarryCommand(), newAliveCommand())
	return root
}
