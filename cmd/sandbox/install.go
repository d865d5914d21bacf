package main

import (
	"github.com/spf13/cobra"

	"fairlead.io/sandbox"
)

func imageCommand() *cobra.Command {
	var binary string
	cmd := &cobra.Command{
		Use:   "image NAME:TAG FILE.tar",
		Short: "write Fairlead's image to a file that docker load and ctr images import read",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			return sandbox.FairleadImage(args[0], binary).WriteFile(args[1])
		},
	}
	cmd.Flags().StringVar(&binary, "binary", "bin/fairlead", "Fairlead's binary")
	return cmd
}
