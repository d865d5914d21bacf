package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/sandbox/kubeovn"
)

// kubeOVNCommand runs what stands in for kube-ovn-controller.
func kubeOVNCommand() *cobra.Command {
	var kubeconfig, northbound string
	cmd := &cobra.Command{
		Use:    "kube-ovn",
		Short:  "stand in for kube-ovn-controller",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			crlog.SetLogger(logr.Discard())
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			config.QPS = -1
			allocator, err := kubeovn.New(config)
			if err != nil {
				return err
			}
			network, err := kubeovn.NewNetwork(config, func(ctx context.Context, args ...string) (string, error) {
				// A command that meets the end of the leader may wait for long. Another one does not.
				out, err := exec.CommandContext(ctx, "ovn-nbctl", append([]string{"--timeout=5", "--db=" + northbound}, args...)...).Output()
				if exit, ok := errors.AsType[*exec.ExitError](err); ok {
					err = fmt.Errorf("ovn-nbctl %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
				}
				return string(out), err
			})
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			ended := make(chan error, 2)
			for _, run := range []func(context.Context) error{allocator.Run, network.Run} {
				go func() {
					ended <- run(ctx)
					stop()
				}()
			}
			return errors.Join(<-ended, <-ended)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of an administrator")
	cmd.Flags().StringVar(&northbound, "northbound", "", "where OVN's northbound database is")
	return cmd
}
