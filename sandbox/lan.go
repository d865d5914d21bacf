package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// makeSwitch makes the namespace with the bridge that is the LAN, and those of other
// networks.
func (c *Cluster) makeSwitch() error {
	name := c.netns(SwitchHost)
	if hasNetns(name) {
		return nil
	}
	if err := makeNetns(name); err != nil {
		return err
	}
	h, err := linksOf(name)
	if err != nil {
		return err
	}
	defer h.Close()
	// Without a querier on the LAN, a snooping bridge loses multicast.
	snooping := false
	for _, name := range c.bridges() {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}, MulticastSnooping: &snooping}
		if err := h.LinkAdd(bridge); err != nil {
			return fmt.Errorf("add bridge: %w", err)
		}
		if err := h.LinkSetUp(bridge); err != nil {
			return fmt.Errorf("set bridge up: %w", err)
		}
	}
	return inNetns(name, func() error {
		// A switch forwards frames past the packet filter and speaks no IP.
		return writeSysctls([]sysctl{
			{"net/bridge/bridge-nf-call-iptables", "0"},
			{"net/bridge/bridge-nf-call-ip6tables", "0"},
			{"net/bridge/bridge-nf-call-arptables", "0"},
			{"net/ipv6/conf/all/disable_ipv6", "1"},
		})
	})
}

// connect makes the namespace of a host, plugs it into the switch, and gives
// it its addresses and routes.
func (c *Cluster) connect(h host) error {
	name := c.netns(h.name)
	if hasNetns(name) {
		return nil
	}
	if err := makeNetns(name); err != nil {
		return err
	}
	if err := inNetns(name, func() error { return writeSysctls(h.sysctls()) }); err != nil {
		return err
	}
	bridge := bridgeName
	if c.behindRouters(h) {
		bridge = wanName
	}
	if err := c.plug(h, "eth0", bridge, h.hardwareAddress()); err != nil {
		return err
	}
	links, err := linksOf(name)
	if err != nil {
		return err
	}
	defer links.Close()
	if err := setUp(links, "lo"); err != nil {
		return err
	}
	addresses := c.addressesOf(h)
	if c.Cloud != "" && h.isNode() {
		addresses = append(addresses, h.publicAddresses()...)
	}
	if err := c.addAddresses(h.name, "eth0", addresses...); err != nil {
		return err
	}
	eth0, err := links.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("find eth0 of %s: %w", h.name, err)
	}
	for _, r := range c.routes(h) {
		for _, hop := range r.MultiPath {
			hop.LinkIndex = eth0.Attrs().Index
		}
		if len(r.MultiPath) == 0 {
			r.LinkIndex = eth0.Attrs().Index
		}
		if err := links.RouteAdd(&r); err != nil {
			return fmt.Errorf("add route %s to %s: %w", r, h.name, err)
		}
	}
	if slices.Contains(c.routers(), h) {
		return c.connectRouter(h)
	}
	return c.connectOVN(h)
}

// routes are those to the pods of other nodes, and the default route, which
// nobody follows but which many programs look for.
func (c *Cluster) routes(h host) []netlink.Route {
	if c.behindRouters(h) {
		return c.routesBeyond(h)
	}
	var all []netlink.Route
	if c.Routers != "" && !slices.Contains(c.routers(), h) {
		all = c.routesBeyond(h)
	}
	for _, n := range c.nodes() {
		if n == h {
			continue
		}
		for i, pods := range n.podCIDRs() {
			all = append(all, netlink.Route{Dst: ipNet(pods), Gw: n.addresses()[i].Addr().AsSlice()})
		}
	}
	all = append(all, c.cloudRoutes(h)...)
	if h == controlHost {
		return all
	}
	for i, everything := range []string{"0.0.0.0/0", "::/0"} {
		all = append(all, netlink.Route{Dst: ipNet(netip.MustParsePrefix(everything)), Gw: controlHost.addresses()[i].Addr().AsSlice()})
	}
	return all
}

// cloudRoutes lead to the cloud's addresses: to the LAN, if its servers have them
// there; else to the cloud's host, and from it to the nodes.
func (c *Cluster) cloudRoutes(h host) []netlink.Route {
	var all []netlink.Route
	switch {
	case c.Cloud == "":
	case clouds[c.Cloud].OnLink():
		for _, p := range slices.Concat(cloudPublic, cloudFloating) {
			all = append(all, netlink.Route{Dst: ipNet(p), Scope: netlink.SCOPE_LINK})
		}
	case h == cloudHost:
		for _, n := range c.nodes() {
			for i, a := range n.publicAddresses() {
				all = append(all, netlink.Route{Dst: ipNet(a), Gw: n.addresses()[i].Addr().AsSlice()})
			}
		}
	default:
		for _, prefixes := range [][]netip.Prefix{cloudPublic, cloudFloating} {
			for i, p := range prefixes {
				all = append(all, netlink.Route{Dst: ipNet(p), Gw: cloudHost.addresses()[i].Addr().AsSlice()})
			}
		}
	}
	return all
}

// sysctls are those of the host's network namespace, in the order of writing:
// to turn forwarding on resets others.
func (h host) sysctls() []sysctl {
	var all []sysctl
	if h != clientHost {
		all = append(all, sysctl{"net/ipv4/ip_forward", "1"}, sysctl{"net/ipv6/conf/all/forwarding", "1"})
	}
	for _, which := range []string{"all", "default"} {
		all = append(all,
			sysctl{"net/ipv4/conf/" + which + "/rp_filter", "0"},
			sysctl{"net/ipv6/conf/" + which + "/disable_ipv6", "0"},
			sysctl{"net/ipv6/conf/" + which + "/accept_ra", "0"},
			// A node that does not yet know an address sends its packets to
			// the gateway, and would tell their sender to do the same.
			sysctl{"net/ipv4/conf/" + which + "/accept_redirects", "0"},
			sysctl{"net/ipv6/conf/" + which + "/accept_redirects", "0"},
			// Link-local addresses are usable at once.
			sysctl{"net/ipv6/conf/" + which + "/accept_dad", "0"})
	}
	return all
}

// plug adds a network card to a host and a cable from it to a bridge of the switch.
// The card is up and has no address.
func (c *Cluster) plug(h host, nic, into string, mac net.HardwareAddr) error {
	port, err := portName(h, nic)
	if err != nil {
		return err
	}
	target, err := netns.GetFromName(c.netns(h.name))
	if err != nil {
		return fmt.Errorf("open network namespace of %s: %w", h.name, err)
	}
	defer target.Close()
	ports, err := linksOf(c.netns(SwitchHost))
	if err != nil {
		return err
	}
	defer ports.Close()
	bridge, err := ports.LinkByName(into)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	cable := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: port, MasterIndex: bridge.Attrs().Index},
		PeerName:         nic,
		PeerNamespace:    netlink.NsFd(target),
		PeerHardwareAddr: mac,
	}
	if err := ports.LinkAdd(cable); err != nil {
		return fmt.Errorf("add network card %s to %s: %w", nic, h.name, err)
	}
	if err := setUp(ports, port); err != nil {
		return err
	}
	cards, err := linksOf(c.netns(h.name))
	if err != nil {
		return err
	}
	defer cards.Close()
	return setUp(cards, nic)
}

// unplug removes a network card and its cable.
func (c *Cluster) unplug(h host, nic string) error {
	port, err := portName(h, nic)
	if err != nil {
		return err
	}
	ports, err := linksOf(c.netns(SwitchHost))
	if err != nil {
		return err
	}
	defer ports.Close()
	link, err := ports.LinkByName(port)
	if _, none := errors.AsType[netlink.LinkNotFoundError](err); none {
		return fmt.Errorf("remove network card: %s has no %s", h.name, nic)
	}
	if err != nil {
		return fmt.Errorf("find cable of %s: %w", h.name, err)
	}
	if err := ports.LinkDel(link); err != nil {
		return fmt.Errorf("remove network card %s of %s: %w", nic, h.name, err)
	}
	return nil
}

// unplugAll removes all network cards of a host.
func (c *Cluster) unplugAll(h host) error {
	ports, err := linksOf(c.netns(SwitchHost))
	if err != nil {
		return err
	}
	defer ports.Close()
	all, err := ports.LinkList()
	if err != nil {
		return fmt.Errorf("list cables: %w", err)
	}
	for _, link := range all {
		if name := link.Attrs().Name; name != h.name && !strings.HasPrefix(name, h.name+"-") {
			continue
		}
		if err := ports.LinkDel(link); err != nil {
			return fmt.Errorf("remove network card of %s: %w", h.name, err)
		}
	}
	return nil
}

// portName names the port of the switch that a card is plugged into.
func portName(h host, nic string) (string, error) {
	name := h.name
	if nic != "eth0" {
		name += "-" + nic
	}
	if len(name) >= unix.IFNAMSIZ {
		return "", fmt.Errorf("name of network card %q: too long by %d", nic, len(name)-unix.IFNAMSIZ+1)
	}
	return name, nil
}

func setUp(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("set link %s up: %w", name, err)
	}
	return nil
}

type sysctl struct{ name, value string }

// writeSysctls sets values of the thread's network namespace. A value that
// this kernel does not have is left out.
func writeSysctls(values []sysctl) error {
	for _, v := range values {
		err := os.WriteFile(filepath.Join("/proc/sys", v.name), []byte(v.value), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("set %s: %w", v.name, err)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
