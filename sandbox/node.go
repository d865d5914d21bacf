package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"fairlead.io/sandbox/kubeovn"
)

// startNode starts a node unless it runs. It does not wait for it to be ready.
func (c *Cluster) startNode(ctx context.Context, n host) error {
	pid, err := c.nodePID(n)
	if err != nil || pid != 0 {
		return err
	}
	if err := c.connect(n); err != nil {
		return err
	}
	if err := c.startChassis(ctx, n); err != nil {
		return err
	}
	if err := makeCgroup(c.cgroup(n.name)); err != nil {
		return err
	}
	config := nodeConfig{
		Name:     n.name,
		StateDir: c.StateDir,
		Cgroup:   c.cgroup(n.name),
		CNIDir:   cniDir(),
		PodCIDRs: c.families(n.podCIDRs()),
		External: c.Cloud != "",

		ProxyMode: c.ProxyMode,
	}
	for _, a := range c.families(n.addresses()) {
		config.Addresses = append(config.Addresses, a.Addr())
	}
	content, err := json.MarshalIndent(config, "", "\t")
	if err != nil {
		return fmt.Errorf("encode configuration of %s: %w", n.name, err)
	}
	file := c.path("nodes", n.name, "node.json")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return fmt.Errorf("write configuration of %s: %w", n.name, err)
	}
	_, err = detached{
		netns:      c.netns(n.name),
		argv:       []string{c.path("bin", "sandbox"), "node-init", file},
		log:        c.nodeLog(n),
		namespaces: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}.start()
	return err
}

func (c *Cluster) nodeLog(n host) string { return c.path("nodes", n.name, "init.log") }

// killNode ends a node as a power failure does: its processes, its network
// cards and everything in its kernel are gone at once.
func (c *Cluster) killNode(ctx context.Context, n host) error {
	if !hasNetns(c.netns(n.name)) {
		return nil
	}
	// First the cable: what follows takes a moment, and nobody may see it.
	if err := c.unplugAll(n); err != nil {
		return err
	}
	if err := killIn(ctx, c.netns(n.name)); err != nil {
		return err
	}
	if err := removeNetns(c.netns(n.name)); err != nil {
		return err
	}
	if err := c.killVMs(ctx, n); err != nil {
		return err
	}
	return removeCgroup(ctx, c.cgroup(n.name))
}

// registerNode makes the Node, with those pod addresses that the routes of the
// LAN lead to, before the kubelet does: the controller manager would choose
// others. A kubelet may also not give itself the label of its role. In a cloud,
// a Node begins with the taint that the kubelet gives one that it makes itself.
func (c *Cluster) registerNode(ctx context.Context, client kubernetes.Interface, n host) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{}}}
	for _, cidr := range c.families(n.podCIDRs()) {
		node.Spec.PodCIDRs = append(node.Spec.PodCIDRs, cidr.String())
	}
	node.Spec.PodCIDR = node.Spec.PodCIDRs[0]
	if n == nodeHost(1) {
		node.Labels["node-role.kubernetes.io/control-plane"] = ""
	}
	if c.Network == OVN {
		node.Labels[kubeovn.LabelGateway] = "true"
	}
	if c.Cloud != "" {
		node.Spec.Taints = []corev1.Taint{{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule}}
	}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register %s: %w", n.name, err)
	}
	return nil
}

// waitForNode waits until a node that was started at a given time is ready and
// Services work there.
func (c *Cluster) waitForNode(ctx context.Context, client kubernetes.Interface, n host, started time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		err := c.nodeReady(ctx, client, n, started)
		if err == nil {
			return nil
		}
		if pid, findErr := c.nodePID(n); findErr == nil && pid == 0 && time.Since(started) > time.Second {
			return fmt.Errorf("start %s: it ended; %s", n.name, logTail(c.nodeLog(n)))
		}
		if pause(ctx) != nil {
			return fmt.Errorf("start %s: %w; %s; %s", n.name, err, logTail(c.nodeLog(n)), logTail(c.path("nodes", n.name, "log", "kubelet.log")))
		}
	}
}

func (c *Cluster) nodeReady(ctx context.Context, client kubernetes.Interface, n host, started time.Time) error {
	node, err := client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type != corev1.NodeReady {
			continue
		}
		// A status from before says nothing. Times in it have no fractions.
		if condition.LastHeartbeatTime.Time.Before(started.Truncate(time.Second)) {
			return errors.New("the kubelet has not reported since the start")
		}
		if condition.Status != corev1.ConditionTrue {
			return fmt.Errorf("the node is not ready: %s", condition.Message)
		}
		dialer, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		api := netip.AddrPortFrom(serviceCIDRs[0].Addr().Next(), 443)
		conn, err := c.Dial(dialer, n.name, "tcp", api.String())
		if err != nil {
			return fmt.Errorf("kube-proxy does not forward to the API server yet: %w", err)
		}
		return conn.Close()
	}
	return errors.New("the kubelet has not reported")
}
