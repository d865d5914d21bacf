package sandbox

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"strings"
)

// Cut pulls the cable out of a host's first network card: the card loses its
// carrier, everything on the host runs on.
func (c *Cluster) Cut(hostName string) error { return c.setCable(hostName, false) }

// Heal plugs the cable in again.
func (c *Cluster) Heal(hostName string) error { return c.setCable(hostName, true) }

func (c *Cluster) setCable(hostName string, up bool) error {
	if err := c.checkHost(hostName); err != nil {
		return err
	}
	ports, err := linksOf(c.netns(SwitchHost))
	if err != nil {
		return err
	}
	defer ports.Close()
	port, err := ports.LinkByName(hostName)
	if err != nil {
		return fmt.Errorf("find the cable of %s: %w", hostName, err)
	}
	set := ports.LinkSetDown
	if up {
		set = ports.LinkSetUp
	}
	if err := set(port); err != nil {
		return fmt.Errorf("change the cable of %s: %w", hostName, err)
	}
	return nil
}

// Kill ends a node, or the control plane (not its host), as a power failure
// does. To a cloud, such a node is a stopped server. It also kills [Northbound].
func (c *Cluster) Kill(ctx context.Context, hostName string) error {
	unlock, err := c.change(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	switch {
	case hostName == ControlHost:
		return c.killControlPlane(ctx)
	case hostName == Northbound && c.Network == OVN:
		return c.killNorthbound(ctx)
	}
	n, err := c.node(hostName)
	if err != nil {
		return err
	}
	if err := c.killNode(ctx, n); err != nil {
		return err
	}
	return c.power(ctx, n, false)
}

// Restart kills a node or the control plane if it runs, starts it again with
// the disk it had, and returns when it is ready. It also restarts [KubeOVN]
// and [Northbound].
func (c *Cluster) Restart(ctx context.Context, hostName string) error {
	unlock, err := c.change(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if hostName == Northbound && c.Network == OVN {
		return c.startCentral(ctx)
	}
	if hostName == KubeOVN && c.Network == OVN {
		if err := killFound(ctx, c.kubeOVNPID); err != nil {
			return err
		}
		return c.startKubeOVN()
	}
	if hostName == ControlHost {
		if err := c.killControlPlane(ctx); err != nil {
			return err
		}
		s, err := c.readState()
		if err != nil {
			return err
		}
		return c.startControlPlane(ctx, s.Port)
	}
	n, err := c.node(hostName)
	if err != nil {
		return err
	}
	if err := c.killNode(ctx, n); err != nil {
		return err
	}
	if err := c.power(ctx, n, true); err != nil {
		return err
	}
	return c.startNodes(ctx, io.Discard, []host{n})
}

// AddNIC plugs a further network card into a node and the LAN. It is up and
// has no address.
func (c *Cluster) AddNIC(ctx context.Context, nodeName, nic string) error {
	unlock, err := c.change(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := c.node(nodeName)
	if err != nil {
		return err
	}
	if nic == "eth0" || nic == "" || strings.ContainsAny(nic, "/ ") {
		return fmt.Errorf("add network card %q: no name for a new card", nic)
	}
	h := fnv.New32a()
	h.Write([]byte(nic))
	sum := h.Sum32()
	return c.plug(n, nic, bridgeName, net.HardwareAddr{0x02, 0xfa, byte(sum >> 16), byte(sum >> 8), byte(sum), byte(n.index)})
}

// RemoveNIC takes a network card that AddNIC has added out of a running node.
func (c *Cluster) RemoveNIC(ctx context.Context, nodeName, nic string) error {
	unlock, err := c.change(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	n, err := c.node(nodeName)
	if err != nil {
		return err
	}
	return c.unplug(n, nic)
}

// change begins a change of a running cluster.
func (c *Cluster) change(ctx context.Context) (unlock func(), err error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	return c.lock(ctx)
}
