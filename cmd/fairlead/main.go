// Command fairlead gives Services of type LoadBalancer their addresses.
//
//	fairlead controller   decides which Service has which address, and says why
//	fairlead agent        announces addresses from a node
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
		Short:         "Addresses for Kubernetes Services of type LoadBalancer",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(newControllerCommand(), newAgentCommand(), newAliveCommand())
	return root
}
