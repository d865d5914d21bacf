package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/agent"
	"fairlead.io/internal/agent/layer2"
	"fairlead.io/internal/agent/layer3"
	metallbobserver "fairlead.io/internal/agent/metallb"
	"fairlead.io/internal/agent/sources"
	format "fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/config"
	"fairlead.io/internal/serve"
)

// defaultNamespace is where things of ours are if no pod tells: it is in every
// cluster.
const defaultNamespace = "kube-system"

func newAgentCommand() *cobra.Command {
	var (
		kubeconfig, configFile        string
		healthAddress, metricsAddress string
		aliveFile, excludeFile        string
		refresh                       seconds
		interval                      time.Duration
		logs                          logFlags
		metallb                       metallbFlags
		o                             agent.Options
		read                          sources.Options
		observed                      metallbobserver.Options
	)
	c := &cobra.Command{
		Use:   "agent",
		Short: "Announce addresses from this node",
		Long: `Announces addresses of Services on the networks of this node by ARP and NDP, and
takes over addresses of nodes that die. Announces addresses to routers by BGP. Runs in
the network namespace of the node, with NET_ADMIN and NET_RAW.`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	f.StringVar(&configFile, "config", "", "configuration file, the same as the controller's")
	f.StringVar(&o.NodeName, "node-name", env("NODE_NAME", os.Getenv("METALLB_NODE_NAME")), "name of this node's Node object (default: $NODE_NAME, $METALLB_NODE_NAME or $vip_nodename)")
	f.StringVar(&o.Namespace, "namespace", podNamespaceOr(defaultNamespace), "namespace of the Secret with the gossip key; in a pod, the default is the pod's")
	f.Uint16Var(&o.GossipPort, "gossip-port", 7947, "UDP and TCP port for gossip between agents; 0 disables gossip")
	f.StringVar(&o.ProxyHealthURL, "proxy-health-url", "http://127.0.0.1:10256/healthz", "health check of kube-proxy; if it fails, nodes where it succeeds come first; if it never succeeded since the node started, this node announces nothing; empty disables the check")
	f.DurationVar(&interval, "announce-interval", 0, "interval for repeating announcements, for switches that forget addresses; 0 disables it (default: $"+refreshVariable+", in seconds, or $vip_arpRate, in milliseconds, or 0)")
	f.Var(&refresh, "gratuitous-arp-interval", "MetalLB's name for --announce-interval, in seconds")
	f.StringVar(&excludeFile, "exclude-interfaces-file", metallbExcludeFile, "file with a list announcedInterfacesToExclude of regular expressions; matching interfaces are excluded from announcing, unless a pool names them; without the file, interfaces of pods and containers are excluded")
	f.BoolVar(&o.IgnoreExcludeLabel, "ignore-exclude-lb", false, "also announce from nodes with the label node.kubernetes.io/exclude-from-external-load-balancers")
	f.DurationVar(&o.KeepConnections, "keep-connections", 15*time.Minute, "how long established connections continue through the node that had an address, after a planned move; the default for pools that do not set keepConnections; 0 disables it")
	f.DurationVar(&o.ShutdownGrace, "shutdown-grace", 20*time.Second, "how long an agent that stops for good waits for the established connections of its node, after other nodes have taken its addresses over; the pod's terminationGracePeriodSeconds must be longer")
	f.StringVar(&healthAddress, "health-address", "127.0.0.1:0", "address of /healthz and /readyz; port 0 uses a free port and logs it")
	f.StringVar(&metricsAddress, "metrics-address", "127.0.0.1:0", "address of /metrics: plain HTTP on a loopback address; otherwise HTTPS, only for clients that the API server permits to get /metrics")
	f.StringVar(&aliveFile, "alive-file", "", "file to touch every second while the agent is healthy, for \"fairlead alive\"")
	logs.add(f)
	metallb.add(f)
	addIgnoredFlags(f, ignoredByAgent...)
	c.MarkFlagsMutuallyExclusive("announce-interval", "gratuitous-arp-interval")
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		theirs, err := config.KubeVIPDaemonFrom(os.Environ())
		if err != nil {
			return err
		}
		read.Interface, read.KubeVIP = theirs.Interface, types.NamespacedName(config.KubeVIPMapFrom(os.Getenv))
		if read.KubeVIPBGP, err = config.KubeVIPBGPFrom(os.Environ()); err != nil {
			return err
		}
		if o.NodeName = cmp.Or(o.NodeName, theirs.NodeName); o.NodeName == "" {
			return fmt.Errorf("--node-name is needed")
		}
		read.Config = config.Default()
		if configFile != "" {
			if read.Config, err = config.Load(configFile); err != nil {
				return err
			}
		}
		if read.Config, err = servedClasses(read.Config, &metallb, os.Environ()); err != nil {
			return err
		}
		read.MetalLBNamespace = metallb.namespace
		observed.Namespace, observed.Pod, observed.Objects = metallb.namespace, podIn(metallb.namespace), read.Config.Uses(format.Name)
		if metricsAddress, err = metallb.metrics(metricsAddress); err != nil {
			return err
		}
		if healthAddress, err = metallb.health(healthAddress, "127.0.0.1"); err != nil {
			return err
		}
		if !f.Changed("announce-interval") {
			if interval, err = refreshOf(f, refresh, theirs.Refresh); err != nil {
				return err
			}
		}
		o.Excluded, err = config.LoadExcluded(excludeFile)
		if err != nil && (f.Changed("exclude-interfaces-file") || !errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("read excluded interfaces: %w", err)
		}
		if o.Log, err = logs.logger(os.Stderr, read.Config.ClusterName); err != nil {
			return err
		}
		logIgnoredFlags(f, o.Log, ignoredByAgent...)
		tellIdle(theirs, o.Log)
		if o.REST, err = restConfig(kubeconfig, "agent"); err != nil {
			return err
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(serve.BuildInfo(version), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		o.Registry = registry
		read.REST, read.Log, read.Node = o.REST, o.Log, o.NodeName
		o.Sources, o.Version = read, version
		var beat atomic.Pointer[time.Time]
		o.Routers = layer3.New(c.Context(), layer3.Options{Log: o.Log, Registry: registry, Alive: func() bool {
			last := beat.Load()
			return last != nil && time.Since(*last) < loopStalls
		}})
		observed.Peers = o.Routers.Statuses
		observed.REST, observed.Log, observed.Node, observed.Registry = o.REST, o.Log, o.NodeName, registry
		observer, err := metallbobserver.New(observed)
		if err != nil {
			return err
		}
		o.Observer = observer
		o.Announcer = layer2.New(c.Context(), layer2.Options{Log: o.Log, Refresh: interval, Sent: observer.Sent, Registry: registry})
		var ready atomic.Bool
		o.Ready = func() { ready.Store(true) }
		o.Beat = func(now time.Time) { beat.Store(&now) }
		// Waiting to follow another agent, it is well without a heart beat.
		well := func() bool {
			last := beat.Load()
			return ready.Load() && (last == nil || time.Since(*last) < heartStopped)
		}
		ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
		defer cancel()
		go serveLater(ctx, o.Log, "health", func() (*serve.Server, error) {
			return serve.Health(healthAddress, func(context.Context) bool { return well() }, o.Log)
		})
		if metricsAddress != "" {
			go serveLater(ctx, o.Log, "metrics", func() (*serve.Server, error) { return serve.Metrics(metricsAddress, o.REST, registry, o.Log) })
		}
		if aliveFile != "" {
			go touch(ctx, aliveFile, well, o.Log)
		}
		o.Log.Info("starting", "version", version, "node", o.NodeName, "api server", o.REST.Host)
		began := time.Now()
		err = agent.Run(c.Context(), o)
		o.Log.Info("ended", "after", time.Since(began).Round(time.Second).String())
		return err
	}
	return c
}

// loopStalls is how old the loop's last beat may be before routers are to use other nodes.
const loopStalls = time.Second

const (
	// refreshVariable tells MetalLB's speakers how often addresses
	// are announced again.
	refreshVariable = "METALLB_GRATUITOUS_ARP_INTERVAL"
	// metallbExcludeFile is where MetalLB's manifests mount the file.
	metallbExcludeFile = "/etc/metallb/excludel2.yaml"
)

// refreshOf returns how often addresses are announced again, as MetalLB's flag or
// its environment variable says, or as others do.
func refreshOf(f *pflag.FlagSet, flag seconds, others time.Duration) (time.Duration, error) {
	text := os.Getenv(refreshVariable)
	switch {
	case f.Changed("gratuitous-arp-interval"):
		return time.Duration(flag), nil
	case text == "":
		return others, nil
	}
	if err := flag.Set(text); err != nil {
		return 0, fmt.Errorf("$%s: %w", refreshVariable, err)
	}
	return time.Duration(flag), nil
}

// serveLater listens as soon as it can: in an upgrade the port is the
// predecessor's until that has ended.
func serveLater(ctx context.Context, log *slog.Logger, what string, listen func() (*serve.Server, error)) {
	for logged := false; ; {
		s, err := listen()
		if err == nil {
			_ = s.Start(ctx)
			return
		}
		if !logged {
			log.Warn("not listening yet", "for", what, "error", err)
			logged = true
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
