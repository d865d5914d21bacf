// Command kube is Kubernetes and etcd in one binary, built from their Go
// modules, for the sandbox and the tests. Called by a component's name (as a
// link) or with it as first argument, it behaves as that component:
//
//	kube kube-apiserver --help
//	kube kubectl get nodes
//	kube etcd --data-dir /tmp/etcd
//
// "kube control-plane" runs etcd, the API server, the controller manager and,
// if asked, the scheduler in one process: see controlplane.go.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// components runs each component with os.Args as the original sees them and
// returns the exit code.
var components = map[string]func() int{
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand(nil)) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl":                 runKubectl,
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"control-plane":           func() int { return runCobra(newControlPlaneCommand()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if _, isComponent := components[name]; !isComponent && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = append([]string{name}, os.Args[2:]...)
	}
	run, ok := components[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "usage: kube COMPONENT [ARGUMENT...]\ncomponents: %s\n", strings.Join(names(), ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

// runKubectl prints errors as kubectl does: it formats its own.
func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		return 1
	}
	return 0
}

func runCobra(c *cobra.Command) int {
	if err := c.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "kube control-plane:", err)
		return 1
	}
	return 0
}

func names() []string {
	var all []string
	for n := range components {
		all = append(all, n)
	}
	sort.Strings(all)
	return all
}
