// Command kubetest has Kubernetes' own tests of networks, among them those of Services of type
// LoadBalancer, without those of all other parts of Kubernetes:
//
//	kubetest --kubeconfig FILE --provider skeleton --ginkgo.focus LoadBalancers --report-dir DIR
//
// The image that they run pods of is built in this module, too: see the tool in go.mod.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"
	_ "k8s.io/kubernetes/test/e2e/network"
	"k8s.io/kubernetes/test/utils/image"
	"k8s.io/utils/net"
)

// result is what the suite has come to.
type result struct{ failed bool }

func (r *result) Fail() { r.failed = true }

// The tests ask for the family of the cluster's Services.
var _ = ginkgo.BeforeSuite(func(ctx context.Context) {
	client, err := framework.LoadClientset()
	framework.ExpectNoError(err)
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	framework.ExpectNoError(err)
	framework.TestContext.IPFamily = "ipv4"
	if net.IsIPv6String(service.Spec.ClusterIP) {
		framework.TestContext.IPFamily = "ipv6"
	}
})

func main() {
	imageOnly := flag.Bool("agnhost-image", false, "print the name of the image of the tests' pods, and end")
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if *imageOnly {
		fmt.Println(image.GetE2EImage(image.Agnhost))
		return
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	var r result
	ginkgo.RunSpecs(&r, "Kubernetes", suite, reporter)
	if r.failed {
		os.Exit(1)
	}
}
