package failover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
)

const tor = `{myASN: 65010, peerASN: 65001, peerAddress: 10.77.0.251, holdTime: 9s, dualStackAddressFamily: true, enableGracefulRestart: true}`

// bgpWorld is a Service with addresses that all nodes announce to FRR.
func bgpWorld(t *testing.T) (*routers, *corev1.Service, []netip.Addr) {
	t.Helper()
	return bgpWorldWith(t, tor, nil)
}

// bgpWorldWith is bgpWorld with a peer of its own, and with what is done before the first session.
func bgpWorldWith(t *testing.T, peer string, first func(*routers)) (*routers, *corev1.Service, []netip.Addr) {
	t.Helper()
	showLogs(t)
	installMetalLB(t, "198.51.100.0/24", "fd99::/64")
	r := newRouters(t)
	if first != nil {
		first(r)
	}
	bgpObject(t, "BFDProfile", "fast", `{receiveInterval: 300, transmitInterval: 300, detectMultiplier: 3}`)
	bgpObject(t, "BGPPeer", "tor", peer)
	bgpObject(t, "BGPAdvertisement", "edge", `{ipAddressPools: [edge]}`)
	agentsRun(t, nodes...)
	s := newService(t, "web", dualStackOfMetalLB)
	addrs := addressesOf(t, s)
	for _, a := range addrs {
		r.leadsTo(hostPrefix(a), nodes...)
	}
	return r, s, addrs
}

// dial connects from the client behind FRR.
func (r *routers) dial(addr netip.Addr, port uint16) error {
	var err error
	r.host.Do(func() {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", netip.AddrPortFrom(addr, port).String(), 5*time.Second); err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(5 * time.Second))
		_, err = c.Read(make([]byte, 1))
		if errors.Is(err, io.EOF) {
			err = nil
		}
	})
	return err
}

// A Service is reached through a router from every node, in both families; only its ports are;
// and what nobody uses is not sent back to the router.
func TestBGP(t *testing.T) {
	r, s, addrs := bgpWorld(t)
	for _, a := range addrs {
		eventually(t, func() error { return r.dial(a, 80) })
		if err := r.dial(a, 81); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("port 81 of %s: %v", a, err)
		}
		eventually(t, func() error { // kernels limit how often they say so
			out, err := r.host.Try("ping", "-c", "1", "-W", "5", a.String())
			if err == nil {
				t.Fatalf("%s answers pings", a)
			}
			return saysAll(out, "nreachable")
		})
	}
	for _, node := range nodes {
		awaitEvent(t, "web", "metallb-speaker", "nodeAssigned", fmt.Sprintf(`announcing from node %q with protocol "bgp"`, node))
		eventually(t, func() error {
			var agent v1alpha1.Agent
			if err := api.Get(t.Context(), types.NamespacedName{Name: node}, &agent); err != nil {
				return err
			}
			if p := agent.Status.Peers; len(p) != 1 || p[0].Name != "tor" || p[0].State != "Established" || p[0].Prefixes != 2 || p[0].Reason != "PeerReady" {
				return fmt.Errorf("%s reports the peers %+v", node, p)
			}
			return nil
		})
	}
	where, err := interfaces()
	if err != nil || len(where) > 0 {
		t.Errorf("addresses are on interfaces: %v %v", where, err)
	}
	for _, node := range nodes {
		if out, err := cluster.Exec(t.Context(), node, "ss", "-Hltn", "sport", "=", ":179"); err != nil || strings.TrimSpace(string(out)) != "" {
			t.Errorf("%s listens on port 179: %s %v", node, out, err)
		}
	}

	// An aggregate beside it: other addresses of it are refused, not sent back.
	bgpObject(t, "BGPAdvertisement", "all", `{ipAddressPools: [edge], aggregationLength: 24, aggregationLengthV6: 64, communities: ["65001:7"]}`)
	r.leadsTo(netip.MustParsePrefix("198.51.100.0/24"), nodes...)
	r.leadsTo(netip.MustParsePrefix("fd99::/64"), nodes...)
	for _, unused := range []string{"198.51.100.99", "fd99::99"} {
		if out, err := r.host.Try("ping", "-c", "1", "-W", "5", unused); err == nil || !strings.Contains(out, "nreachable") {
			t.Errorf("ping %s: %v\n%s", unused, err, out)
		}
		if err := r.dial(netip.MustParseAddr(unused), 80); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("port 80 of %s: %v", unused, err)
		}
	}
	// It stays until the last address of it goes.
	other := newService(t, "another", dualStackOfMetalLB)
	last := hostPrefix(addressesOf(t, other)[0])
	published := time.Now()
	r.leadsTo(last, nodes...)
	within(t, "an address that is published is announced", time.Since(published), time.Second)
	unchanged := r.steady(netip.MustParsePrefix("198.51.100.0/24"))
	heard, began := r.hears(addrs[0]), time.Now()
	if err := api.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	within(t, "a Service that is deleted is withdrawn", heard().Sub(began), time.Second)
	r.leadsTo(hostPrefix(addrs[0]))
	r.leadsTo(last, nodes...)
	unchanged()
	if err := api.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for _, p := range []netip.Prefix{last, hostPrefix(addrs[0]), hostPrefix(addrs[1]), netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("fd99::/64")} {
		r.leadsTo(p)
	}
}

// Which nodes announce: those with pods, if the policy says so; those that labels and
// conditions do not exclude; none without any pod.
func TestBGPNodes(t *testing.T) {
	r, s, addrs := bgpWorld(t)
	label := func(node, body string) {
		t.Helper()
		n := &corev1.Node{}
		n.Name = node
		if err := api.Patch(t.Context(), n, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
			t.Fatal(err)
		}
	}
	p := hostPrefix(addrs[0])
	label("node1", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":""}}}`)
	r.leadsTo(p, "node2", "node3")
	label("node1", `{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}}}`)
	r.leadsTo(p, nodes...)

	// A cordoned node stays, as the last choice.
	draining := func() int {
		return strings.Count(r.frr.Show("show bgp ipv4 unicast "+p.String()), "65535:0")
	}
	label("node1", `{"spec":{"unschedulable":true}}`)
	eventually(t, func() error {
		if n := draining() + strings.Count(r.frr.Show("show bgp ipv4 unicast "+p.String()), "graceful-shutdown"); n == 0 {
			return errors.New("node1 does not drain")
		}
		return nil
	})
	label("node1", `{"spec":{"unschedulable":null}}`)
	r.leadsTo(p, nodes...)

	bgpObject(t, "BGPAdvertisement", "edge", `{ipAddressPools: [edge], nodeSelectors: [{matchLabels: {kubernetes.io/hostname: node2}}]}`)
	r.leadsTo(p, "node2")

	// A label that selects a node comes and goes: by the advertisement the session stays, by the
	// peer it ends.
	const edge = "nodeSelectors: [{matchLabels: {example.com/tier: edge}}]"
	tier := func(node, value string) {
		t.Helper()
		label(node, `{"metadata":{"labels":{"example.com/tier":`+value+`}}}`)
	}
	t.Cleanup(func() {
		for _, node := range nodes {
			n := &corev1.Node{}
			n.Name = node
			_ = api.Patch(context.Background(), n, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"example.com/tier":null}}}`)))
		}
	})
	bgpObject(t, "BGPAdvertisement", "edge", "{ipAddressPools: [edge], "+edge+"}")
	r.leadsTo(p)
	tier("node1", `"edge"`)
	tier("node2", `"edge"`)
	r.leadsTo(p, "node1", "node2")
	tier("node1", "null")
	r.leadsTo(p, "node2")
	if err := r.established("node1"); err != nil {
		t.Error(err)
	}
	bgpObject(t, "BGPAdvertisement", "edge", "{ipAddressPools: [edge]}")
	bgpObject(t, "BGPPeer", "tor", strings.Replace(tor, "{", "{"+edge+", ", 1))
	r.leadsTo(p, "node2")
	eventually(t, func() error {
		if r.established("node1") == nil {
			return errors.New("the session with node1 goes on")
		}
		return nil
	})
	tier("node1", `"edge"`)
	r.leadsTo(p, "node1", "node2")
	bgpObject(t, "BGPPeer", "tor", tor)
	r.leadsTo(p, nodes...)

	// With policy Cluster, nobody announces while the last pod is not ready.
	ready := func(is bool) {
		t.Helper()
		for _, name := range []string{"web-ipv4", "web-ipv6"} {
			slice := &discoveryv1.EndpointSlice{}
			if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, slice); err != nil {
				t.Fatal(err)
			}
			for i := range slice.Endpoints {
				slice.Endpoints[i].Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(is), Serving: ptr.To(is), Terminating: ptr.To(false)}
			}
			if err := api.Update(t.Context(), slice); err != nil {
				t.Fatal(err)
			}
		}
	}
	ready(false)
	r.leadsTo(p)
	ready(true)
	r.leadsTo(p, nodes...)
	bgpObject(t, "BGPAdvertisement", "edge", `{ipAddressPools: [edge], serviceSelectors: [{matchLabels: {app: other}}]}`)
	r.leadsTo(p)
	if err := api.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`))); err != nil {
		t.Fatal(err)
	}
	r.leadsTo(p, nodes...)
	bgpObject(t, "BGPPeer", "tor", strings.Replace(tor, "{", "{nodeSelectors: [{matchLabels: {kubernetes.io/hostname: node3}}], ", 1))
	r.leadsTo(p, "node3")
}
