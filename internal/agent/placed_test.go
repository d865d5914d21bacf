package agent

import (
	"net/netip"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/config"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// Where the controller places addresses, the node that it names has the address,
// without any endpoint. Services that share it may say so one after the other.
func TestPlacedAddress(t *testing.T) {
	c := config.Default()
	c.Classes = []config.Class{{Backend: config.CloudSigma}}
	r := sources.New(sources.Options{Config: c}, nil)
	d := newDirectory(noLeases{})
	address := netip.MustParseAddr("192.0.2.7")
	say := func(name, message string) {
		s := serviceOf(name, 1, "key", 80, "192.0.2.7")
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		if message != "" {
			s.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionPlaced, Message: message}}
		}
		d.setService(types.NamespacedName{Namespace: "shop", Name: name}, r.Service(s))
	}
	var nodes []elect.Node
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, elect.Node{Name: name, Alive: true, ProxyHealthy: true, Interfaces: map[lb.Family]sets.Set[string]{lb.IPv4: sets.New("eth0")}})
	}
	owner := func(had string) string {
		return elect.Elect(d.candidate(address), nodes, []elect.Claim{{Node: had, Epoch: 1, Up: true}}).Owner
	}
	say("one", "")
	if got := owner("a"); got != "" {
		t.Errorf("%s has it before the controller says anything", got)
	}
	say("one", "192.0.2.7: b")
	if got := owner("a"); got != "b" {
		t.Errorf("%q has it, want b", got)
	}
	say("two", "192.0.2.7: b")
	say("one", "192.0.2.7: c")
	if got := owner("b"); !slices.Contains([]string{"b", "c"}, got) {
		t.Errorf("%q has it while they disagree", got)
	}
	say("two", "192.0.2.7: c")
	if got := owner("b"); got != "c" {
		t.Errorf("%q has it, want c", got)
	}
}
