package ipam

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// A Service is told from where its addresses are.
func TestOriginIsTold(t *testing.T) {
	leasing := poolOf("lan", "2001:db8::/126")
	leasing.DHCP[lb.IPv4] = true
	alone := poolOf("lan")
	alone.DHCP[lb.IPv4] = true
	lease := func(r *lb.Request) { r.Leased = addrs("198.51.100.7") }
	dual := func(r *lb.Request) {
		lease(r)
		r.Families, r.Policy = lb.Families[:], lb.RequireDualStack
	}
	for want, test := range map[string]struct {
		pools []lb.Pool
		asks  func(*lb.Request)
	}{
		`The Service has 192.0.2.0 from pool "edge".`:                                                 {[]lb.Pool{poolOf("edge", "192.0.2.0/30")}, func(*lb.Request) {}},
		`The Service has 192.0.2.0 and 2001:db8:: from pools "edge" and "six".`:                       {[]lb.Pool{poolOf("edge", "192.0.2.0/30"), poolOf("six", "2001:db8::/126")}, dual},
		`The Service has 198.51.100.7 from pool "lan" and a DHCP server.`:                             {[]lb.Pool{alone}, lease},
		`The Service has 198.51.100.7 and 2001:db8:: from pool "lan" and a DHCP server.`:              {[]lb.Pool{leasing}, dual},
		`The Service has 198.51.100.7 and 2001:db8:1:: from pools "lan" and "six" and a DHCP server.`: {[]lb.Pool{alone, poolOf("six", "2001:db8:1::/126")}, dual},
		`The Service has 198.51.100.7 from a DHCP server.`:                                            {nil, func(r *lb.Request) { lease(r); r.DHCP[lb.IPv4] = true }},
	} {
		a := New()
		a.SetPools(test.pools)
		r := requestOf("a", 1)
		test.asks(&r)
		if v, _ := a.Settle(r, nil); v.Reason.Text != want {
			t.Errorf("told %q, want %q", v.Reason.Text, want)
		}
	}
}

// Where both addresses of a Service belong to somebody else, the first one is told.
func TestFirstOwnedIsTold(t *testing.T) {
	four, six := addr("192.0.2.1"), addr("2001:db8::1")
	for _, test := range []struct {
		families []lb.Family
		others   map[netip.Addr]string
		want     string
	}{
		{lb.Families[:], map[netip.Addr]string{four: "the gateway", six: "the name server"}, "192.0.2.1"},
		{ipv6First[:], map[netip.Addr]string{four: "the gateway", six: "the name server"}, "2001:db8::1"},
		{lb.Families[:], map[netip.Addr]string{four: "the gateway"}, "192.0.2.1"},
		{lb.Families[:], map[netip.Addr]string{six: "the name server"}, "2001:db8::1"},
	} {
		a := New()
		a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.1", "2001:db8::1")})
		r := requestOf("a", 1)
		r.Families, r.Policy = test.families, lb.RequireDualStack
		a.Settle(r, nil)
		a.SetOwners(Owners{Others: test.others})
		v, _ := a.Verdict(r.Service)
		want := lb.AddressOwned.Say(test.want, test.others[addr(test.want)])
		if v.Reason != want || len(v.Addresses) != 2 {
			t.Errorf("%v: has %s, told %s", test.others, prose.Addrs(v.Addresses), v.Reason)
		}
	}
}

// A Service that nobody understands, not even of which families it is, keeps what it publishes,
// IPv4 first.
func TestWithoutFamilies(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30", "2001:db8::/126")})
	r := requestOf("a", 1)
	reason := lb.InvalidRequest.With("It is wrong")
	r.Families, r.Invalid = nil, &reason
	a.Settle(r, addrs("2001:db8::1 192.0.2.1"))
	wantVerdict(t, a, "a", "192.0.2.1 2001:db8::1", lb.InvalidRequest)
}

// An address that becomes a ClusterIP is lost, also by a Service that cannot be understood. Nobody
// waits for a DHCP server because of that.
func TestClusterIPIsNoLease(t *testing.T) {
	for _, invalid := range []bool{false, true} {
		a := New()
		a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/31")})
		r := requestOf("a", 1)
		a.Settle(r, nil)
		if invalid {
			reason := lb.InvalidRequest.With("It is wrong")
			r.Invalid = &reason
			a.Settle(r, nil)
		}
		changed := a.SetClusterIP(addr("192.0.2.0"), "shop/other")
		v, _ := a.Verdict(r.Service)
		if len(changed) != 1 || v.DHCP != [len(lb.Families)]bool{} || (len(v.Addresses) == 0) != invalid {
			t.Errorf("invalid %t: changed %v, has %v, by DHCP %v", invalid, changed, v.Addresses, v.DHCP)
		}
	}
}

// When there is room for one more on a shared address, the oldest that waits for it gets it,
// whichever port it asks for.
func TestOldestJoins(t *testing.T) {
	for range 20 { // the order of a map is at random
		a := New()
		a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0")})
		share := func(name string, age int, ports ...uint16) (changed []types.NamespacedName) {
			r := requestOf(name, age)
			r.ShareKey = "k"
			for _, p := range ports {
				r.Ports = append(r.Ports, lb.Port{Protocol: "TCP", Number: p})
			}
			_, changed = a.Settle(r, nil)
			return changed
		}
		share("first", 1, 9)
		share("never", 2, 7, 8, 9)
		for i, port := range []uint16{5, 3, 1, 2, 4, 6} { // all of them want port 9 as well
			share("waits-"+string(rune('a'+i)), 10+i, port, 9)
		}
		share("unrelated", 3, 7)
		changed := share("first", 1, 10)
		if len(changed) != 1 || changed[0].Name != "waits-a" {
			t.Fatalf("changed: %v", changed)
		}
	}
}
