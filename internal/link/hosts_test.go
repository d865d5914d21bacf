package link_test

import (
	"net/netip"
	"testing"

	"fairlead.io/internal/link"
)

// Hosts are the gateways, whether they were used or not, and neighbours that have
// answered.
func TestHosts(t *testing.T) {
	_, node := lab(t)
	links := watch(t, node)
	unused, mac := netip.MustParseAddr("192.0.2.254"), "02:00:00:00:00:07"
	node.Run("ip", "route", "add", "default", "via", unused.String())
	node.Run("ip", "-6", "route", "add", "default", "nexthop", "via", peer[1].String(), "dev", "eth0", "nexthop", "via", "2001:db8:1::2", "dev", "eth0")
	node.Run("ip", "neigh", "add", peer[1].String(), "lladdr", mac, "dev", "eth0", "nud", "stale")
	node.Run("ip", "neigh", "add", "192.0.2.77", "lladdr", mac, "dev", "eth0", "nud", "reachable")
	node.Run("ip", "neigh", "add", "192.0.2.78", "dev", "eth0", "nud", "failed")
	all, err := links.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	got := map[netip.Addr]link.Host{}
	for i, h := range all["eth0"] {
		got[h.Addr] = h
		if i > 0 && h.Gateway && !all["eth0"][i-1].Gateway {
			t.Errorf("gateways are not first: %v", all["eth0"])
		}
	}
	for _, want := range []struct {
		addr    string
		gateway bool
		mac     string
	}{{unused.String(), true, ""}, {peer[1].String(), true, mac}, {"2001:db8:1::2", true, ""}, {"192.0.2.77", false, mac}} {
		h, ok := got[netip.MustParseAddr(want.addr)]
		if !ok || h.Gateway != want.gateway || h.MAC.String() != want.mac {
			t.Errorf("%s: %+v, %t", want.addr, h, ok)
		}
	}
	if h, ok := got[netip.MustParseAddr("192.0.2.78")]; ok {
		t.Errorf("a host that never answered: %+v", h)
	}
}
