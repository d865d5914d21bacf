package cloudsigma

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Without agents, the document's pods carry the addresses: one each, on the node that
// the address is attached to, with two capabilities instead of all rights.
func TestPods(t *testing.T) {
	c := boot(t, "nftables")
	c.installChart("cloudsigma.pods=true")
	if out := c.kubectl("get", "daemonsets", "--namespace=kube-system", "--output=name"); strings.Contains(out, "agent") {
		t.Errorf("there are agents: %s", out)
	}
	c.apply(nginx)
	c.kubectl("rollout", "status", "deployment/nginx", "--timeout=2m")
	c.apply(strings.Split(examples, "---")[0])
	address := c.address("nginx-lb")
	c.answers("tcp", address, 80)
	node := c.placed(address)
	c.carriedByPod(address, node)
	if out := c.kubectl("logs", "--namespace=kube-system", podOf(address)); !strings.Contains(out, address) || !strings.Contains(out, "eth0") {
		t.Errorf("the pod's log does not name address and interface: %s", out)
	}

	if err := c.Kill(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	c.answersFrom(address, node)
	now := c.placed(address)
	if now == node {
		t.Errorf("%s is still at %s, which is dead", address, node)
	}
	c.carriedByPod(address, now)

	c.kubectl("delete", "service", "nginx-lb", "--timeout=1m")
	c.eventually("the pod is gone", time.Minute, func(ctx context.Context) error {
		pods, err := c.kube.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{LabelSelector: "app=cloudsigma-lb-ip"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("there is %s on %s", pods.Items[0].Name, pods.Items[0].Spec.NodeName)
		}
		return err
	})
	if nodes, tags := c.attached(address), c.tagged(address); len(nodes)+len(tags) > 0 {
		t.Errorf("%s is left behind: attached to %q, tagged %q", address, nodes, tags)
	}
	for line := range strings.Lines(c.logs()) {
		if strings.Contains(line, `"ERROR"`) || strings.Contains(line, "forbidden") {
			t.Errorf("the log says %s", line)
		}
	}
}

func podOf(address string) string { return "lb-ip-" + strings.ReplaceAll(address, ".", "-") }

// carriedByPod waits until the address's pod is the document's, on the node.
func (c *cluster) carriedByPod(address, node string) {
	c.t.Helper()
	c.eventually("the pod of "+address+" is on "+node, time.Minute, func(ctx context.Context) error {
		p, err := c.kube.CoreV1().Pods("kube-system").Get(ctx, podOf(address), metav1.GetOptions{})
		if err != nil {
			return err
		}
		container := &p.Spec.Containers[0]
		rights := container.SecurityContext
		switch {
		case p.Spec.NodeName != node || !p.Spec.HostNetwork:
			return fmt.Errorf("it is on %s, with the node's network: %v", p.Spec.NodeName, p.Spec.HostNetwork)
		case p.Labels["app"] != "cloudsigma-lb-ip" || p.Labels["cloudsigma.com/ip"] != address || p.Labels["cloudsigma.com/svc"] == "":
			return fmt.Errorf("its labels are %v", p.Labels)
		case container.Image != image:
			return fmt.Errorf("its image is %s", container.Image)
		case rights == nil || rights.Privileged != nil && *rights.Privileged || rights.Capabilities == nil || len(rights.Capabilities.Add) != 2:
			return fmt.Errorf("its rights are %v", rights)
		case p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken:
			return errors.New("it has a token of the API server")
		}
		return nil
	})
}
