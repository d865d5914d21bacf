package kubevip

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/test/kit/rig"
)

func conditioned(code string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool {
		_, told := s.Annotations[reason]
		return len(s.Status.Conditions) == 1 && s.Status.Conditions[0].Reason == code && !told
	}
}

func unconditioned(s *corev1.Service) bool { return len(s.Status.Conditions) == 0 }

// A class that changes its backend, and changes it back, keeps all addresses,
// whether kube-vip has published them or not.
func TestBackendsFollowEachOther(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"cidr-global": "10.23.0.0/28"}))
	stop := start(t, provided)
	create(t, newService("given"))
	eventually(t, "given", "has an address", given("10.23.0.1"))
	create(t, newService("pinned", asks("10.23.0.9")), newService("rival", asks("10.23.0.1")))
	eventually(t, "pinned", "is ours", func(s *corev1.Service) bool { return len(s.Finalizers) > 0 })
	rival := eventually(t, "rival", "is refused", says("Service default/given"))
	eventNow(t, rival, "IPConflict: Address 10.23.0.1")
	// As kube-vip writes it.
	publish(t, "pinned", corev1.LoadBalancerIngress{IP: "10.23.0.9", Ports: []corev1.PortStatus{{Port: 80, Protocol: corev1.ProtocolTCP}}})
	stop()

	stop = start(t, announced)
	eventually(t, "given", "is published", publishes("10.23.0.1"))
	eventually(t, "given", "is told in a condition", conditioned("Ready"))
	eventually(t, "pinned", "is told in a condition", conditioned("Ready"))
	eventually(t, "rival", "is told in a condition", func(s *corev1.Service) bool {
		return len(s.Status.Conditions) == 1 && strings.Contains(s.Status.Conditions[0].Message, "Service default/given") && s.Annotations[reason] == ""
	})
	create(t, newService("announced"))
	eventually(t, "announced", "is published", publishes("10.23.0.2"))
	stop()

	stop = start(t, provided)
	for name, want := range map[string]string{"given": "10.23.0.1", "announced": "10.23.0.2"} {
		eventually(t, name, "has what it had", given(want))
		eventually(t, name, "has no condition", unconditioned)
	}
	eventually(t, "pinned", "has no condition", unconditioned)
	if s := get(t, "pinned"); s.Annotations[addresses] != "10.23.0.9" || s.Annotations["fairlead.io/given"] != "" {
		t.Errorf("what somebody asked for became %v", s.Annotations)
	}
	eventually(t, "rival", "is told in an annotation", func(s *corev1.Service) bool { return says("Service default/given")(s) && unconditioned(s) })
	stop()

	start(t, announced)
	for _, name := range []string{"given", "pinned", "rival"} {
		if err := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		rig.Eventually(t, name+" is gone", func() error {
			_, err := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("not yet: %w", err)
			}
			return nil
		})
	}
	edit(t, "announced", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	eventually(t, "announced", "has nothing of ours", func(s *corev1.Service) bool {
		return len(s.Finalizers) == 0 && len(s.Labels) == 0 && len(s.Status.Conditions) == 0 && s.Annotations["fairlead.io/allocated-from"] == ""
	})
}

// A Service that is no longer of type LoadBalancer, or goes while it waits, leaves
// nothing behind.
func TestNothingIsLeftBehind(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"range-global": "10.24.0.1-10.24.0.1"}))
	start(t, provided)
	create(t, newService("web"))
	eventually(t, "web", "has an address", given("10.24.0.1"))
	create(t, newService("waits"), newService("leaves"))
	eventually(t, "waits", "is told why", says("PoolExhausted: "))
	eventually(t, "leaves", "is told why", says("PoolExhausted: "))
	for _, name := range []string{"leaves", "web"} {
		edit(t, name, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
		eventually(t, name, "has nothing of ours", func(s *corev1.Service) bool {
			return len(s.Finalizers) == 0 && len(s.Labels) == 0 && len(s.Annotations) == 0 && s.Spec.LoadBalancerIP == "" && len(s.Status.Conditions) == 0
		})
	}
	s := eventually(t, "waits", "has the address", given("10.24.0.1"))
	eventNow(t, s, "EnsuredLoadBalancer: ")
	if told := events(t, s); len(told) != 2 {
		t.Errorf("told %q", told)
	}
}
