package cloudscale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/sandbox"
)

const (
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdown      = "node.cloudprovider.kubernetes.io/shutdown"
)

// What the manual of cloudscale's controller calls an existing cluster, in which
// that controller runs: Fairlead's manifest takes its place without a connection
// being lost, Services are served before the nodes are initialised, and these are
// as soon as they are tainted by hand.
func TestExistingCluster(t *testing.T) {
	c := start(t)
	for _, node := range []string{"node1", "node2"} { // as if kubelets ran without a cloud
		c.kubectl("taint", "node", node, uninitialized+"-")
	}
	c.kubectl("create", "deployment", "hello", "--image="+sandbox.WebImage, "--replicas=2")
	c.kubectl("expose", "deployment", "hello", "--name=hello", "--type=LoadBalancer", "--port=80", "--target-port=8080")
	c.kubectl("rollout", "status", "deployment/hello", "--timeout=5m")
	c.apply(oldController)
	c.kubectl("rollout", "status", "daemonset/"+controller, "--namespace=kube-system", "--timeout=5m")
	vip := c.oldLoadBalancer("hello")

	before := c.snapshot()
	client := c.keepAsking("http://" + vip)
	c.forgetLog()
	c.install()
	c.eventually("hello is served by Fairlead", longest, func(ctx context.Context) error {
		return c.condition(ctx, "hello", "fairlead.io/Ready")
	})
	if writes := c.writes(); len(writes) > 0 {
		t.Errorf("to take over the load balancer, the cloud was told\n%s", strings.Join(writes, "\n"))
	}
	if diff := cmp.Diff(before, c.snapshot()); diff != "" {
		t.Errorf("the load balancer is another one:\n%s", diff)
	}
	for _, n := range c.nodes() {
		if n.Spec.ProviderID != "" {
			t.Errorf("node %s was initialised without being tainted", n.Name)
		}
	}

	// The manual's example of a load balancer.
	c.kubectl("expose", "deployment", "hello", "--name=second", "--type=LoadBalancer", "--port=80", "--target-port=8080")
	c.kubectl("wait", "service/second", "--for=jsonpath={.status.loadBalancer.ingress[0].ip}", "--timeout=5m")
	address := c.kubectl("get", "service", "second", "--output=jsonpath={.status.loadBalancer.ingress[0].ip}")
	c.eventually("the load balancer answers", longest, func(ctx context.Context) error {
		out, err := c.Exec(ctx, sandbox.ClientHost, "curl", "--silent", "--fail", "--max-time", "2", "http://"+address)
		if err == nil && !strings.Contains(string(out), "hello-") {
			err = fmt.Errorf("it says %q", out)
		}
		return err
	})
	c.eventually("events tell the stages", longest, func(context.Context) error {
		said := c.kubectl("describe", "service", "second")
		for _, stage := range []string{"EnsuringLoadBalancer", "EnsuredLoadBalancer"} {
			if !strings.Contains(said, stage) {
				return fmt.Errorf("no %s in\n%s", stage, said)
			}
		}
		return nil
	})

	// The manual's example of a node, whose kubelet has no --node-ip: without what
	// that leaves on the Node, and tainted, at the same time.
	c.kubectl("patch", "node", "node1", "--type=merge",
		`--patch={"metadata":{"annotations":{"alpha.kubernetes.io/provided-node-ip":null}},"spec":{"taints":[{"key":"`+uninitialized+`","value":"true","effect":"NoSchedule"}]}}`)
	c.eventually("node1 is initialised", longest, func(context.Context) error {
		return c.initialized("node1", "Hostname node1", "ExternalIP 203.0.113.11", "ExternalIP 2001:db8:1::11", "InternalIP 10.77.0.11", "InternalIP fd77::11")
	})
	if n := c.nodes()[1]; n.Spec.ProviderID != "" {
		t.Errorf("node %s was initialised as well", n.Name)
	}
	// The manual's way to taint one. With --node-ip these addresses come first.
	c.kubectl("taint", "node", "node2", uninitialized+"=true:NoSchedule")
	c.eventually("node2 is initialised", longest, func(context.Context) error {
		return c.initialized("node2", "InternalIP 10.77.0.12", "InternalIP fd77::12", "Hostname node2", "ExternalIP 203.0.113.12", "ExternalIP 2001:db8:1::12")
	})

	if failed := client(); len(failed) > 0 {
		t.Errorf("a client of the load balancer saw\n%s", strings.Join(failed, "\n"))
	}

	// A server that is stopped, and one that is started again.
	if err := c.Kill(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	c.eventually("node2 is marked as stopped", longest, func(context.Context) error { return c.tainted("node2", shutdown, true) })
	if err := c.Restart(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	c.eventually("node2 is not marked any more", longest, func(context.Context) error { return c.tainted("node2", shutdown, false) })

	c.kubectl("delete", "service", "hello", "second", "--timeout=5m")
	if left := c.list("/v1/load-balancers"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for line := range strings.Lines(c.kubectl("logs", "--namespace=kube-system", "--selector=k8s-app="+controller, "--tail=-1")) {
		if strings.Contains(line, `"ERROR"`) || strings.Contains(line, "forbidden") {
			t.Errorf("the log says %s", line)
		}
	}
}

// initialized says what a node lacks of what the manual's example has.
func (c *cluster) initialized(name string, addresses ...string) error {
	n, err := c.kube.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	want := map[string]any{
		"providerID":    "cloudscale://" + c.servers()[name],
		"instance type": "flex-4-2", "region": "lpg", "zone": "lpg1",
		"tainted":   false,
		"addresses": addresses,
	}
	var has []string
	for _, a := range n.Status.Addresses {
		has = append(has, string(a.Type)+" "+a.Address)
	}
	got := map[string]any{
		"providerID":    n.Spec.ProviderID,
		"instance type": n.Labels[corev1.LabelInstanceTypeStable], "region": n.Labels[corev1.LabelTopologyRegion], "zone": n.Labels[corev1.LabelTopologyZone],
		"tainted":   slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized }),
		"addresses": has,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("node %s (- want, + is):\n%s", name, diff)
	}
	return nil
}

func (c *cluster) tainted(name, key string, want bool) error {
	n, err := c.kube.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if is := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key }); is != want {
		return fmt.Errorf("taints of %s: %v", name, n.Spec.Taints)
	}
	return nil
}
