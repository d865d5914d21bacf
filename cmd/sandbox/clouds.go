package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"fairlead.io/sandbox"
	"fairlead.io/sandbox/simulator"
)

// cloudCommands run simulated clouds, one each. Their names are those of
// [sandbox.Clouds].
var cloudCommands = []func() *cobra.Command{cloudscaleCommand, cloudsigmaCommand}

// addCloudFlags adds the flags that all simulated clouds have. take is called
// before the cloud runs.
func addCloudFlags(cmd *cobra.Command, p *simulator.Process) (take func() error) {
	var inherit bool
	f := cmd.Flags()
	f.StringVar(&p.Listen, "listen", "127.0.0.1:0", "address and port of the API")
	f.StringVar(&p.TokenFile, "token-file", "", "file with the access token (default: one is made and printed)")
	f.StringVar(&p.SeedFile, "seed", "", "file with what there is to begin with, as JSON")
	f.BoolVar(&inherit, "inherit", false, "also listen at the socket that is descriptor 3")
	if err := f.MarkHidden("inherit"); err != nil {
		panic(err)
	}
	return func() error {
		if !inherit {
			return nil
		}
		listener, err := net.FileListener(os.NewFile(3, "listener"))
		if err != nil {
			return fmt.Errorf("take over the listener: %w", err)
		}
		p.Listeners = append(p.Listeners, listener)
		return nil
	}
}

func cloudCommand(c *sandbox.Cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "cloud METHOD PATH [BODY]",
		Short: "ask the cloud that the cluster is in, with its token",
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
