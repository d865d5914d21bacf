package agent

import (
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// Addresses that a DHCP server must not assign.
func TestUnusable(t *testing.T) {
	given := netip.MustParseAddr("192.0.2.7")
	for name, c := range map[string]struct {
		before func(*agent)
		why    string
	}{
		"nobody's":        {func(*agent) {}, ""},
		"a node's":        {func(a *agent) { a.directory.setNodes(sets.New(given)) }, "of a node"},
		"of an interface": {func(a *agent) { a.links[0].Prefixes = []netip.Prefix{netip.PrefixFrom(given, 24)} }, "of node a, on eth0"},
		"of the cluster": {func(a *agent) {
			a.cluster.(*fakeCluster).put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{given.String()}}})
		}, "default/kubernetes inside the cluster"},
	} {
		a := newTestAgent(t)
		c.before(a)
		if got := (leaseHost{a}).Unusable(given, true); got == "" != (c.why == "") || !strings.Contains(got, c.why) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// An address that was leased elsewhere is not held here.
func TestAddressFollowsItsLease(t *testing.T) {
	a := newTestAgent(t)
	a.held[vip] = &holding{epoch: 1, up: true, ifaces: []string{"eth0"}}
	a.decideLeased(vip, "some lease", time.Now())
	if len(a.falling) != 1 {
		t.Error("kept without a lease")
	}
}

func TestLeaseInterface(t *testing.T) {
	links := []link.Link{
		{Name: "eth2", Index: 4, Up: true, MAC: make(net.HardwareAddr, 6), Global: [2]bool{true, false}, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}},
		{Name: "eth1", Index: 3, Up: true, MAC: make(net.HardwareAddr, 6), Global: [2]bool{true, true}, Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.2/24")}},
		{Name: "eth0", Index: 2, Up: false, MAC: make(net.HardwareAddr, 6), Global: [2]bool{true, true}},
		{Name: "bare", Index: 5, Up: true, MAC: make(net.HardwareAddr, 6)},
		{Name: "cni0", Index: 6, Up: true, MAC: make(net.HardwareAddr, 6), Global: [2]bool{true, true}},
	}
	for _, c := range []struct {
		family lb.Family
		last   netip.Addr
		named  []string
		want   string
	}{
		{lb.IPv4, netip.Addr{}, nil, "eth1"},
		{lb.IPv4, addrs("192.0.2.9")[0], nil, "eth2"},
		{lb.IPv4, addrs("203.0.113.9")[0], nil, "eth1"},
		{lb.IPv6, netip.Addr{}, nil, "eth1"},
		{lb.IPv4, netip.Addr{}, []string{"bare"}, "bare"},
		{lb.IPv6, netip.Addr{}, []string{"bare"}, ""},
		{lb.IPv4, netip.Addr{}, []string{"cni0"}, "cni0"},
		{lb.IPv4, netip.Addr{}, []string{"eth0"}, ""},
	} {
		if got, _ := leaseInterface(c.family, c.last, c.named, links, regexp.MustCompile(`^cni`)); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
