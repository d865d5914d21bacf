package ipam

import (
	"net/netip"
	"testing"

	"fairlead.io/internal/lb"
)

// A pool that comes gives a Service all the addresses that it asks for, at once.
func TestSeveralOfANewPool(t *testing.T) {
	a := New()
	r := several("web", 1, "192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4")
	a.Settle(r, nil)
	wantVerdict(t, a, "web", "", lb.AddressNotInPool)
	if changed := a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/29")}); len(changed) != 1 {
		t.Errorf("changed: %v", changed)
	}
	wantVerdict(t, a, "web", "192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4", lb.Ready)
}

// A Service may have several addresses of each of its families, and of no other.
func TestSeveralOfBothFamilies(t *testing.T) {
	for _, test := range []struct {
		families  []lb.Family
		policy    lb.FamilyPolicy
		addresses string
		code      lb.Code
	}{
		{lb.Families[:], lb.RequireDualStack, "192.0.2.1 2001:db8::1 192.0.2.2 2001:db8::2", lb.Ready},
		{ipv6First[:], lb.RequireDualStack, "2001:db8::1 192.0.2.1 192.0.2.2 2001:db8::2", lb.Ready},
		{lb.Families[1:], lb.SingleStack, "2001:db8::1 2001:db8::2", lb.Ready},
		{lb.Families[:1], lb.SingleStack, "", lb.FamilyMismatch},
	} {
		a := New()
		a.SetPools([]lb.Pool{poolOf("edge", "192.0.2.0/29", "2001:db8::/125")})
		r := several("web", 1, "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2")
		if len(test.families) == 1 {
			r.Addresses = r.Addresses[2:]
		}
		r.Families, r.Policy = test.families, test.policy
		a.Settle(r, nil)
		wantVerdict(t, a, "web", test.addresses, test.code)
	}
}

// A change that cannot be understood takes nothing away, even if the status is behind, and if
// nobody can tell any more that the Service asks for several addresses. Another Service of that
// name has nothing of it.
func TestSeveralThatCannotBeUnderstood(t *testing.T) {
	reason := lb.InvalidRequest.With("It is wrong")
	for _, published := range [][]netip.Addr{nil, addrs("192.0.2.1"), addrs("192.0.2.1 192.0.2.2")} {
		for _, stillSeveral := range []bool{true, false} {
			a := edgeOf(t, "192.0.2.0/28")
			r := several("web", 1, "192.0.2.1", "192.0.2.2")
			a.Settle(r, nil)
			r.Addresses, r.Invalid, r.Several = nil, &reason, stillSeveral
			a.Settle(r, published)
			wantVerdict(t, a, "web", "192.0.2.1 192.0.2.2", lb.InvalidRequest)
		}
	}
	a := edgeOf(t, "192.0.2.0/28")
	r := several("web", 1, "192.0.2.1", "192.0.2.2")
	a.Settle(r, nil)
	r.UID, r.Addresses, r.Invalid = "another", nil, &reason
	a.Settle(r, nil)
	wantVerdict(t, a, "web", "", lb.InvalidRequest)
	a.Settle(several("late", 3, "192.0.2.1", "192.0.2.2"), nil)
	wantVerdict(t, a, "late", "192.0.2.1 192.0.2.2", lb.Ready)
}
