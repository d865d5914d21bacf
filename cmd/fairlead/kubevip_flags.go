package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"

	"k8s.io/client-go/tools/clientcmd"

	"fairlead.io/internal/config"
)

const (
	// kubevipLease is the Lease by which kube-vip's cloud provider elects its leader.
	// Where Fairlead takes its place it uses the same, in the same namespace, so
	// that the two never work at the same time.
	kubevipLease = "kube-vip-cloud-controller"
	// kubevipCloud is what kube-vip's cloud provider calls itself.
	kubevipCloud = "kubevip"
)

// environment returns getenv with what the flags say on top: --cloud-provider=kubevip
// is as good as the environment of kube-vip's cloud provider.
func (c *ccmFlags) environment(getenv func(string) string) func(string) string {
	if c.cloudProvider != kubevipCloud {
		return getenv
	}
	return func(name string) string {
		if name == config.EnvKubeVIPNamespace {
			return cmp.Or(getenv(name), config.KubeVIPMapFrom(getenv).Namespace)
		}
		return getenv(name)
	}
}

// kubeconfig returns the file to use: that of --kubeconfig, or with --OutSideCluster
// the one in the home directory, even in a pod.
func (c *ccmFlags) kubeconfig(path string) string {
	if c.outside {
		return cmp.Or(path, clientcmd.RecommendedHomeFile)
	}
	return path
}

// leadership is how replicas elect their leader.
type leadership struct {
	elect           bool
	namespace, name string // of the Lease; without a name it is our own
}

// leadership returns the leader election that the flags configure. Without a
// configuration file, defaults are those of the program that Fairlead replaces.
func (c *ccmFlags) leadership(flags leadership, cfg *config.Configuration, file bool) (leadership, error) {
	l := flags
	l.name, l.namespace = c.leaseName, cmp.Or(c.leaseNamespace, l.namespace)
	switch {
	case file:
	case cfg.Nodes.Cloud != config.NoCloud:
		l.name = cmp.Or(l.name, ccmLease)
	case slices.Contains(cfg.Backends(), config.KubeVIP):
		l.name = cmp.Or(l.name, kubevipLease)
		l.elect = l.elect || !c.flags.Changed("leader-elect")
		if c.leaseNamespace == "" && !c.flags.Changed("leader-elect-namespace") {
			l.namespace = defaultNamespace
		}
	}
	if l.elect && l.namespace == "" {
		return l, fmt.Errorf("--leader-elect outside of a pod needs --leader-elect-namespace")
	}
	return l, nil
}

// servedClasses returns c with the classes that MetalLB's flag or, if that is not
// given, kube-vip's variables name. Both daemons need the same.
func servedClasses(c *config.Configuration, metallb *metallbFlags, environ []string) (*config.Configuration, error) {
	names, err := config.KubeVIPClassesFrom(environ)
	switch {
	case metallb.flags.Changed("lb-class"):
		return c.OnlyClass(metallb.class)
	case err != nil || names == nil:
		return c, err
	}
	return c.OnlyKubeVIPClasses(names)
}

// tellIdle logs which variables of kube-vip's change nothing, and why.
func tellIdle(d *config.KubeVIPDaemon, log *slog.Logger) {
	for _, i := range d.Idle {
		if i.Effect == config.Unserved {
			log.Warn("kube-vip variables have no effect: "+i.Note, "variables", i.Names)
		} else {
			log.Info("kube-vip variables are not needed and have no effect: "+i.Note, "variables", i.Names)
		}
	}
}

// tellOverruled logs which variables of kube-vip's cloud provider a configuration
// file overrules.
func tellOverruled(getenv func(string) string, log *slog.Logger) {
	for _, name := range []string{config.EnvKubeVIPClassMode, config.EnvKubeVIPClassName} {
		if getenv(name) != "" {
			log.Warn("variable has no effect: the configuration file lists the served classes", "variable", name)
		}
	}
}
