package sandbox

import (
	"context"
	_ "embed"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"fairlead.io/sandbox/router"
)

// RoutersFRR is the one choice of routers there is: one with FRR, one with BIRD, and the
// client host behind both.
const RoutersFRR = "frr"

// The names of the routers' hosts.
const (
	FRRHost  = "frr"
	BIRDHost = "bird"
)

var (
	frrHost  = host{FRRHost, 251}
	birdHost = host{BIRDHost, 252}
)

// wanName is the bridge of the network between the routers and the client.
const wanName = "wan"

var (
	//go:embed router/frr.conf
	frrConfig []byte
	//go:embed router/bird.conf
	birdConfig []byte
)

// beyond are the addresses of a host on the other side of the routers.
func (h host) beyond() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.78.0.%d/24", h.index)),
		netip.MustParsePrefix(fmt.Sprintf("fd78::%d/64", h.index)),
	}
}

// routers are the hosts that are, if there are any.
func (c *Cluster) routers() []host {
	if c.Routers == "" {
		return nil
	}
	return []host{frrHost, birdHost}
}

// behindRouters says whether a host is not on the LAN.
func (c *Cluster) behindRouters(h host) bool { return c.Routers != "" && h == clientHost }

// addressesOf are those that a host has on its first network card.
func (c *Cluster) addressesOf(h host) []netip.Prefix {
	if c.behindRouters(h) {
		return h.beyond()
	}
	return h.addresses()
}

// routesBeyond lead from the LAN to the client, and from the client everywhere, through
// both routers.
func (c *Cluster) routesBeyond(h host) []netlink.Route {
	var all []netlink.Route
	for i, net := range clientHost.beyond() {
		to, gateways := net.Masked(), host.addresses
		if c.behindRouters(h) {
			to, gateways = netip.PrefixFrom(net.Addr(), 0).Masked(), host.beyond
		}
		r := netlink.Route{Dst: ipNet(to)}
		for _, router := range c.routers() {
			r.MultiPath = append(r.MultiPath, &netlink.NexthopInfo{Gw: gateways(router)[i].Addr().AsSlice()})
		}
		all = append(all, r)
	}
	return all
}

// connectRouter plugs a router into the network of the client as well, and has it choose a
// node for each connection.
func (c *Cluster) connectRouter(h host) error {
	mac := h.hardwareAddress()
	mac[4] = 1
	if err := c.plug(h, "eth1", wanName, mac); err != nil {
		return err
	}
	if err := c.addAddresses(h.name, "eth1", h.beyond()...); err != nil {
		return err
	}
	return inNetns(c.netns(h.name), func() error {
		return writeSysctls([]sysctl{{"net/ipv4/fib_multipath_hash_policy", "1"}, {"net/ipv6/fib_multipath_hash_policy", "1"}})
	})
}

// startRouters starts what does not run of the routers' daemons, and returns when they answer.
func (c *Cluster) startRouters(ctx context.Context) error {
	frr, bird := router.FRR{Dir: c.path(FRRHost)}, router.BIRD{Dir: c.path(BIRDHost)}
	for dir, owner := range map[string]string{frr.Dir: "frr", bird.Dir: "bird"} {
		if err := router.MakeDir(dir, owner); err != nil {
			return err
		}
	}
	for file, content := range map[string][]byte{frr.Config(): frrConfig, bird.Config(): birdConfig} {
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return fmt.Errorf("write configuration of a router: %w", err)
		}
	}
	for _, daemon := range []string{"zebra", "bgpd", "bfdd"} { // zebra first
		if err := c.startRouter(ctx, FRRHost, frr.Daemon(daemon), frr.Vtysh("-d", daemon, "-c", "show version")); err != nil {
			return err
		}
	}
	return c.startRouter(ctx, BIRDHost, bird.Daemon(), bird.Birdc("show", "status"))
}

// startRouter starts a daemon unless it runs, and returns when it answers a question.
func (c *Cluster) startRouter(ctx context.Context, hostName string, daemon, question []string) error {
	pid, err := c.find(hostName, func(p process) bool { return slices.Equal(p.args, daemon) })
	if err != nil || pid != 0 {
		return err
	}
	log := c.path(hostName, "output.log")
	ended, err := detached{netns: c.netns(hostName), log: log, argv: daemon}.start()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		out, err := exec.CommandContext(ctx, question[0], question[1:]...).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("start %s: it ended; %s", daemon[0], logTail(log))
		default:
		}
		if pause(ctx) != nil {
			return fmt.Errorf("start %s: it does not answer: %w: %s", daemon[0], err, strings.TrimSpace(string(out)))
		}
	}
}

// tellNextWithRouters shows what there is to see.
func (i *installation) tellNextWithRouters() {
	fmt.Fprintf(i.cluster.Progress, `
Every node announces the address %[1]s of the Service "web" by BGP to two routers, "frr"
and "bird". The client is behind them. Try:

  export KUBECONFIG=%[2]s PATH=%[3]s:$PATH
  kubectl get bgppeers --namespace metallb-system --output yaml   # condition Ready
  %[4]s exec frr %[5]s -c 'show bgp ipv4 unicast %[1]s' -c 'show ip route bgp'
  %[4]s exec bird %[6]s
  %[4]s exec client guest get http://%[1]s

A node that is cordoned asks routers to prefer others (the community graceful-shutdown):

  kubectl cordon node2
  %[4]s exec frr %[5]s -c 'show bgp ipv4 unicast %[1]s'
  kubectl uncordon node2

Pull the cable of a node: BFD finds it, and the routers use the others. Until Kubernetes
detects the failure, some connections go to the pod on that node:

  %[4]s cut node2
  %[4]s exec frr ip route show %[1]s
  %[4]s heal node2

Continue with docs/guides/bgp.md. "%[4]s down" removes the cluster.
`, i.address, i.cluster.Kubeconfig(), i.cluster.path("bin"), i.sandboxCommand(),
		strings.Join(router.FRR{Dir: i.cluster.path(FRRHost)}.Vtysh(), " "),
		strings.Join(router.BIRD{Dir: i.cluster.path(BIRDHost)}.Birdc("show", "route"), " "))
}
