package snapshot

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/prose"
)

// Checks are what was checked: the answer of "kubectl fairlead check".
type Checks struct {
	Time   metav1.Time `json:"time"`
	Checks []Check     `json:"checks"`
}

// Check is one of them. What was not checked is skipped, and Fact says why.
type Check struct {
	Name string `json:"name"`
	Mark Mark   `json:"mark"`
	Fact string `json:"fact"`
	// Reason is the code of the reason that Fairlead would report.
	Reason string `json:"reason,omitempty"`
	// Fix is what to do.
	Fix string `json:"fix,omitempty"`
}

// Health sums up. What was skipped does not count.
func (c *Checks) Health() (worst Health) {
	for _, x := range c.Checks {
		switch {
		case x.Mark == Failed:
			return Problems
		case x.Mark == Unclear:
			worst = Unknown
		}
	}
	return worst
}

func (c *Checks) add(x Check) { c.Checks = append(c.Checks, x) }

// API servers before 1.leastMinor reject Fairlead's CRDs.
const leastMinor = 31

// All tests run on Kubernetes 1.newestTested, those on an API server also on older minor versions
// from 1.oldestTested on: docs/guides/install.md.
const oldestTested, newestTested = 35, 37

// CheckCluster says whether Fairlead can be installed, in a namespace, with agents that use
// this port of their nodes.
func CheckCluster(ctx context.Context, c *rest.Config, namespace string, gossipPort int) (*Checks, error) {
	sch, err := newScheme()
	if err != nil {
		return nil, err
	}
	reader, err := client.New(c, client.Options{Scheme: sch})
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	out := &Checks{Time: metav1.NewTime(time.Now())}
	if err := out.version(c); err != nil {
		return nil, err
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods); err != nil {
		for _, name := range []string{checkOthers, "ports"} {
			out.add(Check{Name: name, Mark: Unclear, Fact: "unknown: cannot list pods"})
		}
	} else {
		out.others(ctx, reader, pods.Items)
		out.ports(pods.Items, gossipPort)
	}
	var services corev1.ServiceList
	if err := reader.List(ctx, &services); err != nil {
		out.add(Check{Name: "Services", Mark: Unclear, Fact: "unknown: cannot list services"})
	} else {
		out.served(services.Items)
	}
	var ns corev1.Namespace
	err = reader.Get(ctx, client.ObjectKey{Name: namespace}, &ns)
	out.admission(namespace, &ns, err)
	return out, nil
}

// version checks that of the API server.
func (c *Checks) version(config *rest.Config) error {
	d, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	v, err := d.ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	c.add(versionCheck(v))
	if strings.Contains(v.GitVersion, "+k3s") {
		c.add(Check{Name: "K3s", Mark: Skipped, Fact: "whether its ServiceLB is enabled shows only when Services have pods of it", Fix: "Start K3s with --disable=servicelb, or give Fairlead its own class: chart value loadBalancerClass."})
	}
	return nil
}

// versionCheck says whether Fairlead is tested with a version. Others are likely to work.
func versionCheck(v *version.Info) Check {
	x := Check{Name: "Kubernetes", Mark: Passed, Fact: v.GitVersion}
	var minor int
	switch _, err := fmt.Sscanf(v.Minor, "%d", &minor); {
	case err != nil:
		x.Mark, x.Fact = Unclear, "unknown: the API server reports version "+v.GitVersion
	case v.Major != "1" || minor < leastMinor:
		x.Mark = Failed
		x.Fact += fmt.Sprintf(" is not supported: API servers before 1.%d reject Fairlead's CRDs", leastMinor)
		x.Fix = "Upgrade the cluster."
	case minor < oldestTested || minor > newestTested:
		x.Mark = Noted
		x.Fact += fmt.Sprintf(" was not tried: Fairlead is tested with 1.%d to 1.%d", oldestTested, newestTested)
	case minor < newestTested:
		x.Fact += fmt.Sprintf(" (the controller is tested with it; agents on nodes only with 1.%d)", newestTested)
	}
	return x
}

// ports looks for pods that have the port of the agents on their nodes.
func (c *Checks) ports(pods []corev1.Pod, gossipPort int) {
	var taken []string
	for i := range pods {
		p := &pods[i]
		if p.Labels[labelName] == labelFairlead {
			continue
		}
		for _, k := range p.Spec.Containers {
			for _, port := range k.Ports {
				if int(port.HostPort) == gossipPort || p.Spec.HostNetwork && int(port.ContainerPort) == gossipPort {
					taken = append(taken, p.Namespace+"/"+p.Name)
				}
			}
		}
	}
	if len(taken) == 0 {
		c.add(Check{Name: "ports", Mark: Passed, Fact: fmt.Sprintf("no pod declares port %d of its node", gossipPort)})
		return
	}
	c.add(Check{Name: "ports", Mark: Failed, Fact: fmt.Sprintf("%s has port %d of its node, which agents use", prose.Few(taken), gossipPort), Fix: "Set another port: chart value agent.extraArgs, --gossip-port."})
}

// served counts the Services that Fairlead would serve, and those of them that have an
// address from somebody else.
func (c *Checks) served(services []corev1.Service) {
	var without, foreign []string
	for i := range services {
		s := &services[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Spec.LoadBalancerClass != nil {
			continue
		}
		name := s.Namespace + "/" + s.Name
		ours := slices.ContainsFunc(s.Status.Conditions, func(k metav1.Condition) bool { return strings.HasPrefix(k.Type, "fairlead.io/") })
		without = append(without, name)
		if len(s.Status.LoadBalancer.Ingress) > 0 && !ours {
			foreign = append(foreign, name)
		}
	}
	x := Check{Name: "Services", Mark: Passed, Fact: fmt.Sprintf("%d without a class; Fairlead would serve them", len(without))}
	if len(foreign) > 0 {
		x.Mark, x.Fact = Failed, fmt.Sprintf("%d have an address of another load balancer: %s. Fairlead would serve them, and keep an address only if a pool has it", len(foreign), prose.Few(foreign))
		x.Fix = "Add their addresses to a pool before the installation, or give Fairlead its own class: chart value loadBalancerClass."
	}
	c.add(x)
}

// admission says whether agents are admitted: they use the network of their node.
func (c *Checks) admission(name string, ns *corev1.Namespace, err error) {
	const label = "pod-security.kubernetes.io/enforce"
	x := Check{Name: "pod security", Mark: Passed}
	switch level := ns.Labels[label]; {
	case client.IgnoreNotFound(err) != nil:
		x.Mark, x.Fact = Unclear, "unknown: cannot read namespace "+name
	case err != nil:
		x.Mark, x.Fact = Skipped, fmt.Sprintf("namespace %s does not exist yet; it needs the label %s=privileged if the cluster enforces another level", name, label)
	case level == "privileged":
		x.Fact = fmt.Sprintf("namespace %s admits agents", name)
	case level == "":
		x.Mark, x.Fact = Skipped, fmt.Sprintf("namespace %s has no label %s; the default of the cluster cannot be read", name, label)
	default:
		x.Mark, x.Fact = Failed, fmt.Sprintf("namespace %s enforces level %q; agents need the network of their node", name, level)
		x.Fix = fmt.Sprintf("kubectl label --overwrite namespace %s %s=privileged", name, label)
	}
	c.add(x)
}
