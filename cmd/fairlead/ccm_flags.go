package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/nodes"
)

const (
	// ccmLease is the Lease by which cloud controller managers elect their leader.
	// Where Fairlead takes the place of one without further configuration it uses
	// the same, so that in a rolling update the two never work at the same time.
	ccmLease = "cloud-controller-manager"
	// debugVerbosity is from which --v on, in the tradition of Kubernetes, things
	// are logged that only help in finding mistakes.
	debugVerbosity = 4
)

// ccmFlags are those flags of Kubernetes' cloud controller managers that mean
// something here.
type ccmFlags struct {
	flags *pflag.FlagSet

	master         string
	outside        bool
	cloudProvider  string
	clusterName    string
	controllers    []string
	leaseName      string
	leaseNamespace string
	serviceSyncs   int
	nodeSyncs      int
	monitorPeriod  time.Duration
	statusPeriod   time.Duration
	verbosity      int
}

// ccmIgnored are the others.
var ccmIgnored = []ignoredFlag{
	{name: "allow-untagged-cloud", why: "Fairlead finds load balancers by their Services, and servers by their Nodes", bare: true},
	{name: "cloud-config", why: "environment variables configure the clouds"},
	{name: "allocate-node-cidrs", why: "Fairlead creates no routes in the cloud", bare: true},
	{name: "cidr-allocator-type", why: "Fairlead creates no routes in the cloud"},
	{name: "cluster-cidr", why: "Fairlead creates no routes in the cloud"},
	{name: "configure-cloud-routes", why: "Fairlead creates no routes in the cloud", bare: true},
	{name: "route-reconciliation-period", why: "Fairlead creates no routes in the cloud"},
	{name: "concurrent-node-lifecycle-syncs", why: "use --concurrent-node-syncs"},
	{name: "concurrent-node-status-updates", why: "use --concurrent-node-syncs"},
	{name: "external-cloud-volume-plugin", why: "Fairlead does not manage volumes"},
	{name: "node-sync-period", why: "cloud controller managers do not use it either"},
	{name: "min-resync-period", why: "Fairlead uses watches"},
	{name: "controller-start-interval", why: "everything starts at once"},
	{name: "use-service-account-credentials", why: "there is one service account", bare: true},
	{name: "feature-gates", why: "there are none"},
	{name: "kube-api-burst", why: "the API server limits requests"},
	{name: "kube-api-qps", why: "the API server limits requests"},
	{name: "kube-api-content-type", why: "Fairlead negotiates the best type with the API server"},
	{name: "leader-elect-lease-duration", why: "another replica takes over from a dead leader within seconds"},
	{name: "leader-elect-renew-deadline", why: "another replica takes over from a dead leader within seconds"},
	{name: "leader-elect-retry-period", why: "another replica takes over from a dead leader within seconds"},
	{name: "leader-elect-resource-lock", why: "leader election always uses Leases"},
	{name: "bind-address", why: "use --health-address and --metrics-address"},
	{name: "secure-port", why: "use --health-address and --metrics-address"},
	{name: "permit-address-sharing", why: "use --health-address and --metrics-address", bare: true},
	{name: "permit-port-sharing", why: "use --health-address and --metrics-address", bare: true},
	{name: "cert-dir", why: "the certificate for the metrics is generated at start"},
	{name: "tls-cert-file", why: "the certificate for the metrics is generated at start"},
	{name: "tls-private-key-file", why: "the certificate for the metrics is generated at start"},
	{name: "tls-sni-cert-key", why: "the certificate for the metrics is generated at start"},
	{name: "tls-min-version", why: "the minimum TLS version is 1.2"},
	{name: "tls-cipher-suites", why: "the default cipher suites of Go are used"},
	{name: "tls-curve-preferences", why: "the default curves of Go are used"},
	{name: "authentication-kubeconfig", why: "the API server decides which clients may read the metrics"},
	{name: "authentication-skip-lookup", why: "the API server decides which clients may read the metrics", bare: true},
	{name: "authentication-token-webhook-cache-ttl", why: "the API server decides which clients may read the metrics"},
	{name: "authentication-tolerate-lookup-failure", why: "the API server decides which clients may read the metrics", bare: true},
	{name: "authorization-always-allow-paths", why: "the API server decides which clients may read the metrics"},
	{name: "authorization-kubeconfig", why: "the API server decides which clients may read the metrics"},
	{name: "authorization-webhook-cache-authorized-ttl", why: "the API server decides which clients may read the metrics"},
	{name: "authorization-webhook-cache-unauthorized-ttl", why: "the API server decides which clients may read the metrics"},
	{name: "client-ca-file", why: "the API server decides which clients may read the metrics"},
	{name: "requestheader-client-ca-file", why: "the API server decides which clients may read the metrics"},
	{name: "requestheader-allowed-names", why: "the API server decides which clients may read the metrics"},
	{name: "requestheader-extra-headers-prefix", why: "the API server decides which clients may read the metrics"},
	{name: "requestheader-group-headers", why: "the API server decides which clients may read the metrics"},
	{name: "requestheader-uid-headers", why: "the API server decides which clients may read the metrics"},
	{name: "requestheader-username-headers", why: "the API server decides which clients may read the metrics"},
	{name: "disable-http2-serving", why: "only health and metrics are served", bare: true},
	{name: "http2-max-streams-per-connection", why: "only health and metrics are served"},
	{name: "enable-leader-migration", why: "no other controller manager has the same tasks", bare: true},
	{name: "leader-migration-config", why: "no other controller manager has the same tasks"},
	{name: "profiling", why: "there is no profiling over the network", bare: true},
	{name: "contention-profiling", why: "there is no profiling over the network", bare: true},
	{name: "webhooks", why: "there are no webhooks"},
	{name: "webhook-bind-address", why: "there are no webhooks"},
	{name: "webhook-cert-dir", why: "there are no webhooks"},
	{name: "webhook-secure-port", why: "there are no webhooks"},
	{name: "webhook-tls-cert-file", why: "there are no webhooks"},
	{name: "webhook-tls-private-key-file", why: "there are no webhooks"},
	{name: "webhook-tls-cipher-suites", why: "there are no webhooks"},
	{name: "webhook-tls-curve-preferences", why: "there are no webhooks"},
	{name: "webhook-tls-min-version", why: "there are no webhooks"},
	{name: "vmodule", why: "use --log-level"},
	{name: "logging-format", why: "use --log-format"},
	{name: "log-flush-frequency", why: "logs are written at once"},
	{name: "log-text-info-buffer-size", why: "logs are written at once"},
	{name: "log-text-split-stream", why: "logs are written to standard error", bare: true},
	{name: "logtostderr", why: "logs are written to standard error", bare: true},
	{name: "alsologtostderr", why: "logs are written to standard error", bare: true},
	{name: "stderrthreshold", why: "logs are written to standard error"},
}

func (c *ccmFlags) add(f *pflag.FlagSet) {
	c.flags = f
	f.StringVar(&c.master, "master", "", "address of the API server; overrides the kubeconfig")
	f.BoolVar(&c.outside, "OutSideCluster", false, "without --kubeconfig, use ~/.kube/config, even in a pod")
	f.StringVar(&c.cloudProvider, "cloud-provider", "", "the cloud of the configuration, or external; "+kubevipCloud+" without --config: replace kube-vip-cloud-provider, as if $"+config.EnvKubeVIPNamespace+" were set")
	f.StringVar(&c.clusterName, "cluster-name", "", "name of the cluster, if the configuration has none")
	f.StringSliceVar(&c.controllers, "controllers", []string{"*"}, "controllers to run: cloud-node, cloud-node-lifecycle, service; * enables all, -NAME disables one")
	f.StringVar(&c.leaseName, "leader-elect-resource-name", "", "name of the Lease (default: "+controller.LeaderLease+"; without --config: "+ccmLease+" in a cloud, "+kubevipLease+" when replacing kube-vip-cloud-provider)")
	f.StringVar(&c.leaseNamespace, "leader-elect-resource-namespace", "", "the same as --leader-elect-namespace")
	f.IntVar(&c.serviceSyncs, "concurrent-service-syncs", 0, "the same as --workers")
	f.IntVar(&c.nodeSyncs, "concurrent-node-syncs", 0, "number of Nodes to write concurrently, in a cloud; 0 means the default")
	f.DurationVar(&c.monitorPeriod, "node-monitor-period", 0, "interval for looking up Nodes that are not ready in the cloud; 0 means the default of 5s")
	f.DurationVar(&c.statusPeriod, "node-status-update-frequency", 0, "interval for updating the addresses of Nodes from the cloud; 0 means the default of 5m")
	f.IntVarP(&c.verbosity, "v", "v", 0, fmt.Sprintf("%d or more is the same as --log-level=debug", debugVerbosity))
	addIgnoredFlags(f, ccmIgnored...)
}

// level is how much is logged.
func (c *ccmFlags) level(level string) string {
	if c.verbosity >= debugVerbosity && !c.flags.Changed("log-level") {
		return "debug"
	}
	return level
}

// configuration returns cfg as the flags have changed it.
func (c *ccmFlags) configuration(cfg *config.Configuration) (*config.Configuration, error) {
	out := *cfg
	if out.ClusterName == "" {
		out.ClusterName = c.clusterName
	}
	if out.Nodes.Cloud != config.NoCloud && !slices.Contains([]string{"", "external", kubevipCloud}, c.cloudProvider) && c.cloudProvider != string(out.Nodes.Cloud) {
		return nil, fmt.Errorf("--cloud-provider is %q, but the configuration sets nodes.cloud to %q", c.cloudProvider, out.Nodes.Cloud)
	}
	if c.cloudProvider == kubevipCloud && !slices.Contains(out.Backends(), config.KubeVIP) {
		return nil, fmt.Errorf("--cloud-provider is %q, but the configuration has no class with the backend %q", c.cloudProvider, config.KubeVIP)
	}
	runs, err := chosen(c.controllers)
	if err != nil {
		return nil, err
	}
	if !runs[serviceController] {
		out.Classes = slices.DeleteFunc(slices.Clone(out.Classes), func(class config.Class) bool { return class.Backend != config.Announce })
	}
	if !runs[nodeController] && !runs[lifecycleController] {
		out.Nodes.Cloud = config.NoCloud
	}
	return &out, nil
}

// nodes sets what the flags say of the node controllers.
func (c *ccmFlags) nodes(o *nodes.Options) {
	runs, _ := chosen(c.controllers) // configuration has returned the error
	o.NoInitializing, o.NoLifecycle = !runs[nodeController], !runs[lifecycleController]
	o.Workers, o.MonitorPeriod, o.StatusPeriod = c.nodeSyncs, c.monitorPeriod, c.statusPeriod
}

// Controllers by the names of --controllers.
const (
	nodeController      = "cloud-node"
	lifecycleController = "cloud-node-lifecycle"
	serviceController   = "service"
	routeController     = "route" // there is none; others may switch it off
)

// controllerNames are the names of --controllers, those of today and of old.
var controllerNames = map[string]string{
	"cloud-node": nodeController, "cloud-node-controller": nodeController,
	"cloud-node-lifecycle": lifecycleController, "cloud-node-lifecycle-controller": lifecycleController,
	"service": serviceController, "service-lb-controller": serviceController,
	"route": routeController, "node-route-controller": routeController,
}

// chosen says which controllers a list as in --controllers wants: a name, -name,
// or * for all that are not named.
func chosen(list []string) (map[string]bool, error) {
	out := map[string]bool{}
	rest := slices.Contains(list, "*")
	for _, c := range controllerNames {
		out[c] = rest
	}
	for _, entry := range list {
		name, off := strings.CutPrefix(entry, "-")
		if entry == "*" {
			continue
		}
		c, known := controllerNames[name]
		if !known {
			return nil, fmt.Errorf("--controllers: %q is unknown; available: %s, %s and %s", entry, nodeController, lifecycleController, serviceController)
		}
		out[c] = !off
	}
	return out, nil
}
