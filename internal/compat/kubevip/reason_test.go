package kubevip

import (
	"testing"

	"fairlead.io/internal/lb"
)

func TestEventName(t *testing.T) {
	for _, tt := range []struct {
		reason lb.Reason
		want   string
	}{
		{lb.Ready.With("x", "y"), "EnsuredLoadBalancer"},
		{lb.OutsidePools.With("x"), "EnsuredLoadBalancer"},
		{Reasons.With(LeftToLease), "EnsuredLoadBalancer"},
		{lb.WaitingForLease.With(lb.IPv4), "EnsuringLoadBalancer"},
		{lb.AddressInUse.With("x", "y", "z"), "IPConflict"},
		{lb.SharingConflict.With("x", "y", "z"), "IPConflict"},
		{lb.AddressReleased.With("x", "y"), "DeletedLoadBalancer"},
		{lb.LeaseLost.With("x", "y", "z"), "LeaseLost"},
		{lb.PoolExhausted.With(lb.IPv4, "x", "y"), "SyncLoadBalancerFailed"},
	} {
		if got := EventName(tt.reason); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.reason.Code, got, tt.want)
		}
	}
}
