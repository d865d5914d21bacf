package kubevip

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/test/kit/rig"
)

// edit changes a Service as a person would.
func edit(t *testing.T, name string, change func(*corev1.Service)) {
	t.Helper()
	rig.Eventually(t, name+" is edited", func() error {
		s := get(t, name)
		change(s)
		_, err := theRig.Kube.CoreV1().Services(s.Namespace).Update(t.Context(), s, metav1.UpdateOptions{})
		return err
	})
}

// publish writes the status of a Service as kube-vip does.
func publish(t *testing.T, name string, ingress corev1.LoadBalancerIngress) {
	t.Helper()
	rig.Eventually(t, name+" is published", func() error {
		s := get(t, name)
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{ingress}
		_, err := theRig.Kube.CoreV1().Services(s.Namespace).UpdateStatus(t.Context(), s, metav1.UpdateOptions{})
		return err
	})
}

// What was refused is not had after a restart either, be the Service the older one,
// and kube-vip announce what it reads there.
func TestRefusedRequestIsNotHeldAfterARestart(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"cidr-global": "10.26.0.0/28"}))
	stop := start(t, provided)
	create(t, newService("old"), newService("older", asks("10.26.0.7")))
	older := eventually(t, "older", "is ours", func(s *corev1.Service) bool { return len(s.Finalizers) > 0 })
	eventually(t, "old", "has an address", given("10.26.0.1"))
	rig.Eventually(t, "the next second", func() error {
		if !time.Now().Truncate(time.Second).After(older.CreationTimestamp.Time) {
			return errors.New("still the same")
		}
		return nil
	})
	create(t, newService("young", asks("10.26.0.9")))
	young := eventually(t, "young", "is ours", func(s *corev1.Service) bool { return len(s.Finalizers) > 0 })
	for _, name := range []string{"old", "older"} {
		edit(t, name, func(s *corev1.Service) { s.Annotations[addresses] = "10.26.0.9" })
		s := eventually(t, name, "is refused", says("Service default/young"))
		eventNow(t, s, "IPConflict: ")
		publish(t, name, corev1.LoadBalancerIngress{IP: "10.26.0.9"})
	}
	stop()
	start(t, provided)
	// Not the first of the pool: that is still held by the one that asks for another.
	create(t, newService("next"))
	eventually(t, "next", "has the second of the pool", given("10.26.0.2"))
	if now := get(t, "young"); now.ResourceVersion != young.ResourceVersion {
		t.Errorf("young was written: %v", now.Annotations)
	}
	for _, name := range []string{"old", "older"} {
		if s := get(t, name); !says("Service default/young")(s) {
			t.Errorf("%s says %v", name, s.Annotations)
		}
	}
	// It gets what it asks for as soon as that is free.
	if err := theRig.Kube.CoreV1().Services(young.Namespace).Delete(t.Context(), "young", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "one of the two has it", func() error {
		for _, name := range []string{"old", "older"} {
			if s := get(t, name); s.Annotations[reason] == "" {
				return nil
			}
		}
		return errors.New("none")
	})
}

// Somebody may ask in spec.loadBalancerIP for another address than was given, and
// for any one again.
func TestRequestInSpec(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"cidr-global": "10.27.0.0/28"}))
	start(t, provided)
	create(t, newService("web"))
	eventually(t, "web", "has an address", given("10.27.0.1"))
	edit(t, "web", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "10.27.0.9" })
	eventually(t, "web", "has what it asks for", given("10.27.0.9"))
	create(t, newService("next"))
	eventually(t, "next", "has what was given back", given("10.27.0.1"))
	if s := get(t, "web"); !given("10.27.0.9")(s) || s.Spec.LoadBalancerIP != "10.27.0.9" {
		t.Errorf("web has %v and %s", s.Annotations, s.Spec.LoadBalancerIP)
	}
	edit(t, "web", func(s *corev1.Service) {
		s.Spec.LoadBalancerIP = ""
		delete(s.Annotations, addresses)
	})
	eventually(t, "web", "keeps what it has", given("10.27.0.9"))
}
