package nft_test

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/leak"
	"fairlead.io/test/kit/netns"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Addresses of the lab. Family f of each is at index f.
var (
	own   = pair("192.0.2.10", "2001:db8:1::10")   // the node's on eth0
	own1  = pair("192.0.3.10", "2001:db8:2::10")   // the node's on eth1
	vip   = pair("192.0.2.100", "2001:db8:1::100") // on the node's eth0
	other = pair("192.0.2.101", "2001:db8:1::101") // on the node's eth0, too
)

var http = []lb.Port{{Protocol: "TCP", Number: 80}, {Protocol: "UDP", Number: 53}}

func pair(v4, v6 string) [2]netip.Addr {
	return [2]netip.Addr{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
}

// lab is a node with two interfaces, each with a cable to the client, and the
// VIPs on eth0.
type lab struct {
	testing.TB
	client, node *netns.NS
	asker        [2]*netns.Asker // on the cables to eth0 and eth1
}

func newLab(t testing.TB) *lab {
	l := &lab{TB: t, client: netns.New(t, "client"), node: netns.New(t, "node")}
	netns.Cable(
		netns.Plug{NS: l.client, Interface: "c0", Addresses: []string{"192.0.2.1/24", "2001:db8:1::1/64"}},
		netns.Plug{NS: l.node, Interface: "eth0", Addresses: []string{"192.0.2.10/24", "2001:db8:1::10/64"}})
	netns.Cable(
		netns.Plug{NS: l.client, Interface: "c1", Addresses: []string{"192.0.3.1/24", "2001:db8:2::1/64"}},
		netns.Plug{NS: l.node, Interface: "eth1", Addresses: []string{"192.0.3.10/24", "2001:db8:2::10/64"}})
	for _, addrs := range [][2]netip.Addr{vip, other} {
		for _, a := range addrs {
			l.hold("eth0", a)
		}
	}
	l.asker[0] = l.client.Asker("c0", netip.MustParseAddr("192.0.2.1"))
	l.asker[1] = l.client.Asker("c1", netip.MustParseAddr("192.0.3.1"))
	// The kernel joins the group for solicitations of an address some time after
	// the address was added.
	for _, f := range lb.Families {
		netns.Eventually(t, time.Minute, "answers without our tables", func() bool {
			return l.answers(vip, f) && l.answers(other, f)
		})
	}
	return l
}

// hold puts an address on an interface of the node.
func (l *lab) hold(ifname string, a netip.Addr) {
	args := []string{"addr", "add", netip.PrefixFrom(a, a.BitLen()).String(), "dev", ifname,
		"noprefixroute", "preferred_lft", "0", "valid_lft", "600"}
	if a.Is6() {
		args = append(args, "nodad")
	} else {
		args = append(args, "scope", "host")
	}
	l.node.Run("ip", args...)
}

func (l *lab) open() *nft.Table {
	l.Helper()
	table, err := nft.OpenIn(slog.New(slog.DiscardHandler), l.node.FD())
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := table.Close(); err != nil {
			l.Error(err)
		}
	})
	return table
}

func (l *lab) apply(table *nft.Table, s nft.State) {
	l.Helper()
	if err := table.Apply(s); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) grant(table *nft.Table, ifname string) {
	l.Helper()
	if err := table.Grant(ifname); err != nil {
		l.Fatal(err)
	}
}

// answers says whether the node answers for an address on eth0.
func (l *lab) answers(addrs [2]netip.Addr, f lb.Family) bool {
	l.Helper()
	return l.asker[0].Answers(addrs[f], own[f])
}

// owning is a state in which both families of vip are the node's on interfaces.
func owning(interfaces ...string) nft.State {
	s := nft.State{VIPs: map[netip.Addr]nft.VIP{}}
	for _, f := range lb.Families {
		s.VIPs[vip[f]] = nft.VIP{Ports: http, Interfaces: interfaces}
		s.VIPs[other[f]] = nft.VIP{Ports: http}
	}
	return s
}

func eachFamily(t *testing.T, check func(t *testing.T, f lb.Family)) {
	t.Helper()
	for _, f := range lb.Families {
		t.Run(f.String(), func(t *testing.T) { check(t, f) })
	}
}
