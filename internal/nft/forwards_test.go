package nft_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

// What kube-proxy forwards is read in each of its modes, in both families.
func TestForwards(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	asked := map[netip.Addr][]lb.Port{
		four:                             {{Protocol: "UDP", Number: 53}, {Protocol: "TCP", Number: 80}},
		six:                              {{Protocol: "TCP", Number: 80}},
		netip.MustParseAddr("192.0.2.8"): {{Protocol: "TCP", Number: 80}},
	}
	maps4 := "add table ip kube-proxy; add chain ip kube-proxy external; add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }; "
	maps6 := "add table ip6 kube-proxy; add chain ip6 kube-proxy external; add map ip6 kube-proxy service-ips { type ipv6_addr . inet_proto . inet_service : verdict; }; "
	iptables := func(program, address string) func(*netns.NS) {
		return func(n *netns.NS) {
			n.Run(program, "-t", "nat", "-N", "KUBE-SERVICES")
			n.Run(program, "-t", "nat", "-N", "KUBE-EXT-1")
			n.Run(program, "-t", "nat", "-A", "KUBE-SERVICES", "-d", address, "-p", "tcp", "-m", "comment", "--comment", "shop/web", "-m", "tcp", "--dport", "80", "-j", "KUBE-EXT-1")
		}
	}
	for name, c := range map[string]struct {
		make  func(*netns.NS)
		known bool
		want  []netip.Addr
	}{
		"nothing":                 {func(*netns.NS) {}, false, nil},
		"nftables, none of these": {func(n *netns.NS) { n.Run("nft", maps4) }, true, nil},
		"nftables": {func(n *netns.NS) {
			n.Run("nft", maps4+"add element ip kube-proxy service-ips { 192.0.2.7 . tcp . 80 : goto external }")
		}, true, []netip.Addr{four}},
		"nftables, another port": {func(n *netns.NS) {
			n.Run("nft", maps4+"add element ip kube-proxy service-ips { 192.0.2.7 . tcp . 81 : goto external }")
		}, true, nil},
		"nftables, IPv6": {func(n *netns.NS) {
			n.Run("nft", maps6+"add element ip6 kube-proxy service-ips { 2001:db8::7 . tcp . 80 : goto external }")
		}, true, []netip.Addr{six}},
		"iptables":                         {iptables("iptables-nft", "192.0.2.7/32"), true, []netip.Addr{four}},
		"iptables, a network":              {iptables("iptables-nft", "192.0.2.0/24"), true, nil},
		"iptables, IPv6":                   {iptables("ip6tables-nft", "2001:db8::7/128"), true, []netip.Addr{six}},
		"iptables, its own tables":         {iptables("iptables-legacy", "192.0.2.7/32"), true, []netip.Addr{four}},
		"iptables, its own, a network":     {iptables("iptables-legacy", "192.0.2.0/24"), true, nil},
		"iptables, its own tables of IPv6": {iptables("ip6tables-legacy", "2001:db8::7/128"), true, []netip.Addr{six}},
	} {
		t.Run(name, func(t *testing.T) {
			node := netns.New(t, "node")
			c.make(node)
			var got map[netip.Addr]bool
			var known bool
			node.Do(func() { got, known = nft.Forwards(asked) })
			maps.DeleteFunc(got, func(_ netip.Addr, yes bool) bool { return !yes })
			if addrs := slices.SortedFunc(maps.Keys(got), netip.Addr.Compare); known != c.known || !slices.Equal(addrs, c.want) {
				t.Errorf("forwarded are %v (known %t), want %v", addrs, known, c.want)
			}
		})
	}
}
