// Command fairlead assigns addresses to Services of type LoadBalancer.
//
//	fairlead controller   assigns addresses, or reports why it cannot
//	fairlead agent        announces addresses from a node
//	fairlead carry        keeps one address on a node without an agent
//
// For people, it has the commands of "kubectl fairlead": status, why, ip, plan, check,
// migrate, bundle and ui.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"fairlead.io/internal/tool"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newCommand()
	asked, err := root.ExecuteContextC(ctx)
	if text := tool.Message(err); text != "" {
		fmt.Fprintln(os.Stderr, text)
	}
	if err != nil && !forPeople(asked) {
		return 1
	}
	return tool.ExitCode(err)
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
	root.AddCommand(newControllerCommand(), newAgentCommand(), newCarryCommand(), newAliveCommand(), newCheckNodeCommand())
	root.AddCommand(tool.Commands(version)...)
	return root
}

// forPeople says whether a command is one of package tool, whose exit codes tell more.
func forPeople(c *cobra.Command) bool {
	return slices.ContainsFunc(tool.Commands(version), func(t *cobra.Command) bool { return t.Name() == c.Name() })
}
