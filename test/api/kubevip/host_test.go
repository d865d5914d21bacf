package kubevip

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
)

// node makes a Node whose kubelet is heard of, or not, and the Agent of it.
func node(t *testing.T, name string, ready bool) *v1alpha1.Agent {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	a := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}
	create(t, n, a)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	if ready {
		n.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	if err := theRig.Client.Status().Update(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	return a
}

// reports has an agent say that it announces addresses of Services.
func reports(t *testing.T, a *v1alpha1.Agent, since time.Time, services map[string]string) {
	t.Helper()
	a.Status.Addresses = nil
	for name, address := range services {
		a.Status.Addresses = append(a.Status.Addresses, v1alpha1.Announcement{Address: address, Services: []string{"default/" + name}, Protocol: "ARP", Since: metav1.NewTime(since)})
	}
	if err := theRig.Client.Status().Update(t.Context(), a); err != nil {
		t.Fatal(err)
	}
}

func at(node string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool { return s.Annotations[host] == node }
}

// The node that announces the first address is named on every Service that is
// kube-vip's by its pool, its annotations or its label, and not on others; a node
// that is gone names itself no longer. A move is one write for each Service.
func TestHostIsNamed(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"cidr-lan": "10.25.0.0/24", "range-default": "10.25.1.1-10.25.1.200,fd25::1-fd25::99"}),
		&v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.7"}}})
	start(t, config.Default(), named)
	one, two, lost := node(t, "one", true), node(t, "two", true), node(t, "lost", false)

	create(t, newService("native"))
	eventually(t, "native", "has an address of a Pool", publishes("192.0.2.7"))
	create(t, newService("pinned", asks("10.99.0.9")),
		newService("both", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack) }))
	eventually(t, "pinned", "has what it asks for", publishes("10.99.0.9"))
	eventually(t, "both", "has two addresses", func(s *corev1.Service) bool { return len(s.Status.LoadBalancer.Ingress) == 2 })
	const first, second = "10.25.1.1", "fd25::1"
	eventually(t, "both", "has the first of the pool", publishes(first))

	now := time.Now()
	reports(t, lost, now.Add(time.Minute), map[string]string{"native": "192.0.2.7", "pinned": "10.99.0.9", "both": first})
	reports(t, two, now.Add(time.Second), map[string]string{"both": second})
	reports(t, one, now, map[string]string{"native": "192.0.2.7", "pinned": "10.99.0.9", "both": first})
	eventually(t, "both", "names the node of its first address", at("one"))
	eventually(t, "pinned", "names its node", at("one"))
	reports(t, two, now.Add(time.Second), map[string]string{"both": second, "pinned": "10.99.0.9"})
	eventually(t, "pinned", "names its new node", at("two"))
	if s := get(t, "both"); !at("one")(s) {
		t.Errorf("both names %q", s.Annotations[host])
	}
	if s := get(t, "native"); !at("")(s) {
		t.Errorf("native, which is not kube-vip's, names %q", s.Annotations[host])
	}

	// All of one node move to the other.
	const many = 100
	has := map[string]string{}
	for i := range many {
		has[fmt.Sprintf("moves-%d", i)] = ""
	}
	for name := range has {
		create(t, newService(name))
	}
	for name := range has {
		s := eventually(t, name, "has an address", func(s *corev1.Service) bool { return len(s.Status.LoadBalancer.Ingress) == 1 })
		has[name] = s.Status.LoadBalancer.Ingress[0].IP
	}
	reports(t, one, now, has)
	for name := range has {
		eventually(t, name, "names its node", at("one"))
	}
	before, _, _ := written(t)
	reports(t, two, now.Add(time.Second), has)
	reports(t, one, now, nil)
	for name := range has {
		eventually(t, name, "names its new node", at("two"))
	}
	after, _, _ := written(t)
	for name := range has {
		if n := after[name] - before[name]; n != 1 {
			t.Errorf("%s was written %d times", name, n)
		}
	}
}
