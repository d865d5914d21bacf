package link_test

import (
	"net"
	"strings"
	"testing"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

func TestPrimary(t *testing.T) {
	eth := func(name string, index int, change ...func(*link.Link)) link.Link {
		l := link.Link{Name: name, Index: index, MAC: make(net.HardwareAddr, 6), Up: true}
		for _, f := range change {
			f(&l)
		}
		return l
	}
	route4 := func(l *link.Link) { l.Default[lb.IPv4] = true }
	route6 := func(l *link.Link) { l.Default[lb.IPv6] = true }
	for name, test := range map[string]struct {
		links  []link.Link
		v4, v6 string
	}{
		"none":                       {nil, "", ""},
		"nothing leads outside":      {[]link.Link{eth("lo", 1, func(l *link.Link) { l.Loopback = true }), eth("tun0", 2, func(l *link.Link) { l.MAC = nil })}, "", ""},
		"the default route":          {[]link.Link{eth("ens3", 3, route4), eth("ens2", 2)}, "ens3", "ens3"},
		"of each family":             {[]link.Link{eth("ens2", 2, route6), eth("ens3", 3, route4)}, "ens3", "ens2"},
		"no default route":           {[]link.Link{eth("ens4", 4), eth("ens3", 3)}, "ens3", "ens3"},
		"interfaces of pods":         {[]link.Link{eth("cilium_host", 1, route4), eth("lxc1234", 2), eth("veth0", 3), eth("ens9", 9)}, "ens9", "ens9"},
		"a port of a bridge is none": {[]link.Link{eth("ens3", 3, func(l *link.Link) { l.Slave = true }), eth("br0", 5)}, "br0", "br0"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := link.Primary(lb.IPv4, test.links); got != test.v4 {
				t.Errorf("IPv4: %q, want %q", got, test.v4)
			}
			if got := link.Primary(lb.IPv6, test.links); got != test.v6 {
				t.Errorf("IPv6: %q, want %q", got, test.v6)
			}
		})
	}
}

// The interface with the default route is followed: of several routes, the one with the
// lowest metric counts.
func TestDefaultRoute(t *testing.T) {
	_, node := lab(t)
	node.Run("ip", strings.Fields("link add other type bridge")...)
	node.Run("ip", strings.Fields("link set other up")...)
	node.Run("ip", strings.Fields("addr add 198.51.100.2/24 dev other")...)
	links := watch(t, node)
	is := func(name string, f lb.Family) bool {
		l, ok := named(links, name)
		return ok && l.Default[f]
	}
	if is("eth0", lb.IPv4) || is("other", lb.IPv4) {
		t.Error("there is a default route")
	}
	for _, step := range []struct{ do, v4, v6 string }{
		{"route add default via 192.0.2.1 metric 100", "eth0", ""},
		{"route add default dev other metric 50", "other", ""},
		{"-6 route add default via 2001:db8:1::1", "other", "eth0"},
		{"route add default dev other table 77", "other", "eth0"},
		{"route del default dev other metric 50", "eth0", "eth0"},
		{"route del default", "", "eth0"},
	} {
		node.Run("ip", strings.Fields(step.do)...)
		until(t, links, step.do, func() bool {
			return is("eth0", lb.IPv4) == (step.v4 == "eth0") && is("other", lb.IPv4) == (step.v4 == "other") &&
				is("eth0", lb.IPv6) == (step.v6 == "eth0") && !is("other", lb.IPv6)
		})
	}
}
