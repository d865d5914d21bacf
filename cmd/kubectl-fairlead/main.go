// Command kubectl-fairlead is the plugin "kubectl fairlead": it shows operators how
// Fairlead is, why a Service is not reachable, and what a change would do. "fairlead" has
// the same commands.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"fairlead.io/internal/tool"
)

// version is set by the linker.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := &cobra.Command{
		Use:           "kubectl-fairlead",
		Short:         "See how Fairlead is, and why",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl fairlead"},
	}
	root.AddCommand(tool.Commands(version)...)
	err := root.ExecuteContext(ctx)
	if text := tool.Message(err); text != "" {
		fmt.Fprintln(os.Stderr, text)
	}
	return tool.ExitCode(err)
}
