package cloud

import (
	"testing"

	"fairlead.io/internal/lb"
)

func TestEventName(t *testing.T) {
	for code, want := range map[lb.Code]lb.Code{
		lb.EnsuredLoadBalancer:      lb.EnsuredLoadBalancer,
		lb.CloudBusy:                lb.CloudBusy,
		lb.NodesSkipped:             lb.NodesSkipped,
		lb.DeleteLoadBalancerFailed: lb.DeleteLoadBalancerFailed,
		lb.ChangeRefused:            lb.SyncLoadBalancerFailed,
		lb.TokenInvalid:             lb.SyncLoadBalancerFailed,
		lb.InvalidRequest:           lb.SyncLoadBalancerFailed,
	} {
		if got := EventName(code.With()); got != string(want) {
			t.Errorf("%s: got %s, want %s", code, got, want)
		}
	}
}
