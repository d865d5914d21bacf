package ipam

import (
	"net/netip"
	"testing"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
)

// A pool can hand out what nobody holds, unless it is disabled or refused; the lowest ranges come
// first, and no more than asked for.
func TestFree(t *testing.T) {
	broken := lb.PoolInvalid.With("x")
	disabled, invalid := poolOf("disabled", "198.51.100.0/30"), poolOf("invalid", "203.0.113.0/30")
	disabled.Disabled, invalid.Invalid = true, &broken
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/29"), disabled, invalid})
	r := requestOf("a", 1)
	r.Addresses = []netip.Addr{addr("192.0.2.2")}
	a.Settle(r, nil)
	low, high := netipx.IPRangeFrom(addr("192.0.2.0"), addr("192.0.2.1")), netipx.IPRangeFrom(addr("192.0.2.3"), addr("192.0.2.7"))
	for _, test := range []struct {
		pool  string
		f     lb.Family
		limit int
		want  []netipx.IPRange
	}{
		{"edge", lb.IPv4, 5, []netipx.IPRange{low, high}},
		{"edge", lb.IPv4, 2, []netipx.IPRange{low, high}},
		{"edge", lb.IPv4, 1, []netipx.IPRange{low}},
		{"edge", lb.IPv4, 0, nil},
		{"edge", lb.IPv6, 5, nil},
		{"disabled", lb.IPv4, 5, nil},
		{"invalid", lb.IPv4, 5, nil},
		{"none", lb.IPv4, 5, nil},
	} {
		got := a.Free(poolKey(test.pool), test.f, test.limit)
		if len(got) != len(test.want) {
			t.Errorf("%s, %s, %d: %v", test.pool, test.f, test.limit, got)
			continue
		}
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%s, %s, %d: %v", test.pool, test.f, test.limit, got)
			}
		}
	}
}

// An address is of the first pool that has it.
func TestDialectOf(t *testing.T) {
	other := poolOf("lan", "198.51.100.0/30")
	other.Key.Dialect = "metallb"
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30"), other})
	for text, want := range map[string]lb.Dialect{"192.0.2.1": lb.Native, "198.51.100.1": "metallb", "203.0.113.1": ""} {
		if got := a.DialectOf(addr(text)); got != want || a.InPool(addr(text)) != (want != "") {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// A Service without ports waits like any other.
func TestFirstPort(t *testing.T) {
	if got := firstPort(&lb.Request{}); got != (lb.Port{}) {
		t.Errorf("%v", got)
	}
	ports := []lb.Port{{Protocol: "UDP", Number: 53}, {Protocol: "TCP", Number: 80}}
	if got := firstPort(&lb.Request{Ports: ports}); got != ports[0] {
		t.Errorf("%v", got)
	}
}

func TestOnly(t *testing.T) {
	theirs := poolOf("lan", "198.51.100.0/30")
	theirs.Key.Dialect = "metallb"
	for _, test := range []struct {
		name         string
		pools        []lb.Pool
		ours, theirs bool
	}{
		{"no pool", nil, false, false},
		{"ours", []lb.Pool{poolOf("edge", "192.0.2.0/30")}, true, false},
		{"theirs", []lb.Pool{theirs}, false, true},
		{"both", []lb.Pool{poolOf("edge", "192.0.2.0/30"), theirs}, false, false},
	} {
		a := New()
		a.SetPools(test.pools)
		if a.Only(lb.Native) != test.ours || a.Only("metallb") != test.theirs {
			t.Errorf("%s: %t, %t", test.name, a.Only(lb.Native), a.Only("metallb"))
		}
	}
}

// Where there are more addresses than a number can say, the exact count has those of its family.
func TestExactUsage(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/30", "2001:db8::/64", "2001:db8:1::/126")})
	u := a.Usage()[0].Families
	if got := u[lb.IPv6].Exact; got == nil || got.String() != "18446744073709551620" {
		t.Errorf("IPv6: %v", got)
	}
	if u[lb.IPv4].Exact != nil || u[lb.IPv4].Total != 4 {
		t.Errorf("IPv4: %+v", u[lb.IPv4])
	}
}
