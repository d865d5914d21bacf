package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// Cluster is a cluster on this machine, running or not. Everything it makes
// carries its name: network namespaces, cgroups and the directory with its
// state. The network of the machine itself stays as it is, so that several
// clusters with the same addresses run side by side.
type Cluster struct {
	Name     string    // letters, digits and dashes; default "fairlead"
	Nodes    int       // how many nodes Up starts; default 3
	StateDir string    // default /var/lib/NAME-sandbox
	Progress io.Writer // shows what Up does; default os.Stderr
	// Cloud is the cloud whose servers the nodes are: none, or one of
	// [Clouds].
	// The nodes then wait, tainted, for the cloud's controller manager.
	Cloud string
	// CloudFlags are further flags of the cloud's command.
	CloudFlags []string
	// Routers are none, or [RoutersFRR]: the client host is then behind them.
	Routers string
	// Network is what carries packets beside the LAN: nothing, or [OVN].
	Network string
	// ProxyMode is how kube-proxy forwards: nftables, which is the default, or
	// iptables.
	ProxyMode string
	// SingleStack is whether Nodes, pods and Services have IPv4 addresses only.
	SingleStack bool
	// Command is the path of the sandbox command, which runs as first process
	// of every node. Default: built from its source.
	Command string
}

// The names of hosts that are no nodes, as [Cluster.Exec] and others take them.
const (
	ClientHost  = "client"  // a neighbour of the nodes that is not in the cluster
	ControlHost = "control" // runs the control plane; the LAN's default gateway
	SwitchHost  = "switch"  // holds the bridge that is the LAN; has no address
)

// Addresses of the cluster, both families everywhere unless it is single-stack.
var (
	podCIDRs     = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd44::/48")}
	serviceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd96::/108")}
)

const (
	apiPort    = 6443
	bridgeName = "lan"
)

// host is a machine on the LAN.
type host struct {
	name  string
	index int // last part of its addresses
}

var (
	controlHost = host{ControlHost, 1}
	clientHost  = host{ClientHost, 100}
)

func nodeHost(number int) host { return host{"node" + strconv.Itoa(number), 10 + number} }

// addresses are the host's on the LAN: IPv4, then IPv6.
func (h host) addresses() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.77.0.%d/24", h.index)),
		netip.MustParsePrefix(fmt.Sprintf("fd77::%d/64", h.index)),
	}
}

// hardwareAddress stays the same when a host is started again, as a real
// network card's does.
func (h host) hardwareAddress() net.HardwareAddr {
	return net.HardwareAddr{0x02, 0xfa, 0x1e, 0xad, 0, byte(h.index)}
}

func (h host) isNode() bool { return strings.HasPrefix(h.name, "node") }

// podCIDRs are the addresses of a node's pods.
func (h host) podCIDRs() []netip.Prefix {
	number := h.index - 10
	return []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", number)),
		netip.MustParsePrefix(fmt.Sprintf("fd44:0:0:%d::/64", number)),
	}
}

var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// complete fills in defaults and checks what the user has chosen.
func (c *Cluster) complete() error {
	if c.Name == "" {
		c.Name = "fairlead"
	}
	if c.Nodes == 0 {
		c.Nodes = 3
	}
	if c.StateDir == "" {
		c.StateDir = filepath.Join("/var/lib", c.Name+"-sandbox")
	}
	if c.Progress == nil {
		c.Progress = os.Stderr
	}
	if !validName.MatchString(c.Name) {
		return fmt.Errorf("name of the sandbox %q: want up to 32 lower-case letters, digits and dashes", c.Name)
	}
	if c.Nodes < 1 || c.Nodes > 80 {
		return fmt.Errorf("number of nodes %d: want 1 to 80", c.Nodes)
	}
	if err := checkCloud(c.Cloud); err != nil {
		return err
	}
	switch {
	case c.Network == OVN && c.Cloud != "":
		return errors.New("a sandbox has either a cloud or a network of OVN")
	case c.Network != "" && c.Network != OVN:
		return fmt.Errorf("network %q is unknown; available: %s", c.Network, OVN)
	case c.Routers != "" && c.Routers != RoutersFRR:
		return fmt.Errorf("routers %q: want %q or none", c.Routers, RoutersFRR)
	case c.Routers != "" && (c.Cloud != "" || c.Network != ""):
		return errors.New("a sandbox has either routers, a cloud or a network of OVN")
	}
	switch c.ProxyMode {
	case "":
		c.ProxyMode = "nftables"
	case "nftables", "iptables":
	default:
		return fmt.Errorf("mode of kube-proxy %q: want nftables or iptables", c.ProxyMode)
	}
	if os.Geteuid() != 0 {
		return errors.New("the sandbox creates namespaces and cgroups: run it as root")
	}
	return nil
}

// families are the prefixes of those families that the cluster has.
func (c *Cluster) families(both []netip.Prefix) []netip.Prefix {
	if c.SingleStack {
		return both[:1]
	}
	return both
}

// hosts are those that are no nodes.
func (c *Cluster) hosts() []host {
	if c.Cloud != "" {
		return []host{controlHost, clientHost, cloudHost}
	}
	return append([]host{controlHost, clientHost}, c.routers()...)
}

// nodes are the hosts of the nodes that the cluster was started with.
func (c *Cluster) nodes() []host {
	var all []host
	for i := range c.Nodes {
		all = append(all, nodeHost(i+1))
	}
	return all
}

// node finds a node by its name.
func (c *Cluster) node(name string) (host, error) {
	for _, n := range c.nodes() {
		if n.name == name {
			return n, nil
		}
	}
	return host{}, fmt.Errorf("node %q: available: node1 to node%d", name, c.Nodes)
}

// Kubeconfig is the path of a kubeconfig for an administrator on this machine.
func (c *Cluster) Kubeconfig() string { return c.path("kubeconfig") }

// RESTConfig returns a configuration for an administrator on this machine,
// without a limit on requests per second.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	if err := c.open(); err != nil {
		return nil, err
	}
	return c.adminConfig()
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.StateDir}, parts...)...)
}

// netns is the name of a host's network namespace.
func (c *Cluster) netns(hostName string) string { return c.Name + "-" + hostName }

// lock keeps other processes from changing the same cluster until unlock. The
// lock is a socket without a file: it goes with the process.
func (c *Cluster) lock(ctx context.Context) (unlock func(), err error) {
	address := &net.UnixAddr{Net: "unix", Name: "@fairlead-sandbox/" + c.Name}
	for logged := false; ; logged = true {
		l, err := net.ListenUnix("unix", address)
		if err == nil {
			return func() { l.Close() }, nil
		}
		if !logged {
			fmt.Fprintf(c.Progress, "waiting for another process that changes the sandbox %s\n", c.Name)
		}
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("lock the sandbox %s: %w", c.Name, err)
		}
	}
}
