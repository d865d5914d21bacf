package sources

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
)

// Where the controller places addresses, agents believe the status alone: nothing that
// a tenant can write.
func TestPlaced(t *testing.T) {
	cfg := &config.Configuration{Classes: []config.Class{{Backend: config.CloudSigma}, {Name: "lan", Backend: config.Announce}}}
	r := New(Options{Config: cfg}, nil)
	address := netip.MustParseAddr("192.0.2.7")
	s := serviceOf("192.0.2.7", v4, "fairlead.io/Placed", "192.0.2.7: thief", native.AnnotationAllocatedFrom, "metallb/gone")
	got := r.Service(s)
	if got == nil || !got.Placed || len(got.Carriers) != 0 {
		t.Fatalf("before the controller says anything: %+v", got)
	}
	s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionPlaced, Status: metav1.ConditionTrue, Message: "192.0.2.7: worker-1"}}
	if got = r.Service(s); !got.Carriers.Carry(address, "worker-1") || got.Carriers.Carry(address, "thief") {
		t.Errorf("carriers %v", got.Carriers)
	}
	if _, ads := NewPools(nil, nil).Of(address, got); len(ads) != 1 || len(ads[0].NodeSelectors) != 0 {
		t.Errorf("advertised as %+v", ads)
	}
	cfg.CloudSigma.Interface = "ens3"
	if _, ads := NewPools(nil, nil).Of(address, r.Service(s)); len(ads) != 1 || len(ads[0].Interfaces) != 1 || ads[0].Interfaces[0] != "ens3" {
		t.Errorf("advertised as %+v", ads)
	}
	s.Spec.LoadBalancerClass = new(string)
	*s.Spec.LoadBalancerClass = "lan"
	if got = r.Service(s); got.Placed {
		t.Error("a condition places an address of a class in which agents choose")
	}
	s.Spec.Type = corev1.ServiceTypeClusterIP
	if r.Service(s) != nil {
		t.Error("announced")
	}
}
