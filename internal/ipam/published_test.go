package ipam

import (
	"slices"
	"testing"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// A Service leaves addresses that are out of pool, and its status has one of the pool: this one it
// gets at once, not only when it is looked at again, be the status what a tenant says or not.
func TestPublishedIsTakenInAMove(t *testing.T) {
	single := poolOf("edge", "192.0.2.0/29", "2001:db8::/125")
	single.SinglePool = true
	several := poolOf("edge", "192.0.2.0/29", "2001:db8::/125")
	for _, test := range []struct {
		name      string
		pool      lb.Pool
		had       string
		published string
		want      string
	}{
		{"beside what it had", several, "10.0.0.1", "10.0.0.1 192.0.2.5", "192.0.2.5 2001:db8::"},
		{"before what it had", several, "10.0.0.1", "192.0.2.5 10.0.0.1", "192.0.2.5 2001:db8::"},
		{"both beside what it had", several, "10.0.0.1 2001:db8:f::1", "10.0.0.1 192.0.2.5 2001:db8:f::1 2001:db8::5", "192.0.2.5 2001:db8::5"},
		{"instead of what it had", single, "10.0.0.1 2001:db8:f::1", "192.0.2.5", "192.0.2.5 2001:db8::"},
		{"of the family that it had not", single, "2001:db8:f::1", "192.0.2.5", "192.0.2.5 2001:db8::"},
	} {
		for _, evidence := range []lb.Evidence{lb.Proven, lb.Asserted} {
			a := New()
			r := requestOf("a", 1)
			r.Families, r.Policy = lb.Families[:], lb.PreferDualStack
			a.Import(r, addrs(test.had))
			a.SettleAll()
			a.SetPools([]lb.Pool{test.pool})
			r.Reallocate, r.Evidence = true, evidence
			for range 2 {
				if v, _ := a.Settle(r, addrs(test.published)); !slices.Equal(v.Addresses, addrs(test.want)) {
					t.Errorf("%s, evidence %d: has %s", test.name, evidence, prose.Addrs(v.Addresses))
				}
			}
		}
	}
}

// Of several addresses in a status, the first one counts that the Service may have.
func TestFirstPublishedThatFits(t *testing.T) {
	a := New()
	a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/31")})
	a.Settle(requestOf("old", 1), nil)
	a.Settle(requestOf("young", 9), nil)
	r := requestOf("a", 5)
	for range 2 { // the status is only behind: .0 is that of an older Service
		a.Settle(r, addrs("192.0.2.0"))
		wantVerdict(t, a, "a", "", lb.PoolExhausted)
	}
	a.Settle(r, addrs("192.0.2.0 192.0.2.1"))
	wantVerdict(t, a, "a", "192.0.2.1", lb.Ready)
	wantVerdict(t, a, "young", "", lb.PoolExhausted)
}

// A Service has moved to the pool that it asks for. If that shrinks at once, the Service keeps its
// address: this is not the Service's doing.
func TestPoolShrinksAfterAMove(t *testing.T) {
	edge := poolOf("edge", "192.0.2.0/30")
	a := New()
	a.SetPools([]lb.Pool{edge, poolOf("lab", "198.51.100.0/31")})
	r := requestOf("a", 1)
	a.Settle(r, nil)
	r.Pool = "lab"
	a.Settle(r, nil)
	a.SetPools([]lb.Pool{edge, poolOf("lab", "198.51.100.1")})
	wantVerdict(t, a, "a", "198.51.100.0", lb.OutOfPool)
}
