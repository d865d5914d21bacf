package ipam

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// clusterOf is an allocator in a cluster with owners of all kinds.
func clusterOf(pools ...lb.Pool) *Allocator {
	a := New()
	a.SetPools(pools)
	a.SetOwners(Owners{
		Nodes:      map[netip.Addr]string{addr("192.0.2.1"): "worker-1"},
		Interfaces: map[netip.Addr]string{addr("192.0.2.2"): "worker-1"},
		Others:     map[netip.Addr]string{addr("192.0.2.254"): "the gateway of node worker-1"},
		Networks: []Network{
			{netip.MustParsePrefix("10.96.0.0/12"), "in ServiceCIDR kubernetes"},
			{netip.MustParsePrefix("10.100.0.0/16"), "in ServiceCIDR within"},
			{netip.MustParsePrefix("10.244.1.0/24"), "in the network of the pods of node worker-1"},
			{netip.MustParsePrefix("fd00:10::/108"), "in ServiceCIDR six"},
		},
	})
	a.SetClusterIP(addr("198.51.100.1"), "default/kubernetes")
	a.SetExternalIPs(types.NamespacedName{Namespace: "shop", Name: "old"}, nil, []netip.Addr{addr("203.0.113.5"), addr("192.0.2.20")})
	return a
}

// Nobody gets what belongs to somebody else by asking for it, in a pool or outside.
func TestOwnedIsRefused(t *testing.T) {
	everything := poolOf("everything", "1.0.0.0-223.255.255.255")
	for _, pools := range [][]lb.Pool{nil, {everything}} {
		for address, want := range map[string]string{
			"192.0.2.1":      `AddressIsNode: Address 192.0.2.1 belongs to node "worker-1". Exclude it from the pool, or request another address.`,
			"192.0.2.2":      `AddressIsNode: Address 192.0.2.2 belongs to node "worker-1". Exclude it from the pool, or request another address.`,
			"192.0.2.254":    "AddressIsCluster: Address 192.0.2.254 cannot be given to a Service: it is the gateway of node worker-1. Request another address.",
			"10.96.0.0":      "AddressIsCluster: Address 10.96.0.0 cannot be given to a Service: it is in ServiceCIDR kubernetes. Request another address.",
			"10.111.255.255": "AddressIsCluster: Address 10.111.255.255 cannot be given to a Service: it is in ServiceCIDR kubernetes. Request another address.",
			"10.244.1.77":    "AddressIsCluster: Address 10.244.1.77 cannot be given to a Service: it is in the network of the pods of node worker-1. Request another address.",
			"198.51.100.1":   "AddressIsCluster: Address 198.51.100.1 cannot be given to a Service: it is the ClusterIP of Service default/kubernetes. Request another address.",
		} {
			a := clusterOf(pools...)
			r := requestOf("web", 1)
			r.Addresses, r.Anywhere = []netip.Addr{addr(address)}, true
			if v, _ := a.Settle(r, nil); v.Reason.String() != want || len(v.Addresses) > 0 {
				t.Errorf("%d pools: %v, %s", len(pools), v.Addresses, v.Reason)
			}
			r = requestOf("claims", 2)
			r.Evidence = lb.Asserted
			if v, _ := a.Settle(r, []netip.Addr{addr(address)}); len(v.Addresses) > 0 && v.Addresses[0] == addr(address) {
				t.Errorf("%d pools: a tenant's word got %v", len(pools), v)
			}
		}
	}
}

// At start neither: what a tenant wrote while no controller ran is looked at when it is
// known what belongs to whom. What was given before stays.
func TestOwnedIsRefusedAtStart(t *testing.T) {
	for _, address := range []string{"192.0.2.1", "192.0.2.2", "192.0.2.254", "10.97.0.7", "10.244.1.77"} {
		for evidence, keeps := range map[lb.Evidence]bool{lb.Proven: true, lb.Reported: true, lb.Asserted: false} {
			a := New()
			a.SetPools(nil)
			r := requestOf("web", 1)
			r.Addresses, r.Anywhere, r.Evidence = []netip.Addr{addr(address)}, true, evidence
			a.Import(r, r.Addresses)
			a.SetOwners(Owners{
				Nodes:      map[netip.Addr]string{addr("192.0.2.1"): "worker-1"},
				Interfaces: map[netip.Addr]string{addr("192.0.2.2"): "worker-1"},
				Others:     map[netip.Addr]string{addr("192.0.2.254"): "the gateway of node worker-1"},
				Networks:   []Network{{netip.MustParsePrefix("10.96.0.0/12"), "in a ServiceCIDR"}, {netip.MustParsePrefix("10.244.1.0/24"), "in the network of pods"}},
			})
			a.SettleAll()
			if v, _ := a.Verdict(r.Service); (prose.Commas(v.Addresses) == address) != keeps {
				t.Errorf("%s, evidence %d: %v (%s)", address, evidence, v.Addresses, v.Reason)
			}
		}
	}
}

// A ClusterIP stays one, whoever else has the address, and whichever of two changes is
// told first.
func TestClusterIPIsRemembered(t *testing.T) {
	dns := addr("198.51.100.10")
	refused := func(a *Allocator, when string) {
		t.Helper()
		r := requestOf("web", 1)
		r.Addresses, r.Anywhere = []netip.Addr{dns}, true
		if v, _ := a.Settle(r, nil); v.Reason.Code != lb.AddressIsCluster {
			t.Errorf("%s: %v (%s)", when, v.Addresses, v.Reason)
		}
		a.Forget(r.Service)
	}
	a := New()
	a.SetClusterIP(dns, "kube-system/dns")
	a.SetOwners(Owners{Others: map[netip.Addr]string{dns: "a name server of node worker-1"}})
	refused(a, "a name server")
	refused(a.Anew(), "read anew")
	a.SetOwners(Owners{})
	refused(a, "the node is gone")
	a.SetClusterIP(dns, "kube-system/new")
	a.UnsetClusterIP(dns, "kube-system/dns")
	refused(a, "of another Service")
	a.UnsetClusterIP(dns, "kube-system/new")
	r := requestOf("web", 1)
	r.Addresses, r.Anywhere = []netip.Addr{dns}, true
	if v, _ := a.Settle(r, nil); len(v.Addresses) != 1 {
		t.Errorf("nobody's: %s", v.Reason)
	}
}

// External IPs of others are refused outside of pools. In pools they only warn: every
// tenant can name them.
func TestExternalIPs(t *testing.T) {
	ask := func(a *Allocator, name, address string) string {
		r := requestOf(name, 1)
		r.Addresses, r.Anywhere = []netip.Addr{addr(address)}, true
		v, _ := a.Settle(r, nil)
		return v.Reason.String()
	}
	a := clusterOf(poolOf("edge", "192.0.2.0/24"))
	if got := ask(a, "web", "203.0.113.5"); got != "AddressIsCluster: Address 203.0.113.5 cannot be given to a Service: it is an external IP of Service shop/old. Request another address." {
		t.Error(got)
	}
	if got := ask(a, "old", "203.0.113.5"); got != lb.OutsidePools.Say("203.0.113.5").String() {
		t.Errorf("its own: %s", got)
	}
	if got := ask(a, "inside", "192.0.2.20"); got != lb.AddressOwned.Say("192.0.2.20", "an external IP of Service shop/old").String() {
		t.Errorf("in a pool: %s", got)
	}
	a.SetExternalIPs(types.NamespacedName{Namespace: "shop", Name: "old"}, []netip.Addr{addr("203.0.113.5"), addr("192.0.2.20")}, nil)
	if v, _ := a.Verdict(types.NamespacedName{Namespace: "shop", Name: "inside"}); v.Reason.Code != lb.Ready {
		t.Errorf("nobody names it any more: %s", v.Reason)
	}
}

// A pool hands out none of what belongs to others, and counts it as not free.
func TestPoolsLeaveOutWhatIsOwned(t *testing.T) {
	a := clusterOf(poolOf("edge", "10.95.255.255-10.112.0.0", "192.0.2.1-192.0.2.3", "198.51.100.0/31"))
	var got []netip.Addr
	for i := range 5 {
		v, _ := a.Settle(requestOf(string(rune('a'+i)), i), nil)
		got = append(got, v.Addresses...)
	}
	if want := "10.95.255.255, 10.112.0.0, 192.0.2.3, 198.51.100.0"; prose.Commas(got) != want {
		t.Errorf("handed out %v, want %s", got, want)
	}
	const total = 1<<20 + 2 + 3 + 2
	if u := a.Usage()[0].Families[lb.IPv4]; u.Total != total || u.Used != 4 || u.Free != 0 {
		t.Errorf("usage is %+v", u)
	}
	waiting := types.NamespacedName{Namespace: "shop", Name: "e"}
	changed := a.SetOwners(Owners{Networks: []Network{{netip.MustParsePrefix("10.96.0.0/13"), "in ServiceCIDR smaller"}}})
	if v, _ := a.Verdict(waiting); len(changed) != 1 || prose.Commas(v.Addresses) != "10.104.0.0" {
		t.Errorf("the network is smaller now, and %v has %v", changed, v)
	}
}

// What is held stays, with a warning, and moves if it may. Only ClusterIPs are taken
// back.
func TestOwnedIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		has, keeps string
		code       lb.Code
	}{
		"a gateway":       {"192.0.2.254", "192.0.2.254", lb.AddressOwned},
		"of the pods":     {"10.244.1.7", "10.244.1.7", lb.AddressOwned},
		"of the Services": {"10.97.0.7", "10.97.0.7", lb.AddressOwned},
		"link-local":      {"169.254.0.7", "169.254.0.7", lb.AddressOwned},
		"on an interface": {"192.0.2.2", "192.0.2.2", lb.OutOfPool},
		"a node's":        {"192.0.2.1", "192.0.2.1", lb.AddressIsNode},
		"a ClusterIP":     {"198.51.100.1", "192.0.2.64", lb.Ready},
	} {
		a := New()
		a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.64/28")})
		r := requestOf("web", 1)
		if v, _ := a.Settle(r, []netip.Addr{addr(test.has)}); prose.Commas(v.Addresses) != test.has {
			t.Fatalf("%s: first %v", name, v)
		}
		a.SetOwners(Owners{
			Nodes:      map[netip.Addr]string{addr("192.0.2.1"): "worker-1"},
			Interfaces: map[netip.Addr]string{addr("192.0.2.2"): "worker-1"},
			Others:     map[netip.Addr]string{addr("192.0.2.254"): "the gateway of node worker-1"},
			Networks:   []Network{{netip.MustParsePrefix("10.96.0.0/12"), "in a ServiceCIDR"}, {netip.MustParsePrefix("10.244.1.0/24"), "in the network of pods"}},
		})
		a.SetClusterIP(addr("198.51.100.1"), "default/kubernetes")
		v, _ := a.Settle(r, []netip.Addr{addr(test.has)})
		if prose.Commas(v.Addresses) != test.keeps || v.Reason.Code != test.code {
			t.Errorf("%s: %v (%s)", name, v.Addresses, v.Reason)
		}
		r.Reallocate = true
		if v, _ = a.Settle(r, v.Addresses); prose.Commas(v.Addresses) != "192.0.2.64" || v.Reason.Code != lb.Ready {
			t.Errorf("%s: moved to %v (%s)", name, v.Addresses, v.Reason)
		}
	}
}

// Link-local addresses are refused, except those of a pool that hands them out.
func TestLinkLocal(t *testing.T) {
	local, wide := poolOf("local", "169.254.169.0/24"), poolOf("wide", "128.0.0.0/2")
	local.LinkLocal = true
	for _, test := range []struct {
		pools []lb.Pool
		given bool
	}{{}, {pools: []lb.Pool{local}, given: true}, {pools: []lb.Pool{wide}}} {
		a := clusterOf(test.pools...)
		r := requestOf("web", 1)
		r.Addresses, r.Anywhere = []netip.Addr{addr("169.254.169.254")}, true
		if v, _ := a.Settle(r, nil); (v.Reason.Code == lb.AddressIsCluster) == test.given {
			t.Errorf("%d pools: %s", len(test.pools), v.Reason)
		}
	}
}

// A pool around link-local addresses hands out those before and after them, also when
// one of them was somebody's and has come back.
func TestPoolAroundLinkLocal(t *testing.T) {
	for _, span := range []string{"169.253.255.254-169.255.0.0", "fe7f:ffff:ffff:ffff:ffff:ffff:ffff:fffe-fec0::"} {
		a := New()
		a.SetPools([]lb.Pool{poolOf("wide", span)})
		for i := range 5 {
			r := requestOf(fmt.Sprint("web-", i), i)
			if strings.Contains(span, ":") {
				r.Families = []lb.Family{lb.IPv6}
			}
			v, _ := a.Settle(r, nil)
			if len(v.Addresses) > 0 && v.Addresses[0].IsLinkLocalUnicast() || (i < 3) != (v.Reason.Code == lb.Ready) || (i >= 3) != (v.Reason.Code == lb.PoolExhausted) {
				t.Errorf("%s: %d has %v (%s)", span, i, v.Addresses, v.Reason)
			}
			for _, x := range []string{"169.254.169.254", "fe80::1"} {
				a.SetOwners(Owners{Others: map[netip.Addr]string{addr(x): "the gateway of node worker-1"}})
				a.SetOwners(Owners{})
			}
		}
	}
}

// A quota counts what DHCP servers gave. Who has a lease keeps it; the next waits until
// there is room.
func TestQuotaCountsLeases(t *testing.T) {
	pool := poolOf("edge", "192.0.2.0/28")
	pool.Quota = 2
	a := New()
	a.SetPools([]lb.Pool{pool})
	lease := func(name string, age int, address string) lb.Verdict {
		r := requestOf(name, age)
		r.DHCP[lb.IPv4], r.Leased = true, []netip.Addr{addr(address)}
		v, _ := a.Settle(r, nil)
		return v
	}
	if v, _ := a.Settle(requestOf("a", 1), nil); v.Reason.Code != lb.Ready {
		t.Fatal(v)
	}
	if v := lease("b", 2, "198.51.100.2"); prose.Commas(v.Addresses) != "198.51.100.2" {
		t.Errorf("the second has %v (%s)", v.Addresses, v.Reason)
	}
	if v := lease("c", 3, "198.51.100.3"); v.Reason.Code != lb.QuotaExceeded || len(v.Addresses) > 0 {
		t.Errorf("the third has %v (%s)", v.Addresses, v.Reason)
	}
	if v, _ := a.Settle(requestOf("d", 4), nil); v.Reason.Code != lb.QuotaExceeded {
		t.Errorf("the fourth has %v (%s)", v.Addresses, v.Reason)
	}
	name := func(n string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: n} }
	a.Forget(name("b"))
	if v, _ := a.Verdict(name("c")); prose.Commas(v.Addresses) != "198.51.100.3" {
		t.Errorf("a lease went, and the next has %v (%s)", v.Addresses, v.Reason)
	}
	a.SetPools([]lb.Pool{pool})
	if v, _ := a.Verdict(name("d")); v.Reason.Code != lb.QuotaExceeded {
		t.Errorf("after pools were read again the fourth has %v (%s)", v.Addresses, v.Reason)
	}
	a.Forget(name("a"))
	if v, _ := a.Verdict(name("d")); v.Reason.Code != lb.Ready {
		t.Errorf("an address went, and the next has %v (%s)", v.Addresses, v.Reason)
	}
}
