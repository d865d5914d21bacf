package sandbox

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// OVN is the [Cluster.Network] in which VMs are: OVN's databases and ovn-northd on the
// control host, every node a chassis with Open vSwitch in user space. Nodes have two
// more cards then, and the client host one:
//
//	eth1 of nodes, under br-phy:        the tunnels between chassis
//	eth2 of nodes, under br-ext-cloud:  the external network, with eth1 of the client host
const OVN = "ovn"

// Bridges of the switch that OVN's networks are.
const (
	underlayBridge = "underlay"
	externalBridge = "external"
)

// clientExternal are the addresses of the client host in the external network. It is the
// gateway there.
var clientExternal = []netip.Prefix{netip.MustParsePrefix("168.119.17.49/28"), netip.MustParsePrefix("2001:db8:17::49/64")}

// tunnelAddress is that of a chassis, of which the tunnels of others lead to it.
func (h host) tunnelAddress() netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("10.78.0.%d/24", h.index))
}

// furtherCard is the hardware address of a card besides the first.
func (h host) furtherCard(number byte) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0xfa, 0x1e, 0xad, number, byte(h.index)}
}

func (c *Cluster) bridges() []string {
	switch {
	case c.Network == OVN:
		return []string{bridgeName, underlayBridge, externalBridge}
	case c.Routers != "":
		return []string{bridgeName, wanName}
	}
	return []string{bridgeName}
}

// connectOVN plugs the cards of OVN's networks into a host.
func (c *Cluster) connectOVN(h host) error {
	switch {
	case c.Network != OVN:
		return nil
	case h.isNode():
		if err := c.plug(h, "eth1", underlayBridge, h.furtherCard(1)); err != nil {
			return err
		}
		if err := c.plug(h, "eth2", externalBridge, h.furtherCard(2)); err != nil {
			return err
		}
		// A switch in user space gets a copy of what arrives at its cards. The kernel
		// must not answer there for addresses that it has elsewhere.
		return inNetns(c.netns(h.name), func() error {
			var all []sysctl
			for _, nic := range []string{"eth1", "eth2"} {
				all = append(all, sysctl{"net/ipv4/conf/" + nic + "/arp_ignore", "1"}, sysctl{"net/ipv6/conf/" + nic + "/disable_ipv6", "1"})
			}
			return writeSysctls(all)
		})
	case h != clientHost:
		return nil
	}
	if err := c.plug(h, "eth1", externalBridge, h.furtherCard(1)); err != nil {
		return err
	}
	if err := c.addAddresses(h.name, "eth1", clientExternal...); err != nil {
		return err
	}
	return c.fullChecksums(h.name, "eth1")
}

// addAddresses gives addresses to a card.
func (c *Cluster) addAddresses(hostName, nic string, addresses ...netip.Prefix) error {
	links, err := linksOf(c.netns(hostName))
	if err != nil {
		return err
	}
	defer links.Close()
	link, err := links.LinkByName(nic)
	if err != nil {
		return fmt.Errorf("find %s of %s: %w", nic, hostName, err)
	}
	for _, a := range addresses {
		if err := links.AddrAdd(link, &netlink.Addr{IPNet: ipNet(a), Flags: unix.IFA_F_NODAD}); err != nil {
			return fmt.Errorf("add address %s to %s: %w", a, hostName, err)
		}
	}
	return nil
}

// fullChecksums has the kernel compute checksums of what leaves by a card: a switch in
// user space would forward those that are left to the hardware as they are.
func (c *Cluster) fullChecksums(hostName, nic string) error {
	_, err := c.run(context.Background(), hostName, nil, "ethtool", "-K", nic, "tx", "off")
	return err
}

// run runs a program of the machine in the network of a host, also while the cluster is
// not yet up.
func (c *Cluster) run(ctx context.Context, hostName string, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), env...)
	var out []byte
	err := inNetns(c.netns(hostName), func() (err error) {
		out, err = cmd.CombinedOutput()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// daemon is a program of OVN or Open vSwitch on a host, with files in a directory.
type daemon struct {
	host, dir, name string
	args            []string
	files           string // how its files in dir begin
}

// startDaemon starts a program unless it runs.
func (c *Cluster) startDaemon(ctx context.Context, d daemon) error {
	pidFile := "--pidfile=" + filepath.Join(d.dir, d.files+".pid")
	pid, err := c.find(d.host, func(p process) bool { return slices.Contains(p.args, pidFile) })
	if err != nil || pid != 0 {
		return err
	}
	// Once the file that tells is there, it runs. ovn-controller cannot say where its
	// control socket is to be.
	tells, flags := ".ctl", []string{pidFile, "--unixctl=" + filepath.Join(d.dir, d.files+".ctl")}
	if d.name == "ovn-controller" {
		tells, flags = ".pid", flags[:1]
	}
	for _, suffix := range []string{".ctl", ".sock", ".pid"} {
		if err := os.RemoveAll(filepath.Join(d.dir, d.files+suffix)); err != nil {
			return fmt.Errorf("start %s: %w", d.name, err)
		}
	}
	log := filepath.Join(d.dir, d.files+".log")
	ended, err := detached{
		netns: c.netns(d.host), log: log, env: ovsEnv(d.dir),
		argv: slices.Concat([]string{d.name}, d.args, flags, []string{"-vconsole:info", "-vsyslog:off"}),
	}.start()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, err := os.Stat(filepath.Join(d.dir, d.files+tells)); err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("start %s: it ended; %s", d.name, logTail(log))
		default:
		}
		if pause(ctx) != nil {
			return fmt.Errorf("start %s: it does not listen; %s", d.name, logTail(log))
		}
	}
}

// ovsEnv keeps programs in a directory of their own.
func ovsEnv(dir string) []string {
	var env []string
	for _, name := range []string{"OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVN_RUNDIR", "OVN_LOGDIR", "OVN_DBDIR"} {
		env = append(env, name+"="+dir)
	}
	return env
}
