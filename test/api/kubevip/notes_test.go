package kubevip

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/notary"
	"fairlead.io/test/kit/rig"
)

// nextSecond waits until what is created then is younger than s.
func nextSecond(t *testing.T, s *corev1.Service) {
	t.Helper()
	rig.Eventually(t, "the next second", func() error {
		if time.Now().Unix() <= s.CreationTimestamp.Unix() {
			return fmt.Errorf("still the same")
		}
		return nil
	})
}

// wears has a Service say all that another one does.
func wears(s *corev1.Service) func(*corev1.Service) {
	return func(o *corev1.Service) {
		o.Annotations, o.Labels, o.Spec.LoadBalancerIP = s.Annotations, s.Labels, s.Spec.LoadBalancerIP
	}
}

// A note is of one Service: copied to an older one it takes nothing, live and at a
// restart.
func TestCopiedNote(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"range-global": "10.24.0.1-10.24.0.9"}))
	stop := start(t, provided)
	create(t, newService("thief"))
	nextSecond(t, eventually(t, "thief", "has an address", given("10.24.0.1")))
	create(t, newService("victim"))
	victim := eventually(t, "victim", "has an address", given("10.24.0.2"))
	edit(t, "thief", wears(victim))
	eventually(t, "thief", "has its own again", given("10.24.0.1"))
	stop()
	edit(t, "thief", wears(victim))
	start(t, provided)
	eventually(t, "thief", "has another", given("10.24.0.1"))
	if now := get(t, "victim"); now.ResourceVersion != victim.ResourceVersion {
		t.Errorf("the victim was written: %v", now.Annotations)
	}
}

// A note that was right once, and is put back later, takes nothing from the one who
// got the address since.
func TestOldNotePutBack(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"range-global": "10.25.0.1-10.25.0.9"}))
	stop := start(t, provided)
	create(t, newService("thief"))
	before := eventually(t, "thief", "has an address", given("10.25.0.1"))
	nextSecond(t, before)
	edit(t, "thief", func(s *corev1.Service) { s.Annotations[addresses] = "10.25.0.5" })
	eventually(t, "thief", "moved", func(s *corev1.Service) bool { return s.Annotations["fairlead.io/asked"] == "10.25.0.5" })
	create(t, newService("heir"))
	heir := eventually(t, "heir", "has what became free", given("10.25.0.1"))
	edit(t, "thief", wears(before))
	eventually(t, "thief", "does not say so any more", func(s *corev1.Service) bool { return s.Annotations[addresses] != "10.25.0.1" })
	stop()
	edit(t, "thief", wears(before))
	start(t, provided)
	eventually(t, "thief", "does not say so any more", func(s *corev1.Service) bool { return s.Annotations[addresses] != "10.25.0.1" })
	if now := get(t, "heir"); now.ResourceVersion != heir.ResourceVersion {
		t.Errorf("the heir was written: %v", now.Annotations)
	}
}

// left is a Service as kube-vip's cloud provider leaves it.
func left(name, address string) *corev1.Service {
	return newService(name, func(s *corev1.Service) {
		s.Labels, s.Annotations = map[string]string{"implementation": "kube-vip"}, map[string]string{addresses: address}
		s.Spec.LoadBalancerIP, s.Finalizers = address, []string{finalizer}
	})
}

func proven(s *corev1.Service) bool { return s.Annotations[native.AnnotationProof] != "" }

// At the first start, also one that another controller began and did not finish, what
// the provider left is kept, of two the older one's, and noted. Later, what looks like
// it is not believed.
func TestFirstStartIsFinished(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"range-global": "10.26.0.1-10.26.0.9"}))
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: notary.Secret}, Data: map[string][]byte{"key": []byte("0123456789abcdef0123456789abcdef")}})
	create(t, left("older", "10.99.0.1"))
	nextSecond(t, get(t, "older"))
	create(t, left("younger", "10.99.0.1"))
	stop := start(t, provided)
	eventually(t, "older", "is noted", func(s *corev1.Service) bool { return proven(s) && given("10.99.0.1")(s) })
	eventually(t, "younger", "has another", given("10.26.0.1"))
	rig.Eventually(t, "the first start is finished", func() error {
		secret, err := theRig.Kube.CoreV1().Secrets("kube-system").Get(t.Context(), notary.Secret, metav1.GetOptions{})
		if err == nil && (string(secret.Data["imported"]) != "true" || string(secret.Data["key"]) != "0123456789abcdef0123456789abcdef") {
			err = fmt.Errorf("the Secret has %q", secret.Data)
		}
		return err
	})
	stop()
	create(t, left("late", "10.99.0.2"))
	start(t, provided)
	eventually(t, "late", "has one of the pool", given("10.26.0.2"))
	eventually(t, "older", "has what it had", given("10.99.0.1"))
}

// If the key is lost, everybody keeps what they have, and the next controller notes it
// with a new one.
func TestKeyLost(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"range-global": "10.27.0.1-10.27.0.9"}))
	stop := start(t, provided)
	create(t, newService("web"))
	before := eventually(t, "web", "has an address", func(s *corev1.Service) bool { return given("10.27.0.1")(s) && proven(s) })
	if err := theRig.Kube.CoreV1().Secrets("kube-system").Delete(t.Context(), notary.Secret, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, newService("next"))
	eventually(t, "next", "has another address", given("10.27.0.2"))
	stop()
	start(t, provided)
	eventually(t, "web", "is noted with the new key", func(s *corev1.Service) bool {
		return given("10.27.0.1")(s) && proven(s) && s.Annotations[native.AnnotationProof] != before.Annotations[native.AnnotationProof]
	})
	eventually(t, "next", "has what it had", given("10.27.0.2"))
}
