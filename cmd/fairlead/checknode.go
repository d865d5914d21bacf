package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fairlead.io/internal/member"
	"fairlead.io/internal/onnodes"
	"fairlead.io/internal/onnodes/probe"
)

// terminationLog is where Kubernetes reads the message with which a container ends.
const terminationLog = "/dev/termination-log"

func newCheckNodeCommand() *cobra.Command {
	var o probe.Options
	var peers, out string
	c := &cobra.Command{
		Use:    onnodes.Command,
		Short:  "Check this node",
		Hidden: true,
		Long: `Checks the node on which it runs, and ends with a report. "kubectl fairlead check
--on-nodes" runs this in a pod on every node, without access to the API server.`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&o.Node, "node", "", "name of this node")
	f.StringVar(&peers, "peers", "", "all nodes and their addresses: NODE=ADDRESS,…")
	f.StringVar(&o.Nonce, "nonce", "", "what the pods of one check have in common")
	f.IntVar(&o.Port, "gossip-port", member.DefaultPort, "port of the agents")
	f.DurationVar(&o.For, "for", time.Minute, "how long other nodes may take to answer")
	f.StringVar(&out, "out", terminationLog, "file for the report")
	c.RunE = func(c *cobra.Command, _ []string) error {
		for peer := range strings.SplitSeq(peers, ",") {
			node, address, is := strings.Cut(peer, "=")
			if !is {
				return fmt.Errorf("--peers has %q, must be NODE=ADDRESS", peer)
			}
			o.Peers = append(o.Peers, onnodes.Peer{Node: node, Address: address})
		}
		data, err := probe.Run(c.Context(), o).Encode()
		if err != nil {
			return err
		}
		return os.WriteFile(out, data, 0o600)
	}
	return c
}
