package ipam

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// leavers are pools of one address each, and a Service that has that of the first one. One
// Service waits for that address, and one for any of its pool.
func leavers(t *testing.T, lingers bool) (a *Allocator, r lb.Request) {
	t.Helper()
	a = New()
	a.SetPools([]lb.Pool{poolOf("old", "192.0.2.1"), poolOf("new", "192.0.2.2")})
	r = requestOf("a", 1)
	r.Pool, r.Lingers = "old", lingers
	a.Settle(r, []netip.Addr{})
	named, pooled := requestOf("named", 2), requestOf("pooled", 3)
	named.Addresses, pooled.Pool = addrs("192.0.2.1"), "old"
	a.Settle(named, []netip.Addr{})
	a.Settle(pooled, []netip.Addr{})
	r.Pool = "new"
	return a, r
}

func has(a *Allocator, name string) string {
	v, _ := a.Verdict(serviceName(name))
	return prose.Commas(v.Addresses)
}

// Nobody gets an address that a Service has lost and at which it may still be reached,
// until its status does not have it any more.
func TestAddressIsLeft(t *testing.T) {
	a, r := leavers(t, true)
	if a.Settle(r, addrs("192.0.2.1")); has(a, "a") != "192.0.2.2" || has(a, "named") != "" || has(a, "pooled") != "" {
		t.Fatalf("has %s, others %s and %s", has(a, "a"), has(a, "named"), has(a, "pooled"))
	}
	wantVerdict(t, a, "named", "", lb.AddressInUse)
	checkInvariants(t, a)

	for what, do := range map[string]func(){
		"the status is behind":    func() { a.Settle(r, addrs("192.0.2.1")) },
		"the status is not known": func() { a.Settle(r, nil) },
		"pools are read again":    func() { a.SetPools([]lb.Pool{poolOf("old", "192.0.2.1"), poolOf("new", "192.0.2.2")}) },
		"the owner of addresses goes": func() {
			a.SetOwners(Owners{Nodes: map[netip.Addr]string{addr("192.0.2.1"): "n1"}})
			a.SetOwners(Owners{})
		},
	} {
		if do(); has(a, "named") != "" || has(a, "pooled") != "" {
			t.Errorf("%s: others have %s and %s", what, has(a, "named"), has(a, "pooled"))
		}
		checkInvariants(t, a)
	}
	if _, changed := a.Settle(r, addrs("192.0.2.2")); has(a, "named") != "192.0.2.1" || len(changed) != 1 || has(a, "pooled") != "" {
		t.Errorf("others have %s and %s, changed %v", has(a, "named"), has(a, "pooled"), changed)
	}
	checkInvariants(t, a)
}

// What else may become of an address that is left.
func TestAddressThatWasLeft(t *testing.T) {
	a, r := leavers(t, false)
	if a.Settle(r, addrs("192.0.2.1")); has(a, "named") != "192.0.2.1" {
		t.Errorf("nothing is left outside, and the other has %q", has(a, "named"))
	}

	a, r = leavers(t, true)
	a.Settle(r, addrs("192.0.2.1"))
	r.Pool = "old"
	if a.Settle(r, addrs("192.0.2.1")); has(a, "a") != "192.0.2.2" || has(a, "named") != "" {
		t.Errorf("it wants to go back: has %s, the other %q", has(a, "a"), has(a, "named"))
	}
	r.Addresses = addrs("192.0.2.1")
	if a.Settle(r, addrs("192.0.2.1")); has(a, "a") != "192.0.2.1" {
		t.Errorf("it asks for what it left: has %s", has(a, "a"))
	}
	checkInvariants(t, a)

	a, r = leavers(t, true)
	a.Settle(r, addrs("192.0.2.1"))
	if a.Forget(r.Service); has(a, "named") != "192.0.2.1" || len(a.leaving) > 0 {
		t.Errorf("it is gone, and the other has %q", has(a, "named"))
	}
	checkInvariants(t, a)

	a, r = leavers(t, true)
	r.Families = []lb.Family{lb.IPv6}
	if a.Settle(r, addrs("192.0.2.1")); has(a, "named") != "" {
		t.Errorf("another family: the other has %q", has(a, "named"))
	}
	if a.Settle(r, []netip.Addr{}); has(a, "named") != "192.0.2.1" {
		t.Errorf("the status is empty, and the other has %q", has(a, "named"))
	}
	checkInvariants(t, a)
}

// Whatever happens, an address that is left is free for nobody, and no other one is kept.
func TestLeavingAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a := New()
	pools := []lb.Pool{poolOf("p", "192.0.2.0/30"), poolOf("q", "192.0.2.4/30")}
	a.SetPools(pools)
	status := map[string][]netip.Addr{}
	for range 5000 {
		name := string(rune('a' + random.IntN(10)))
		r := requestOf(name, int(name[0]))
		r.Lingers, r.Pool = name < "f", []string{"", "p", "q"}[random.IntN(3)]
		if random.IntN(3) == 0 {
			r.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, byte(random.IntN(8))})}
			r.Pool = ""
		}
		switch random.IntN(8) {
		case 0:
			a.Forget(r.Service)
			delete(status, name)
		case 1:
			a.SetPools(pools[:1+random.IntN(2)])
		default:
			published := status[name]
			if published == nil {
				published = []netip.Addr{}
			}
			v, _ := a.Settle(r, published)
			if random.IntN(2) == 0 {
				status[name] = v.Addresses
			}
		}
		checkInvariants(t, a)
		for x, by := range a.leaving {
			for _, s := range by {
				if s.gone || !s.req.Lingers || s.has[lb.IPv4] == x {
					t.Fatalf("%s is left by %s, which has %v", x, s.req.Service, s.has)
				}
			}
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}
