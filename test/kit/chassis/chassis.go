// Package chassis forwards packets with the real OVN, for tests: Open vSwitch and
// ovn-controller in a network namespace of the test, with the datapath in user space.
// Pods and machines outside are namespaces of their own.
package chassis

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/northbound"
	"fairlead.io/test/kit/process"
)

// Name is that of the chassis, for gateway ports.
const Name = "ch1"

// Physical is the name of the network outside, for localnet ports.
const Physical = "phys"

// The bridges of the chassis.
const (
	inside  = "br-int"
	outside = "br-ex"
)

const switchSchema = "/usr/share/openvswitch/vswitch.ovsschema"

// Chassis is one host of OVN.
type Chassis struct {
	t      testing.TB
	ns     *netns.NS
	dir    string
	plugs  int
	server *northbound.Server
}

// Start starts a chassis with ovn-northd for a northbound database.
func Start(t testing.TB, nb *northbound.Server) *Chassis {
	t.Helper()
	for _, program := range []string{"ovs-vswitchd", "ovn-controller", "ethtool"} {
		netns.Need(t, program)
	}
	dir, err := os.MkdirTemp("", "ovs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &Chassis{t: t, ns: netns.New(t, "chassis"), dir: dir, server: nb}
	nb.Northd()
	c.ns.Run("ovsdb-tool", "create", c.path("db"), switchSchema)
	c.start("ovsdb-server", c.path("db"), "--remote=punix:"+c.path("sock"), "--unixctl="+c.path("db.ctl"))
	netns.Eventually(t, time.Minute, "Open vSwitch's database listens", func() bool {
		_, err := os.Stat(c.path("db.ctl"))
		return err == nil
	})
	c.ctl("--no-wait", "init", "--", "set", "open", ".", "external-ids:system-id="+Name, "external-ids:ovn-remote="+nb.South(),
		"external-ids:ovn-encap-type=geneve", "external-ids:ovn-encap-ip=127.0.0.1",
		"external-ids:ovn-bridge-mappings="+Physical+":"+outside, "external-ids:ovn-bridge-datapath-type=netdev",
		"--", "add-br", outside, "--", "set", "bridge", outside, "datapath_type=netdev",
		"--", "add-br", inside, "--", "set", "bridge", inside, "datapath_type=netdev", "fail-mode=secure")
	c.start("ovs-vswitchd", "--disable-system", "unix:"+c.path("sock"), "--unixctl="+c.path("vswitchd.ctl"))
	// Without it, Open vSwitch 3.1 may end when a client uses a port again: see the
	// sandbox's chassis.
	netns.Eventually(t, time.Minute, "the switch has "+inside, func() bool {
		_, err := c.ns.Try("ovs-appctl", "--timeout=5", "-t", c.path("vswitchd.ctl"), "dpif/set-dp-features", inside, "ct_zero_snat", "false")
		return err == nil
	})
	c.start("ovn-controller", "unix:"+c.path("sock"))
	return c
}

func (c *Chassis) path(name string) string { return filepath.Join(c.dir, name) }

func (c *Chassis) start(program string, args ...string) {
	c.t.Helper()
	cmd := exec.Command(program, args...)
	for _, which := range []string{"OVS", "OVN"} {
		cmd.Env = append(cmd.Environ(), which+"_RUNDIR="+c.dir, which+"_LOGDIR="+c.dir, which+"_DBDIR="+c.dir)
	}
	c.ns.Do(func() { process.Start(c.t, cmd) })
}

func (c *Chassis) ctl(args ...string) {
	c.t.Helper()
	c.ns.Run("ovs-vsctl", append([]string{"--timeout=60", "--db=unix:" + c.path("sock")}, args...)...)
}

// Pod makes a namespace that is connected to the logical switch port of that name, with
// the port's MAC address.
func (c *Chassis) Pod(name, mac string, addresses ...string) *netns.NS {
	c.t.Helper()
	ns, port := c.plug(name, addresses)
	ns.Run("ip", "link", "set", "eth0", "address", mac)
	c.ctl("add-port", inside, port, "--", "set", "interface", port, "external_ids:iface-id="+name)
	return ns
}

// Outside makes a namespace on the network outside.
func (c *Chassis) Outside(name string, addresses ...string) *netns.NS {
	c.t.Helper()
	ns, port := c.plug(name, addresses)
	c.ctl("add-port", outside, port)
	return ns
}

func (c *Chassis) plug(name string, addresses []string) (ns *netns.NS, port string) {
	c.t.Helper()
	ns = netns.New(c.t, name)
	c.plugs++
	port = "port" + string(rune('a'+c.plugs))
	netns.Cable(netns.Plug{NS: ns, Interface: "eth0", Addresses: addresses}, netns.Plug{NS: c.ns, Interface: port})
	// The datapath in user space does not complete checksums.
	ns.Run("ethtool", "-K", "eth0", "tx", "off")
	return ns, port
}

// Route sends all that a namespace does not reach by itself to a router.
func Route(ns *netns.NS, gateways ...string) {
	for _, g := range gateways {
		family := "-4"
		if netip.MustParseAddr(g).Is6() {
			family = "-6"
		}
		ns.Run("ip", family, "route", "add", "default", "via", g)
	}
}

// Wait waits until the chassis forwards as the northbound database says.
func (c *Chassis) Wait() {
	c.t.Helper()
	if out := c.server.Ctl("--wait=hv", "sync"); strings.TrimSpace(out) != "" {
		c.t.Log(out)
	}
}
