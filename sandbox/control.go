package sandbox

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"
)

// makePKI makes the certificates of the control plane and of all nodes, once.
func (c *Cluster) makePKI(port uint16) error {
	if _, err := os.Stat(c.Kubeconfig()); err == nil {
		return nil
	}
	p, err := newPKI(c.path("pki"))
	if err != nil {
		return err
	}
	addresses := []netip.Addr{serviceCIDRs[0].Addr().Next(), serviceCIDRs[1].Addr().Next()}
	for _, a := range controlHost.addresses() {
		addresses = append(addresses, a.Addr())
	}
	if err := p.controlPlane(apiPort, addresses...); err != nil {
		return err
	}
	server := "https://" + controlAddress().String()
	if err := p.client("kube-proxy", "system:kube-proxy"); err != nil {
		return err
	}
	for _, n := range c.nodes() {
		if err := os.MkdirAll(c.path("nodes", n.name), 0o755); err != nil {
			return fmt.Errorf("make directory of %s: %w", n.name, err)
		}
		if err := p.client(n.name, "system:node:"+n.name, "system:nodes"); err != nil {
			return err
		}
		if err := p.kubeconfig(n.name, c.path("nodes", n.name, "kubelet.kubeconfig"), server); err != nil {
			return err
		}
		if err := p.kubeconfig("kube-proxy", c.path("nodes", n.name, "kube-proxy.kubeconfig"), server); err != nil {
			return err
		}
	}
	if c.Network == OVN {
		if err := p.kubeconfig("admin", c.kubeOVNConfig(), server); err != nil {
			return err
		}
	}
	// Last, for it tells that the others are there.
	return p.kubeconfig("admin", c.Kubeconfig(), fmt.Sprintf("https://127.0.0.1:%d", port))
}

// controlAddress is where the API server is on the LAN.
func controlAddress() netip.AddrPort {
	return netip.AddrPortFrom(controlHost.addresses()[0].Addr(), apiPort)
}

// startControlPlane starts the control plane, and what leads to it from the
// machine, unless they run.
func (c *Cluster) startControlPlane(ctx context.Context, port uint16) error {
	if err := c.startForwarder(port); err != nil {
		return err
	}
	ended := make(<-chan struct{})
	pid, err := c.controlPlanePID()
	if err != nil {
		return err
	}
	log := c.path("control", "control-plane.log")
	if pid == 0 {
		if ended, err = c.controlPlane(log).start(); err != nil {
			return err
		}
	}
	config, err := c.adminConfig()
	if err != nil {
		return err
	}
	config.Timeout = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	if err := waitReady(ctx, config, ended); err != nil {
		return fmt.Errorf("start control plane: %w; %s", err, logTail(log))
	}
	return nil
}

// killControlPlane also kills what leads to it: its clients on the machine
// shall see connections refused, as those on the LAN do.
func (c *Cluster) killControlPlane(ctx context.Context) error {
	for _, find := range []func() (int, error){c.controlPlanePID, c.forwarderPID} {
		if err := killFound(ctx, find); err != nil {
			return fmt.Errorf("kill control plane: %w", err)
		}
	}
	return nil
}

func (c *Cluster) controlPlane(log string) detached {
	return detached{
		netns: c.netns(ControlHost),
		log:   log,
		argv: []string{c.path("bin", "kube"), "control-plane",
			"--dir=" + c.path("control", "data"),
			"--pki=" + c.path("pki"),
			"--bind-address=::",
			"--advertise-address=" + controlAddress().Addr().String(),
			fmt.Sprintf("--port=%d", apiPort),
			"--service-cidr=" + join(c.families(serviceCIDRs)),
			"--cluster-cidr=" + join(c.families(podCIDRs)),
			"--no-fsync",
			"--scheduler",
			// See within seconds that a node is gone.
			"--controller-manager-arg=--node-monitor-period=1s",
			"--controller-manager-arg=--node-monitor-grace-period=16s",
		},
	}
}

func (c *Cluster) startForwarder(port uint16) error {
	pid, err := c.forwarderPID()
	if err != nil || pid != 0 {
		return err
	}
	file, err := listenOnMachine(port)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := os.MkdirAll(c.path("control"), 0o755); err != nil {
		return fmt.Errorf("make directory of the control plane: %w", err)
	}
	_, err = detached{
		netns: c.netns(ControlHost),
		log:   c.path("control", "forward.log"),
		argv:  []string{c.path("bin", "sandbox"), "forward", controlAddress().String()},
		files: []*os.File{file},
	}.start()
	return err
}

func join(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, p := range prefixes {
		texts[i] = p.String()
	}
	return strings.Join(texts, ",")
}
