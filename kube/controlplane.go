package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// controlPlane is the configuration of "kube control-plane". Whoever starts it
// chooses the addresses and makes the certificates; it keeps everything else
// in dir and may be killed at any moment: started again on the same dir it
// goes on with the same data.
type controlPlane struct {
	dir              string
	pki              string
	bindAddress      string
	advertiseAddress string
	port             uint16
	serviceCIDRs     []string
	clusterCIDRs     []string
	auditLog         string
	remove           string
	noFsync          bool
	noControllers    bool
	scheduler        bool

	apiServerArgs         []string
	controllerManagerArgs []string
	schedulerArgs         []string
}

func newControlPlaneCommand() *cobra.Command {
	var c controlPlane
	cmd := &cobra.Command{
		Use:   "control-plane --dir DIR --pki DIR [flags]",
		Short: "run etcd, kube-apiserver, kube-controller-manager and kube-scheduler in one process",
		Long: `Run etcd, kube-apiserver, kube-controller-manager and, if asked, kube-scheduler
in one process. The directory given as --pki holds:

  ca.crt                             who may call the API server
  apiserver.crt, apiserver.key       its serving certificate
  apiserver-kubelet.crt, .key        its client certificate for kubelets
  sa.key                             signs service account tokens
  controller-manager.kubeconfig      how the controller manager calls it
  scheduler.kubeconfig               how the scheduler calls it

It ends at once when told to (SIGTERM): the data survives even SIGKILL.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			if err := c.run(ctx); err != nil || c.remove == "" {
				return err
			}
			return os.RemoveAll(c.remove)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.dir, "dir", "", "directory for the data of etcd; made if absent")
	f.StringVar(&c.pki, "pki", "", "directory with certificates, keys and kubeconfigs")
	f.StringVar(&c.bindAddress, "bind-address", "127.0.0.1", "address the API server listens on")
	f.StringVar(&c.advertiseAddress, "advertise-address", "", "address in the endpoints of the kubernetes Service (default: the bind address); a loopback address makes no endpoints")
	f.Uint16Var(&c.port, "port", 6443, "port the API server listens on")
	f.StringSliceVar(&c.serviceCIDRs, "service-cidr", []string{"10.96.0.0/16", "fd96::/108"}, "addresses of Services, one range per family")
	f.StringSliceVar(&c.clusterCIDRs, "cluster-cidr", nil, "addresses of pods, one range per family; each node gets a /24 and a /64 of them")
	f.StringVar(&c.auditLog, "audit-log", "", "file to which every write to the API is recorded, one JSON object per line")
	f.StringVar(&c.remove, "remove", "", "directory to remove when told to end")
	f.BoolVar(&c.noFsync, "no-fsync", false, "do not wait for the disk; data may be lost when the machine stops, not when the process does")
	f.BoolVar(&c.noControllers, "no-controllers", false, "do not run kube-controller-manager; pods then need no service account")
	f.BoolVar(&c.scheduler, "scheduler", false, "run kube-scheduler")
	f.StringArrayVar(&c.apiServerArgs, "apiserver-arg", nil, "further flag for kube-apiserver; may be repeated")
	f.StringArrayVar(&c.controllerManagerArgs, "controller-manager-arg", nil, "further flag for kube-controller-manager; may be repeated")
	f.StringArrayVar(&c.schedulerArgs, "scheduler-arg", nil, "further flag for kube-scheduler; may be repeated")
	for _, name := range []string{"dir", "pki"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	return cmd
}

// run returns nil when ctx ends and an error when any part does before.
func (c *controlPlane) run(ctx context.Context) error {
	if err := c.complete(); err != nil {
		return err
	}
	start := time.Now()
	etcdEnded, err := c.startEtcd(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("etcd is ready after %v\n", time.Since(start).Round(time.Millisecond))

	ended := make(chan error, 4)
	launch := func(name string, run func(context.Context) error) {
		go func() { ended <- fmt.Errorf("%s ended: %w", name, run(ctx)) }()
	}
	go func() { ended <- fmt.Errorf("etcd ended: %w", <-etcdEnded) }()
	launch("kube-apiserver", c.runAPIServer)
	ready := make(chan error, 1)
	go func() { ready <- c.waitReady(ctx) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			return err
		case err := <-ready:
			if err != nil {
				return err
			}
			fmt.Printf("kube-apiserver is ready after %v\n", time.Since(start).Round(time.Millisecond))
			if !c.noControllers {
				launch("kube-controller-manager", c.runControllerManager)
			}
			if c.scheduler {
				launch("kube-scheduler", c.runScheduler)
			}
		}
	}
}

// complete makes paths absolute, for run changes the working directory to dir
// (paths of sockets may not be longer than 107 bytes), and fills defaults.
func (c *controlPlane) complete() error {
	for _, path := range []*string{&c.dir, &c.pki, &c.auditLog, &c.remove} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fmt.Errorf("find %s: %w", *path, err)
		}
		*path = abs
	}
	for _, a := range []string{c.bindAddress, c.advertiseAddress} {
		if a == "" {
			continue
		}
		if _, err := netip.ParseAddr(a); err != nil {
			return fmt.Errorf("parse address: %w", err)
		}
	}
	if c.advertiseAddress == "" {
		c.advertiseAddress = c.bindAddress
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if err := os.Chdir(c.dir); err != nil {
		return fmt.Errorf("enter the data directory: %w", err)
	}
	return nil
}
