package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Bridges of Open vSwitch on every node.
const (
	tunnelsBridge = "br-phy"       // owns eth1
	ExternalOVS   = "br-ext-cloud" // owns eth2
	integration   = "br-int"
)

// ProviderNetwork is the name that OVN has for what is behind [ExternalOVS].
const ProviderNetwork = "ext-cloud"

func (c *Cluster) chassisDir(n host) string { return c.path("nodes", n.name, "ovs") }

// OnChassis runs a program that finds a node's Open vSwitch and ovn-controller by the
// variables OVS_RUNDIR and OVN_RUNDIR.
func (c *Cluster) OnChassis(ctx context.Context, nodeName, program string, args ...string) (string, error) {
	n, err := c.node(nodeName)
	if err != nil {
		return "", err
	}
	return c.run(ctx, n.name, ovsEnv(c.chassisDir(n)), program, args...)
}

// vsctl changes the configuration of a node's Open vSwitch.
func (c *Cluster) vsctl(ctx context.Context, n host, args ...string) error {
	dir := c.chassisDir(n)
	_, err := c.run(ctx, n.name, ovsEnv(dir), "ovs-vsctl", append([]string{"--timeout=60", "--db=unix:" + filepath.Join(dir, "db.sock")}, args...)...)
	return err
}

// startChassis starts Open vSwitch and ovn-controller on a node that has just been
// connected. They run beside the node's own processes and end with its network: it is a
// chassis of OVN, named as the node, from its first moment. Nothing is kept of a former
// start but what OVN's databases have.
func (c *Cluster) startChassis(ctx context.Context, n host) error {
	if c.Network != OVN {
		return nil
	}
	dir := c.chassisDir(n)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the former chassis %s: %w", n.name, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory of the chassis %s: %w", n.name, err)
	}
	database, socket := filepath.Join(dir, "conf.db"), "unix:"+filepath.Join(dir, "db.sock")
	vsctl := func(args ...string) error { return c.vsctl(ctx, n, args...) }
	bridge := func(name string, more ...string) []string {
		return append([]string{"--", "--may-exist", "add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev"}, more...)
	}
	for _, step := range []func() error{
		func() error {
			_, err := c.run(ctx, n.name, nil, "ovsdb-tool", "create", database, "/usr/share/openvswitch/vswitch.ovsschema")
			return err
		},
		func() error {
			return c.startDaemon(ctx, daemon{host: n.name, dir: dir, name: "ovsdb-server", files: "db", args: []string{database, "--remote=p" + socket}})
		},
		func() error {
			return vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".",
				"external-ids:system-id="+n.name, "external-ids:hostname="+n.name,
				fmt.Sprintf("external-ids:ovn-remote=\"tcp:%s:%d\"", controlHost.addresses()[0].Addr(), southboundPort),
				"external-ids:ovn-encap-type=geneve", "external-ids:ovn-encap-ip="+n.tunnelAddress().Addr().String(),
				"external-ids:ovn-bridge-mappings="+ProviderNetwork+":"+ExternalOVS,
				"external-ids:ovn-bridge-datapath-type=netdev", "external-ids:ovn-monitor-all=true")
		},
		func() error {
			return c.startDaemon(ctx, daemon{host: n.name, dir: dir, name: "ovs-vswitchd", files: "vswitchd", args: []string{socket, "--disable-system"}})
		},
		func() error {
			// Not the hardware addresses of their cards: the kernel would take for its
			// own what arrives there for a bridge, besides what the bridge gives it.
			mac := func(number byte) string { return fmt.Sprintf("other-config:hwaddr=%q", n.furtherCard(number)) }
			var args []string
			args = append(args, bridge(integration, "fail-mode=secure", "other-config:disable-in-band=true")...)
			args = append(args, bridge(ExternalOVS, mac(0x12), "--", "--may-exist", "add-port", ExternalOVS, "eth2")...)
			args = append(args, bridge(tunnelsBridge, mac(0x11), "--", "--may-exist", "add-port", tunnelsBridge, "eth1")...)
			return vsctl(args...)
		},
		// Tunnels of user space need their address on a bridge that owns the card.
		func() error { return c.addAddresses(n.name, tunnelsBridge, n.tunnelAddress()) },
		func() error { return c.fullChecksums(n.name, tunnelsBridge) },
		func() error { return c.fullChecksums(n.name, ExternalOVS) },
		func() error {
			links, err := linksOf(c.netns(n.name))
			if err != nil {
				return err
			}
			defer links.Close()
			for _, name := range []string{tunnelsBridge, ExternalOVS} {
				if err := setUp(links, name); err != nil {
					return err
				}
			}
			return nil
		},
		// ovn-controller asks what the switch can do when it starts. It would have every
		// connection of a VM translated to itself, and Open vSwitch 3.1 ends in user space
		// (an assertion in conn_update_state) when a client uses a port of such a connection
		// again soon: after another chassis has become the gateway, for example.
		func() error {
			_, err := c.OnChassis(ctx, n.name, "ovs-appctl", "--timeout=60", "-t", filepath.Join(dir, "vswitchd.ctl"),
				"dpif/set-dp-features", integration, "ct_zero_snat", "false")
			return err
		},
		func() error {
			return c.startDaemon(ctx, daemon{host: n.name, dir: dir, name: "ovn-controller", files: "controller", args: []string{socket}})
		},
		func() error { return c.startVMs(ctx, n) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("make %s a chassis: %w", n.name, err)
		}
	}
	return nil
}
