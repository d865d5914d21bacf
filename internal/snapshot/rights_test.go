package snapshot

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
)

// deny makes the snapshot what it is for somebody who may not list a resource.
func deny(t *testing.T, s *Snapshot, resource string) {
	t.Helper()
	all := slices.Concat((Options{}).kinds(), routeKinds())
	i := slices.IndexFunc(all, func(k kind) bool { return k.resource == resource })
	if i < 0 {
		t.Fatalf("%s is not listed", resource)
	}
	delete(s.objects.lists, keyOf(all[i].list))
	s.objects.lacks[all[i].gvk] = "cannot list " + resource
	s.refuse(resource)
	s.take()
	if err := s.decide(still); err != nil {
		t.Fatal(err)
	}
}

// A Service that waits, and on which nothing is written: what it waits for is only known if
// everything could be read that decides about it.
func TestNothingRestsOnWhatCouldNotBeRead(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	made := func(class *string) *Snapshot {
		t.Helper()
		s, err := Of(time.Unix(0, 0), config.Default(),
			&v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.16/30"}}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{"fairlead.io/pool": "edge"}},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: class, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}})
		if err != nil {
			t.Fatal(err)
		}
		s.Install.Controllers, s.Install.Leader = []corev1.Pod{{}}, "fairlead-controller-1"
		return s
	}
	step := func(w *Why, name string) Step {
		i := slices.IndexFunc(w.Steps, func(s Step) bool { return s.Name == name })
		if i < 0 {
			return Step{}
		}
		return w.Steps[i]
	}
	if w := made(nil).WhyService(web); step(w, "address").Mark != Passed || w.Health() != Problems {
		t.Fatalf("with all rights: %+v", w)
	}
	for _, resource := range []string{"pools", "ipaddresspools", "namespaces", "nodes", "pods", "servicecidrs"} {
		s := made(nil)
		deny(t, s, resource)
		w := s.WhyService(web)
		if got := step(w, "address"); got.Mark != Unclear || got.Fact != "unknown: cannot list "+resource || w.Health() != Unknown || w.State != Waiting && w.State != Unsure {
			t.Errorf("without %s: %s, %+v", resource, w.State, w.Steps)
		}
		if got := s.Status(); slices.ContainsFunc(got.Problems, func(p Problem) bool { return strings.HasPrefix(p.About, "service ") }) || got.Services[Unsure] != 1 {
			t.Errorf("without %s: %+v", resource, got)
		}
		if _, err := s.PlanRemove(t.Context(), "192.0.2.16"); err == nil || !strings.HasSuffix(err.Error(), "cannot list "+resource+": nothing can be predicted") {
			t.Errorf("without %s: %v", resource, err)
		}
	}
	other := "example.com/lb"
	for _, class := range []*string{nil, &other} {
		s := made(class)
		s.Install.Assumed = "cannot list pods"
		w := s.WhyService(web)
		if got := step(w, "class"); got.Mark != Unclear || w.Health() != Unknown || w.State != Unsure {
			t.Errorf("with an assumed configuration: %s, %+v", w.State, w.Steps)
		}
	}
	s := made(nil)
	deny(t, s, "pools")
	if got := step(s.WhyAddress(netip.MustParseAddr("192.0.2.77"))[0], "pool"); got.Mark != Unclear {
		t.Errorf("without pools, of an address: %+v", got)
	}
}
