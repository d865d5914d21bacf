package sandbox

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Status is what is to be known about a cluster.
type Status struct {
	Up           bool // Up has come to its end
	ControlPlane bool // the API server answers
	Hosts        []HostStatus
}

// HostStatus is what is to be known about a host on the LAN, or a VM.
type HostStatus struct {
	Name      string
	Addresses []netip.Addr
	Cable     bool // plugged in
	Running   bool // of a node: its processes run; else: it is there
	Ready     bool // of a node: the API server says so
}

// Status looks at the cluster. It succeeds if there is none.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	var status Status
	if err := c.complete(); err != nil {
		return status, err
	}
	if err := c.open(); err != nil {
		if errors.Is(err, errNotUp) {
			err = nil
		}
		return status, err
	}
	status.Up = true
	ready, err := c.readyNodes(ctx)
	status.ControlPlane = err == nil
	ports, err := linksOf(c.netns(SwitchHost))
	if err != nil {
		return status, err
	}
	defer ports.Close()
	for _, h := range append(c.hosts(), c.nodes()...) {
		s := HostStatus{Name: h.name, Running: hasNetns(c.netns(h.name)), Ready: ready[h.name]}
		for _, a := range c.addressesOf(h) {
			s.Addresses = append(s.Addresses, a.Addr())
		}
		if port, err := ports.LinkByName(h.name); err == nil {
			s.Cable = port.Attrs().Flags&net.FlagUp != 0
		}
		if h.isNode() {
			pid, err := c.nodePID(h)
			if err != nil {
				return status, err
			}
			s.Running = pid != 0
		}
		status.Hosts = append(status.Hosts, s)
	}
	vms, err := c.VMs()
	for _, vm := range vms {
		running := hasNetns(c.netns(vm.Name))
		status.Hosts = append(status.Hosts, HostStatus{Name: vm.Name, Addresses: without(vm.Addresses), Running: running, Cable: running})
	}
	return status, err
}

func (c *Cluster) readyNodes(ctx context.Context) (map[string]bool, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	ready := make(map[string]bool)
	for _, n := range nodes.Items {
		for _, condition := range n.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				ready[n.Name] = condition.Status == corev1.ConditionTrue
			}
		}
	}
	return ready, nil
}
