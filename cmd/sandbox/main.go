// Command sandbox boots a real Kubernetes cluster on one machine and breaks it
// on request: see package sandbox, of which it is a thin wrapper.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"fairlead.io/sandbox"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := newCommand().ExecuteContext(ctx)
	// Of the command that exec has run, which has told by itself what is wrong. A
	// program that we needed ourselves is wrapped in an error that says what for.
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // see above
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	cluster := &sandbox.Cluster{}
	cmd := &cobra.Command{
		Use:           "sandbox",
		Short:         "A real Kubernetes cluster on one machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := cmd.PersistentFlags()
	f.StringVar(&cluster.Name, "name", "fairlead", "name of the cluster; several clusters can run side by side")
	f.StringVar(&cluster.StateDir, "state", "", "directory for its files (default /var/lib/NAME-sandbox)")
	cmd.AddCommand(upCommand(cluster), downCommand(cluster), statusCommand(cluster), execCommand(cluster), kubeCommand(),
		onHost("cut", "pull the cable out of a host", func(_ context.Context, host string) error { return cluster.Cut(host) }),
		onHost("heal", "plug the cable in again", func(_ context.Context, host string) error { return cluster.Heal(host) }),
		onHost("kill", "end a node, \"control\", or with OVN \"northbound\", as a power failure does", cluster.Kill),
		onHost("restart", "start a node, \"control\", or with OVN \"kube-ovn\" or \"northbound\", again", cluster.Restart),
		nicCommand(cluster), loadCommand(cluster), imageCommand(), cloudCommand(cluster), nodeInitCommand(), forwardCommand(), kubeOVNCommand())
	for _, command := range cloudCommands {
		cmd.AddCommand(command())
	}
	return cmd
}

func upCommand(c *sandbox.Cluster) *cobra.Command {
	var bare bool
	cmd := &cobra.Command{
		Use:   "up",
		Short: "start the cluster, or the parts that are not running, and install Fairlead",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Command, err = os.Executable(); err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			if err := c.Up(cmd.Context()); err != nil {
				return err
			}
			if !bare {
				return c.Install(cmd.Context())
			}
			fmt.Printf("export KUBECONFIG=%s\n", c.Kubeconfig())
			return nil
		},
	}
	cmd.Flags().IntVar(&c.Nodes, "nodes", 3, "number of nodes")
	cmd.Flags().StringVar(&c.Cloud, "cloud", "", "simulated cloud of the nodes: "+strings.Join(sandbox.Clouds(), ", "))
	cmd.Flags().StringArrayVar(&c.CloudFlags, "cloud-flag", nil, "further flag of the simulated cloud, such as --nics=manual")
	cmd.Flags().StringVar(&c.Routers, "routers", "", "routers between the LAN and the client: "+sandbox.RoutersFRR+" is one with FRR and one with BIRD")
	cmd.Flags().StringVar(&c.Network, "network", "", "network of VMs beside the LAN: "+sandbox.OVN)
	cmd.Flags().StringVar(&c.ProxyMode, "proxy-mode", "nftables", "how kube-proxy forwards: nftables or iptables")
	cmd.Flags().BoolVar(&c.SingleStack, "single-stack", false, "Nodes, pods and Services have IPv4 addresses only")
	cmd.Flags().BoolVar(&bare, "bare", false, "do not install Fairlead and the examples")
	return cmd
}

func downCommand(c *sandbox.Cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "remove the cluster and everything it created",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.Down(cmd.Context()) },
	}
}

func statusCommand(c *sandbox.Cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "show the hosts and their state",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			status, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if !status.Up {
				fmt.Printf("the sandbox %s is not up\n", c.Name)
				return nil
			}
			api := "answers"
			if !status.ControlPlane {
				api = "does not answer"
			}
			fmt.Printf("API server %s; KUBECONFIG=%s\n", api, c.Kubeconfig())
			w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "HOST\tADDRESSES\tSTATE\tCABLE")
			for _, h := range status.Hosts {
				addresses := make([]string, len(h.Addresses))
				for i, a := range h.Addresses {
					addresses[i] = a.String()
				}
				cable := "in"
				if !h.Cable {
					cable = "out"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", h.Name, strings.Join(addresses, " "), stateOf(h), cable)
			}
			return w.Flush()
		},
	}
}

func stateOf(h sandbox.HostStatus) string {
	switch {
	case !h.Running:
		return "dead"
	case h.Ready:
		return "ready"
	case strings.HasPrefix(h.Name, "node"):
		return "not ready"
	default:
		return "there"
	}
}

func execCommand(c *sandbox.Cluster) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "exec HOST -- COMMAND [ARGUMENT...]",
		Short:   "run a command on a node, or on \"client\", \"control\", \"switch\", \"cloud\", \"frr\", \"bird\" or a VM",
		Example: "  sandbox exec client -- ip neighbour",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, argv := args[0], args[1:]
			if argv[0] == "--" && len(argv) > 1 {
				argv = argv[1:]
			}
			command, err := c.ExecCommand(cmd.Context(), name, argv...)
			if err != nil {
				return err
			}
			command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
			return command.Run()
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after HOST are the command's, also without --
	return cmd
}

func kubeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "kube [DIRECTORY]",
		Short: "build Kubernetes, if necessary, and copy it to a directory (default ./bin)",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := "bin"
			if len(args) > 0 {
				dir = args[0]
			}
			return sandbox.InstallKube(cmd.Context(), dir, os.Stderr)
		},
	}
}

func onHost(name, short string, run func(context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " HOST",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args[0]) },
	}
}

func nicCommand(c *sandbox.Cluster) *cobra.Command {
	cmd := &cobra.Command{Use: "nic", Short: "add network cards to a running node, or remove them"}
	for _, way := range []struct {
		name, short string
		run         func(ctx context.Context, node, nic string) error
	}{
		{"add", "plug a card into a node and the LAN", c.AddNIC},
		{"remove", "take the card out again", c.RemoveNIC},
	} {
		cmd.AddCommand(&cobra.Command{
			Use:   way.name + " NODE NAME",
			Short: way.short,
			Args:  cobra.ExactArgs(2),
			RunE:  func(cmd *cobra.Command, args []string) error { return way.run(cmd.Context(), args[0], args[1]) },
		})
	}
	return cmd
}

func loadCommand(c *sandbox.Cluster) *cobra.Command {
	return &cobra.Command{
		Use:   "load IMAGE.tar...",
		Short: "load images (docker-archives) into all nodes",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, archive := range args {
				if err := c.Load(cmd.Context(), archive); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func nodeInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "node-init FILE",
		Short:  "run as the first process of a node",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return sandbox.NodeInit(args[0]) },
	}
}

func forwardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "forward ADDRESS",
		Short:  "forward connections to the API server",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return sandbox.Forward(args[0]) },
	}
}
