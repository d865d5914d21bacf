package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// VM is a network namespace in OVN's network, on one of the nodes. It answers as the image
// [WebImage] does, and ends with its node.
type VM struct {
	Name      string         `json:"name"` // vm1, vm2 …; a host as [Cluster.Exec] takes it
	Node      string         `json:"node"`
	Namespace string         `json:"namespace"` // of Kubernetes, that it belongs to
	Switch    string         `json:"switch"`    // logical switch that it is plugged into
	Addresses []netip.Prefix `json:"addresses"` // one of each family at most
	Gateways  []netip.Addr   `json:"gateways"`  // in the same order
	Port      uint16         `json:"port"`      // at which it answers, over HTTP and UDP
}

var validVM = regexp.MustCompile(`^vm[0-9]{1,3}$`)

func (c *Cluster) vmFile(name string) string { return c.path("vms", name+".json") }

func (c *Cluster) hasVM(name string) bool {
	_, err := os.Stat(c.vmFile(name))
	return validVM.MatchString(name) && err == nil
}

// VMs are those that were started, ordered by name.
func (c *Cluster) VMs() ([]VM, error) {
	files, err := filepath.Glob(c.vmFile("*"))
	if err != nil {
		return nil, err
	}
	var all []VM
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var vm VM
		if err := errors.Join(err, json.Unmarshal(raw, &vm)); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		all = append(all, vm)
	}
	return all, nil
}

// StartVM makes a VM and the port of the logical switch that it is plugged into. It is
// there until [Cluster.StopVM] removes it, and starts again with its node.
func (c *Cluster) StartVM(ctx context.Context, vm VM) error {
	if !validVM.MatchString(vm.Name) {
		return fmt.Errorf("start VM: name %q: want vm and a number", vm.Name)
	}
	n, err := c.node(vm.Node)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(vm)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("vms"), 0o755); err != nil {
		return fmt.Errorf("start %s: %w", vm.Name, err)
	}
	if err := replaceFile(c.vmFile(vm.Name), raw, 0o644); err != nil {
		return fmt.Errorf("start %s: %w", vm.Name, err)
	}
	address := []string{vm.mac()}
	for _, a := range vm.Addresses {
		address = append(address, a.Addr().String())
	}
	if _, err := c.Nbctl(ctx, "--may-exist", "lsp-add", vm.Switch, vm.port(), "--", "lsp-set-addresses", vm.port(), strings.Join(address, " ")); err != nil {
		return err
	}
	return c.plugVM(ctx, n, vm)
}

// StopVM removes a VM.
func (c *Cluster) StopVM(ctx context.Context, name string) error {
	all, err := c.VMs()
	if err != nil {
		return err
	}
	for _, vm := range all {
		if vm.Name != name {
			continue
		}
		if err := c.endVM(ctx, vm); err != nil {
			return err
		}
		if n, err := c.node(vm.Node); err == nil && hasNetns(c.netns(n.name)) {
			if err := c.vsctl(ctx, n, "--if-exists", "del-port", integration, vm.Name); err != nil {
				return err
			}
		}
		if _, err := c.Nbctl(ctx, "--if-exists", "lsp-del", vm.port()); err != nil {
			return err
		}
		return os.Remove(c.vmFile(name))
	}
	return fmt.Errorf("stop %s: there is no such VM", name)
}

// port is the name of its port, as kube-ovn names those of pods.
func (vm VM) port() string { return vm.Name + "." + vm.Namespace }

func (vm VM) mac() string {
	var number int
	_, _ = fmt.Sscanf(vm.Name, "vm%d", &number)
	return fmt.Sprintf("02:fa:1e:ad:%02x:%02x", 0x80+number/256, number%256)
}

// tunnelMTU leaves room for the head of a tunnel.
const tunnelMTU = 1400

// plugVM makes the VM's namespace and connects it with the node's br-int.
func (c *Cluster) plugVM(ctx context.Context, n host, vm VM) error {
	if hasNetns(c.netns(vm.Name)) {
		return nil
	}
	h := host{name: vm.Name}
	if err := makeNetns(c.netns(vm.Name)); err != nil {
		return err
	}
	if err := inNetns(c.netns(vm.Name), func() error { return writeSysctls(h.sysctls()) }); err != nil {
		return err
	}
	node, err := linksOf(c.netns(n.name))
	if err != nil {
		return err
	}
	defer node.Close()
	inside, err := netns.GetFromName(c.netns(vm.Name))
	if err != nil {
		return fmt.Errorf("open network namespace of %s: %w", vm.Name, err)
	}
	defer inside.Close()
	mac, err := net.ParseMAC(vm.mac())
	if err != nil {
		return err
	}
	cable := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: vm.Name, MTU: tunnelMTU},
		PeerName:         "eth0",
		PeerNamespace:    netlink.NsFd(inside),
		PeerHardwareAddr: mac,
		PeerMTU:          tunnelMTU,
	}
	if err := node.LinkAdd(cable); err != nil {
		return fmt.Errorf("plug %s into %s: %w", vm.Name, n.name, err)
	}
	if err := setUp(node, vm.Name); err != nil {
		return err
	}
	links, err := linksOf(c.netns(vm.Name))
	if err != nil {
		return err
	}
	defer links.Close()
	for _, name := range []string{"lo", "eth0"} {
		if err := setUp(links, name); err != nil {
			return err
		}
	}
	if err := c.addAddresses(vm.Name, "eth0", vm.Addresses...); err != nil {
		return err
	}
	for _, gateway := range vm.Gateways {
		everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if gateway.Is6() {
			everything = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		if err := links.RouteAdd(&netlink.Route{Dst: ipNet(everything), Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("add route of %s: %w", vm.Name, err)
		}
	}
	if err := c.fullChecksums(vm.Name, "eth0"); err != nil {
		return err
	}
	if err := c.vsctl(ctx, n, "--may-exist", "add-port", integration, vm.Name, "--", "set", "Interface", vm.Name, "external_ids:iface-id="+vm.port()); err != nil {
		return err
	}
	_, err = detached{
		netns: c.netns(vm.Name), log: c.path("vms", vm.Name+".log"),
		argv: []string{c.path("bin", "guest"), "web", fmt.Sprint(vm.Port)},
		env:  []string{"GUEST_NAME=" + vm.Name, "NODE_NAME=" + vm.Node},
	}.start()
	return err
}

// startVMs starts what a node had when it ended.
func (c *Cluster) startVMs(ctx context.Context, n host) error {
	all, err := c.VMs()
	if err != nil {
		return err
	}
	for _, vm := range all {
		if vm.Node != n.name {
			continue
		}
		if err := c.plugVM(ctx, n, vm); err != nil {
			return err
		}
	}
	return nil
}

// killVMs ends what ran on a node that is gone.
func (c *Cluster) killVMs(ctx context.Context, n host) error {
	all, err := c.VMs()
	if err != nil {
		return err
	}
	for _, vm := range all {
		if vm.Node != n.name {
			continue
		}
		if err := c.endVM(ctx, vm); err != nil {
			return err
		}
	}
	return nil
}

// endVM removes the namespace, and the cable with it.
func (c *Cluster) endVM(ctx context.Context, vm VM) error {
	if err := killIn(ctx, c.netns(vm.Name)); err != nil {
		return err
	}
	return removeNetns(c.netns(vm.Name))
}
