package ipam

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// An address outside of all pools that becomes a ClusterIP is lost at once, and who waits for it
// gets it when it is none any more.
func TestClusterIPOutsideOfPools(t *testing.T) {
	x := addr("198.51.100.7")
	a := New()
	r := requestOf("a", 1)
	r.Addresses, r.Anywhere = []netip.Addr{x}, true
	a.Settle(r, nil)
	wantVerdict(t, a, "a", "198.51.100.7", lb.OutsidePools)
	if changed := a.SetClusterIP(x, "shop/other"); len(changed) != 1 {
		t.Errorf("it becomes one: changed %v", changed)
	}
	wantVerdict(t, a, "a", "", lb.AddressIsCluster)
	if changed := a.UnsetClusterIP(x, "shop/other"); len(changed) != 1 {
		t.Errorf("it is none any more: changed %v", changed)
	}
	wantVerdict(t, a, "a", "198.51.100.7", lb.OutsidePools)
}

// An external IP is one as long as any other Service names it.
func TestExternalIPOfTwoServices(t *testing.T) {
	x := addr("198.51.100.7")
	named := []netip.Addr{x}
	one, two := serviceName("one"), serviceName("two")
	a := New()
	r := requestOf("a", 1)
	r.Addresses, r.Anywhere = named, true
	a.Settle(r, nil)
	for i, step := range []struct {
		service     types.NamespacedName
		before, now []netip.Addr
		told        lb.Code
	}{
		{one, nil, named, lb.AddressOwned},
		{two, nil, named, lb.AddressOwned},
		{one, named, named, lb.AddressOwned},
		{one, named, nil, lb.AddressOwned},
		{one, named, nil, lb.AddressOwned}, // it is told twice
		{two, named, nil, lb.OutsidePools},
		{serviceName("a"), nil, named, lb.OutsidePools}, // its own
	} {
		a.SetExternalIPs(step.service, step.before, step.now)
		if v, _ := a.Verdict(r.Service); v.Reason.Code != step.told {
			t.Errorf("step %d: %s", i, v.Reason)
		}
	}
	if n := len(a.Anew().external); n != 1 {
		t.Errorf("%d external IPs are remembered", n)
	}
}
