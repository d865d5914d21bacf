package sandbox

import (
	"context"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ovnExample has the Service "web" of the project, which leads to the VMs.
const ovnExample = "examples/kube-dc/web.yaml"

// ovnSteps put Fairlead into a cluster with OVN, where it serves the Services of kube-dc's
// projects, and give the project a Service.
func (i *installation) ovnSteps() []installStep {
	i.namespace = ProjectNamespace
	return []installStep{
		{"image of Fairlead", i.loadImage},
		{helmStep, i.buildHelm},
		{"chart of Fairlead", i.installOnOVN},
		{"examples", func(ctx context.Context, note io.Writer) error {
			return i.kubectl(ctx, note, "apply", "--filename", ovnExample)
		}},
		{"an answer from the example", i.awaitAnswer},
	}
}

// OVNValues are the values of Fairlead's chart for this cluster, which has no DNS.
func (c *Cluster) OVNValues() []string {
	values := []string{"ovn.enabled=true"}
	for i, server := range c.NorthboundServers() {
		values = append(values, fmt.Sprintf("ovn.northbound[%d]=%s", i, server))
	}
	return values
}

func (i *installation) installOnOVN(ctx context.Context, note io.Writer) error {
	args := []string{"upgrade", "--install", "fairlead", "charts/fairlead", "--namespace", metav1.NamespaceSystem,
		"--set", "image.tag=" + i.tag, "--wait", "--timeout", "5m"}
	for _, value := range i.cluster.OVNValues() {
		args = append(args, "--set", value)
	}
	return i.helm(ctx, note, args...)
}

func (i *installation) tellNextOnOVN() {
	fmt.Fprintf(i.cluster.Progress, `
The cluster has a network of OVN with project "dev" of kube-dc in it. The project's
router answers for the Service "web" at %[1]s and leads to two VMs. Try:

  export KUBECONFIG=%[2]s PATH=%[3]s:$PATH
  kubectl get services,eip --namespace shalb-dev
  kubectl get ovn-eip
  kubectl exec --namespace kube-system deployment/ovn-central -- ovn-nbctl show shalb-dev
  kubectl exec --namespace kube-system deployment/ovn-central -- ovn-nbctl lr-lb-list shalb-dev
  %[4]s exec client -- curl http://%[1]s
  %[4]s exec client -- arp -n
  %[4]s exec vm1 -- curl http://%[1]s

Delete the load balancer in the database, and find it there again. Then end the chassis
through which the router is reached:

  kubectl exec --namespace kube-system deployment/ovn-central -- ovn-nbctl lb-del shalb-dev-web-tcp
  %[4]s exec client -- curl http://%[1]s
  %[4]s kill node1 && sleep 5 && %[4]s exec client -- curl http://%[1]s

docs/guides/sandbox.md has more. "kubectl fairlead ui" shows Services and addresses live, in a
browser on this machine. "%[4]s down" removes the cluster.
`, i.address, i.cluster.Kubeconfig(), i.cluster.path("bin"), i.sandboxCommand())
}
