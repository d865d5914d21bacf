package cloud

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/controller"
)

const web = `
metadata: {name: web}
spec:
  type: LoadBalancer
  ports:
  - {name: http, port: 80}
  - {name: https, port: 443}
`

// A Service gets a load balancer with both its ports and all nodes; a node that
// comes is added; and when the Service is deleted nothing is left.
func TestLifeOfAService(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.apply(web)
	s := w.service("web", "has a load balancer", ensured)
	if len(s.Status.LoadBalancer.Ingress) != 2 {
		t.Errorf("ingress %v", s.Status.LoadBalancer.Ingress)
	}
	if !slices.Contains(s.Finalizers, controller.Finalizer) || s.Annotations["k8s.cloudscale.ch/loadbalancer-uuid"] != w.LoadBalancers()[0].UUID {
		t.Errorf("finalizers %v, annotations %v", s.Finalizers, s.Annotations)
	}
	if got := w.listeners(); !slices.Equal(got, []string{"tcp/443", "tcp/80"}) {
		t.Errorf("listeners %v", got)
	}
	members := func(want int) func() error {
		return func() error {
			for _, p := range w.Pools() {
				if n := len(w.Members(p.UUID)); n != want {
					return fmt.Errorf("pool %s has %d members", p.Name, n)
				}
			}
			return nil
		}
	}
	w.eventually("three members", members(3))
	w.addNode("node-4")
	w.eventually("four members", members(4))

	if err := theRig.Kube.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("all gone", func() error {
		if _, err := theRig.Kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{}); err == nil {
			return fmt.Errorf("the Service is still there")
		}
		if n := len(w.LoadBalancers()); n > 0 {
			return fmt.Errorf("%d load balancers left", n)
		}
		return nil
	})
}

// A Service that becomes another type gives its load balancer back.
func TestTypeChange(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.apply(web)
	w.service("web", "has a load balancer", ensured)
	w.apply(`
metadata: {name: web}
spec:
  type: ClusterIP
  ports:
  - {name: http, port: 80}
`)
	w.service("web", "is clean", func(s *corev1.Service) error {
		delete(s.Annotations, "k8s.cloudscale.ch/loadbalancer-zone") // a person may have set it
		if len(s.Finalizers)+len(s.Annotations)+len(s.Status.Conditions) > 0 {
			return fmt.Errorf("finalizers %v, annotations %v, conditions %v", s.Finalizers, s.Annotations, s.Status.Conditions)
		}
		return nil
	})
	if n := len(w.LoadBalancers()); n > 0 {
		t.Errorf("%d load balancers left", n)
	}
}
