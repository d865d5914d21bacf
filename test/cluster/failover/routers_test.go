package failover

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/router"
)

// Addresses beyond the LAN. The client is behind the first router.
const (
	frrAddress  = "10.77.0.251"
	birdAddress = "10.77.0.252"
	clientNet   = "203.0.113.0/24"
	clientNet6  = "fd78::/64"
	nodesAS     = 65010
)

// frrConfig takes sessions of all nodes.
const frrConfig = `
router bgp 65001
 bgp router-id 10.77.0.251
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 bgp graceful-restart
 bgp bestpath as-path multipath-relax
 timers bgp 3 9
 neighbor nodes peer-group
 neighbor nodes remote-as 65010
 neighbor nodes bfd
 neighbor nodes bfd profile fast
 bgp listen range 10.77.0.0/24 peer-group nodes
 address-family ipv4 unicast
  neighbor nodes activate
  neighbor nodes soft-reconfiguration inbound
  maximum-paths 8
 address-family ipv6 unicast
  neighbor nodes activate
  neighbor nodes soft-reconfiguration inbound
  maximum-paths 8
bfd
 profile fast
  detect-multiplier 3
  receive-interval 300
  transmit-interval 300
`

// routers are two on the LAN of the nodes: FRR, with a client behind it, and BIRD.
type routers struct {
	t               *testing.T
	ns, birds, host *netns.NS
	frr             *router.FRR
	bird            *router.BIRD
}

// newRouters starts FRR, and plugs it into the switch.
func newRouters(t *testing.T) *routers {
	t.Helper()
	r := &routers{t: t, ns: netns.New(t, "r1"), host: netns.New(t, "client")}
	r.plug(r.ns, "pr1", frrAddress+"/24", "fd77::251/64")
	netns.Cable(
		netns.Plug{NS: r.ns, Interface: "eth1", Addresses: []string{"203.0.113.1/24", "fd78::1/64"}},
		netns.Plug{NS: r.host, Interface: "eth0", Addresses: []string{"203.0.113.2/24", "fd78::2/64"}})
	r.ns.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.fib_multipath_hash_policy=1", "net.ipv6.fib_multipath_hash_policy=1")
	r.host.Run("ip", "route", "add", "default", "via", "203.0.113.1")
	r.host.Run("ip", "-6", "route", "add", "default", "via", "fd78::1")
	for _, node := range nodes {
		for _, args := range [][]string{{"ip", "route", "replace", clientNet, "via", frrAddress}, {"ip", "-6", "route", "replace", clientNet6, "via", "fd77::251"}} {
			onHost(t, node, args...)
			undo := slices.Clone(args)
			undo[slices.Index(undo, "replace")] = "delete"
			t.Cleanup(func() { _, _ = cluster.Exec(context.Background(), node, undo...) })
		}
	}
	r.frr = router.StartFRR(t, r.ns, frrConfig, "bgpd", "bfdd")
	return r
}

// addBIRD starts BIRD beside FRR.
func (r *routers) addBIRD(config string) {
	r.t.Helper()
	r.birds = netns.New(r.t, "r2")
	r.plug(r.birds, "pr2", birdAddress+"/24", "fd77::252/64")
	r.bird = router.StartBIRD(r.t, r.birds, config)
}

// plug connects a router with the switch of the cluster.
func (r *routers) plug(ns *netns.NS, port string, addresses ...string) {
	r.t.Helper()
	ns.Run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns", cluster.Name+"-"+sandbox.SwitchHost)
	// The kernel removes a namespace with its cards when nobody looks any more; the next test must
	// not meet this router.
	r.t.Cleanup(func() {
		_, _ = cluster.Exec(context.Background(), sandbox.SwitchHost, "ip", "link", "delete", port)
	})
	onHost(r.t, sandbox.SwitchHost, "ip", "link", "set", port, "master", "lan", "up")
	// The same card in every test: nodes remember where a router is for a while.
	ns.Run("ip", "link", "set", "eth0", "address", map[string]string{"pr1": "02:00:00:00:02:51", "pr2": "02:00:00:00:02:52"}[port], "up")
	for _, a := range addresses {
		args := []string{"addr", "add", a, "dev", "eth0"}
		if strings.Contains(a, ":") {
			args = append(args, "nodad")
		}
		ns.Run("ip", args...)
	}
}

var via = regexp.MustCompile(`via (\S+)`)

// nextHops are those of a prefix in the kernel of a router, in order.
func nextHops(ns *netns.NS, prefix netip.Prefix) []string {
	family := "-4"
	if prefix.Addr().Is6() {
		family = "-6"
	}
	out := []string{}
	for _, m := range via.FindAllStringSubmatch(ns.Run("ip", family, "route", "show", prefix.String()), -1) {
		if !slices.Contains(out, m[1]) {
			out = append(out, m[1])
		}
	}
	slices.Sort(out)
	return out
}

// leadsTo waits until a router leads a prefix to nodes, and no others.
func (r *routers) leadsTo(prefix netip.Prefix, on ...string) {
	r.t.Helper()
	r.awaitNextHops(r.ns, prefix, on...)
}

func (r *routers) awaitNextHops(ns *netns.NS, prefix netip.Prefix, on ...string) {
	r.t.Helper()
	want := []string{}
	for _, node := range on {
		want = append(want, addressOfNode(r.t, node, prefix.Addr().Is6()))
	}
	slices.Sort(want)
	eventually(r.t, func() error {
		if got := nextHops(ns, prefix); !slices.Equal(got, want) {
			return fmt.Errorf("%s leads %s to %q, not to %q", ns.Name, prefix, got, want)
		}
		return nil
	})
}

// addressOfNode is what a session with the node has as next hop.
func addressOfNode(t *testing.T, node string, v6 bool) string {
	t.Helper()
	var n corev1.Node
	if err := api.Get(t.Context(), types.NamespacedName{Name: node}, &n); err != nil {
		t.Fatal(err)
	}
	for _, a := range n.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && addr.Is6() == v6 {
			return addr.String()
		}
	}
	t.Fatalf("%s has the addresses %v", node, n.Status.Addresses)
	return ""
}

// bgpKind is an object of one of MetalLB's kinds about BGP.
func bgpKind(kind, name string) *unstructured.Unstructured {
	version := "v1beta1"
	if kind == "BGPPeer" {
		version = "v1beta2"
	}
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("metallb.io/" + version)
	o.SetKind(kind)
	o.SetNamespace(metallbNamespace)
	o.SetName(name)
	return o
}

// bgpObject makes or changes an object of one of MetalLB's kinds about BGP. It ends with the
// test.
func bgpObject(t *testing.T, kind, name, spec string) {
	t.Helper()
	o := bgpKind(kind, name)
	var body map[string]any
	if err := yaml.Unmarshal([]byte(spec), &body); err != nil {
		t.Fatal(err)
	}
	have := o.DeepCopy()
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(o), have); err == nil {
		have.Object["spec"] = body
		if err := api.Update(t.Context(), have); err != nil {
			t.Fatal(err)
		}
		return
	}
	o.Object["spec"] = body
	create(t, o)
}

// dualStackOfMetalLB has a Service ask for addresses of that pool.
func dualStackOfMetalLB(s *corev1.Service) {
	s.Annotations = map[string]string{"metallb.io/address-pool": "edge"}
	s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
