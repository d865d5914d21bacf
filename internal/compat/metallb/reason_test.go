package metallb

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

// Whoever searches for MetalLB's events finds them: their names, and its words
// first.
func TestEvents(t *testing.T) {
	r := &lb.Request{Service: types.NamespacedName{Namespace: "shop", Name: "web"}}
	has := []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("fd00::7")}
	for _, tt := range []struct {
		v          lb.Verdict
		name, text string
	}{
		{lb.Verdict{Addresses: has, Reason: lb.Rebuilt(lb.Ready, "It has.", true)}, "IPAllocated", `Assigned IP ["192.0.2.7" "fd00::7"]. It has.`},
		{lb.Verdict{Reason: lb.Rebuilt(lb.PoolExhausted, "No available IPs: full.", false)}, "AllocationFailed", `Failed to allocate IP for "shop/web": no available IPs: full.`},
		{lb.Verdict{Reason: lb.Rebuilt(lb.InvalidRequest, "Wrong.", false)}, "LoadBalancerFailed", "Wrong."},
		{lb.Verdict{Addresses: has, Reason: lb.Rebuilt(lb.OutOfPool, "Out.", true)}, "", "Out."},
	} {
		if got := EventName(tt.v.Reason.Code); got != tt.name {
			t.Errorf("%s: event %q, want %q", tt.v.Reason.Code, got, tt.name)
		}
		if got := EventText(r, tt.v); got.Text != tt.text || got.Code != tt.v.Reason.Code {
			t.Errorf("%s: says %q, want %q", tt.v.Reason.Code, got.Text, tt.text)
		}
	}
}

// Only what is told of Services has a name of MetalLB's.
func TestEventNamesAreOfServices(t *testing.T) {
	for code := range eventNames {
		about, ours := Reasons[code]
		if !ours {
			about = lb.Common[code]
		}
		if about.On != "Service" {
			t.Errorf("%s is on %q", code, about.On)
		}
	}
}
