package ipam

import (
	"testing"

	"go4.org/netipx"

	"fairlead.io/internal/lb"
)

// Where a pool skips all that is between two of its ranges, they are one range of free addresses.
func TestFreeAcrossSkippedAddresses(t *testing.T) {
	p := poolOf("edge", "192.0.2.250-192.0.2.254", "192.0.3.1-192.0.3.5", "192.0.3.9")
	p.SkipIPv4Ends = true
	a := New()
	a.SetPools([]lb.Pool{p})
	want := []netipx.IPRange{span("192.0.2.250-192.0.3.5"), span("192.0.3.9")}
	got := a.Free(poolKey("edge"), lb.IPv4, 9)
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("free are %v, want %v", got, want)
	}
}
