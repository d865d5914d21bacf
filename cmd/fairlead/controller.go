package main

import (
	"cmp"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/nodes"
	"fairlead.io/internal/reasons"
	"fairlead.io/internal/serve"
	"fairlead.io/internal/setup"
)

// heapGrowth in percent is how far the heap grows between two collections of
// garbage, unless $GOGC says otherwise. Go's default is 100; a controller has
// little in memory and makes much garbage in bursts.
const heapGrowth = 200

// podNamespaceFile tells a process in a pod its namespace.
const podNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func newControllerCommand() *cobra.Command {
	var (
		kubeconfig, configFile string
		pageAddress            string
		leaderElect            bool
		leaderNamespace        string
		logs                   logFlags
		metallb                metallbFlags
		ccm                    ccmFlags
		sigma                  cloudsigmaFlags
		cloud                  controller.Backend
		adoptFrom              []string
		names                  setup.Names
		o                      controller.Options
	)
	c := &cobra.Command{
		Use:   "controller",
		Short: "Assign addresses to Services",
		Long: `Assigns addresses to Services of type LoadBalancer, from pools or from a cloud. If
a Service cannot get an address, reports the reason on the Service. Runs in a pod,
or anywhere with access to the API server.`,
		Args: cobra.NoArgs,
	}
	pod := podNamespaceOr("")
	f := c.Flags()
	f.StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, or the pod's service account)")
	f.StringVar(&configFile, "config", "", "configuration file (default: serve Services without a class and those of class "+config.DefaultClass+"; with $CLOUDSCALE_ACCESS_TOKEN, run as the cloud controller manager of cloudscale.ch; with $CLOUDSIGMA_REGION, as that of CloudSigma; with $"+config.EnvKubeVIPNamespace+", $"+config.EnvKubeVIPConfigMap+" or $"+config.EnvKubeVIPClassMode+", replace kube-vip-cloud-provider)")
	f.IntVar(&o.Workers, "workers", 16, "number of Services with addresses from pools to write concurrently; in a cloud, up to 100 are processed, which mostly wait for the cloud")
	f.StringVar(&o.HealthAddress, "health-address", "127.0.0.1:0", "address of /healthz and /readyz; port 0 uses a free port and logs it")
	f.StringVar(&o.MetricsAddress, "metrics-address", "127.0.0.1:0", "address of /metrics: plain HTTP on a loopback address; otherwise HTTPS, only for clients that the API server permits to get /metrics")
	f.StringVar(&pageAddress, "page-address", "", "address of the live page, /page/: HTTPS; what it shows is only for clients that the API server permits to get "+serve.PageData+"* (default: no page)")
	f.BoolVar(&leaderElect, "leader-elect", pod != "", "elect a leader among replicas with a Lease (default: true in a pod, or when replacing kube-vip-cloud-provider)")
	f.StringVar(&leaderNamespace, "leader-elect-namespace", pod, "namespace of the Lease (default: the pod's; "+defaultNamespace+" when replacing kube-vip-cloud-provider)")
	f.StringVar(&o.Namespace, "namespace", podNamespaceOr(defaultNamespace), "namespace of the Secret with the gossip key, which the controller creates if it is missing; in a pod, the default is the pod's")
	f.DurationVar(&cloud.Resync, "cloud-resync", 5*time.Minute, "interval for comparing load balancers in a cloud with their Services and repairing them; 0 disables it")
	f.BoolVar(&cloud.DryRun, "dry-run", false, "change nothing in a cloud or in OVN; report planned changes and their cost in events")
	f.BoolVar(&cloud.RemoveOrphans, "remove-orphans", false, "delete load balancers, and free addresses, of Services that no longer exist, instead of only reporting them; Fairlead finds them by tags with the name of the cluster, or the UID of its namespace kube-system")
	f.StringArrayVar(&adoptFrom, "adopt-from-cluster", nil, "`name` in the tags of another cluster, or a former one of this cluster, whose load balancers Services of this cluster may take over by annotation; repeatable (default: none)")
	logs.add(f)
	metallb.add(f)
	addIgnoredFlags(f, ignoredByController...)
	ccm.add(f)
	sigma.add(f)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		if f.Changed("concurrent-service-syncs") && !f.Changed("workers") {
			o.Workers = ccm.serviceSyncs
		}
		if o.Workers < 1 {
			return fmt.Errorf("--workers is %d, must be at least 1", o.Workers)
		}
		getenv := sigma.environment(ccm.environment(os.Getenv))
		names.KubeVIPMap = config.KubeVIPMapFrom(getenv)
		if configFile != "" {
			o.Config, err = config.Load(configFile)
		} else {
			o.Config, err = config.FromEnv(getenv, configuredClouds(getenv)...)
		}
		if err != nil {
			return err
		}
		if sigma.kubeconfig != "" {
			// The cluster is another one than that of the pod, whose namespace it may not have.
			for flag, namespace := range map[string]*string{"leader-elect-namespace": &leaderNamespace, "namespace": &o.Namespace} {
				if !f.Changed(flag) {
					*namespace = metav1.NamespaceSystem
				}
			}
		}
		leader, err := ccm.leadership(leadership{elect: leaderElect, namespace: leaderNamespace}, o.Config, configFile != "")
		if err != nil {
			return err
		}
		o.LeaderLease = leader.name
		if leader.elect {
			o.LeaderNamespace = leader.namespace
		}
		if o.Config, err = servedClasses(o.Config, &metallb, os.Environ()); err != nil {
			return err
		}
		if kubeconfig, err = sigma.same("tenant-kubeconfig", sigma.kubeconfig, "kubeconfig", kubeconfig); err != nil {
			return err
		}
		if o.MetricsAddress, err = sigma.same("metrics-bind-address", sigma.metrics, "metrics-address", o.MetricsAddress); err != nil {
			return err
		}
		if o.HealthAddress, err = sigma.same("health-probe-bind-address", sigma.health, "health-address", o.HealthAddress); err != nil {
			return err
		}
		names.MetalLBNamespace, names.Pod = metallb.namespace, podIn(metallb.namespace)
		if o.MetricsAddress, err = metallb.metrics(o.MetricsAddress); err != nil {
			return err
		}
		if o.HealthAddress, err = metallb.health(o.HealthAddress, ""); err != nil {
			return err
		}
		if o.Config, err = ccm.configuration(o.Config); err != nil {
			return err
		}
		if o.Config, err = sigma.configuration(o.Config, getenv); err != nil {
			return err
		}
		logs.level = ccm.level(logs.level)
		if o.Log, err = logs.logger(os.Stderr, o.Config.ClusterName); err != nil {
			return err
		}
		logIgnoredFlags(f, o.Log, ignoredByController...)
		if configFile != "" {
			tellOverruled(os.Getenv, o.Log)
		}
		if o.REST, err = restConfig(ccm.kubeconfig(kubeconfig), "controller"); err != nil {
			return err
		}
		o.REST.Host = cmp.Or(ccm.master, o.REST.Host)
		logIgnoredFlags(f, o.Log, ccmIgnored...)
		setup.Add(&o, names)
		if err := addOVN(c.Context(), &o, getenv, cloud); err != nil {
			return err
		}
		var n nodes.Options
		ccm.nodes(&n)
		if err := addClouds(c.Context(), &o, inCloud{getenv: getenv, nodes: n, services: cloud, adoptFrom: adoptFrom, podImage: cmp.Or(sigma.podImage, imageRepository+":"+version)}); err != nil {
			return err
		}
		o.Reasons, o.Version = reasons.All, version
		if pageAddress != "" {
			if err := addPage(&o, pageAddress, names.MetalLBNamespace); err != nil {
				return err
			}
		}
		if os.Getenv("GOGC") == "" {
			debug.SetGCPercent(heapGrowth)
		}
		o.Log.Info("starting", "version", version, "api server", o.REST.Host, "leader election", leader.elect)
		return controller.Run(c.Context(), o)
	}
	return c
}

func restConfig(kubeconfig, daemon string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	c, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	c.UserAgent = "fairlead-" + daemon + "/" + version
	return c, nil
}

// podIn returns this process's pod as the owner of objects in namespace, or nil if
// it cannot be: it is in another one, or $POD_NAME and $POD_UID do not tell.
func podIn(namespace string) *metav1.OwnerReference {
	name, uid := os.Getenv("POD_NAME"), types.UID(os.Getenv("POD_UID"))
	if name == "" || uid == "" || podNamespaceOr("") != namespace {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: uid}
}

// podNamespaceOr returns the namespace of the pod, or other outside of a pod.
func podNamespaceOr(other string) string {
	data, err := os.ReadFile(podNamespaceFile)
	if err != nil {
		return other
	}
	return strings.TrimSpace(string(data))
}
