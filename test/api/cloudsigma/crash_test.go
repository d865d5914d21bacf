package cloudsigma

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
)

// The controller is killed at any moment of a create, a move and a delete, and again;
// whoever comes next finishes it.
func TestKilledAtAnyMoment(t *testing.T) {
	w := newWorld(t, 3, cloudsigma.Knobs{})
	w.Fail(cloudsigma.Fault{Times: -1, Latency: 50 * time.Millisecond})
	storm := func(what string, done func()) {
		t.Helper()
		process.Storm(4, func() *process.Process { return w.launch() }, func() { <-time.After(time.Duration(300+rand.IntN(1200)) * time.Millisecond) })
		p := w.launch()
		done()
		p.Kill()
	}
	one := w.create("one")
	storm("created", func() { w.service(one, "is served", on("192.0.2.10", "node-1")) })
	two := w.create("two")
	storm("created", func() { w.service(two, "is served", on("192.0.2.11", "node-2")) })
	w.has("created", slices.Concat(claimed("192.0.2.10", "default-one", "node-1"), claimed("192.0.2.11", "default-two", "node-2"))...)
	w.ready("node-1", false)
	storm("moved", func() { w.service(one, "moved", on("192.0.2.10", "node-3")) })
	w.has("moved", slices.Concat(claimed("192.0.2.10", "default-one", "node-3"), claimed("192.0.2.11", "default-two", "node-2"))...)
	if err := w.kube.CoreV1().Services("default").Delete(t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	storm("deleted", func() {
		rig.Eventually(t, "one is gone", func() error {
			if _, err := w.kube.CoreV1().Services("default").Get(t.Context(), "one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return errString("it is there")
			}
			return nil
		})
	})
	w.has("deleted", claimed("192.0.2.11", "default-two", "node-2")...)
}

// Two clusters in one account, whose Services have one tag: each has its own
// addresses, and what one does leaves the other's alone.
func TestTwoClusters(t *testing.T) {
	w := newWorld(t, 4, cloudsigma.Knobs{})
	staging := w.beside("node-4", "node-5")
	w.startAs(w.Token(), "prod", "")
	staging.startAs(w.Token(), "staging", "")
	one, two := w.create("a-b/c"), staging.create("a/b-c")
	served := func(s *corev1.Service) error {
		if len(s.Status.LoadBalancer.Ingress) != 1 {
			return errString("no address")
		}
		return nil
	}
	a, b := w.service(one, "is served", served).Status.LoadBalancer.Ingress[0].IP, staging.service(two, "is served", served).Status.LoadBalancer.Ingress[0].IP
	if a == b {
		t.Fatalf("both have %s", a)
	}
	nodeOf := func(address string) string {
		for _, line := range w.state() {
			if node, ok := strings.CutSuffix(line, " "+address); ok && strings.HasPrefix(node, "NIC ") {
				return strings.TrimPrefix(node, "NIC ")
			}
		}
		return "nowhere"
	}
	other := claimedBy("staging", b, "a-b-c", nodeOf(b))
	w.has("both are claimed", slices.Concat(claimedBy("prod", a, "a-b-c", nodeOf(a)), other)...)
	w.delete(one)
	w.has("the other is as it was", other...)
	staging.delete(two)
	w.has("all is gone")
}

// The original untags all addresses when it ends, and leaves no mark on Services but
// their status: who comes next keeps address and NIC, and adds the tags again.
func TestUntaggedByTheOriginal(t *testing.T) {
	w := newWorld(t, 3, cloudsigma.Knobs{})
	p := w.launch()
	web := w.create("web", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.12" })
	w.service(web, "is served", on("192.0.2.12", "node-1"))
	p.Kill()
	for _, tag := range w.Tags() {
		if err := w.Delete(cloudsigma.Tags, tag.UUID); err != nil {
			t.Fatal(err)
		}
	}
	w.patch("web", `{"metadata":{"finalizers":null,"annotations":null},"spec":{"loadBalancerIP":null}}`)
	if _, err := w.kube.CoreV1().Services(web.Namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"status":{"conditions":null}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	p = w.launch()
	w.create("younger")
	w.service(web, "is as it was", on("192.0.2.12", "node-1"), says("Ready"))
	w.has("it is claimed again, and the younger one has the first", slices.Concat(claimedBy("prod", "192.0.2.12", "default-web", "node-1"), claimedBy("prod", "192.0.2.10", "default-younger", "node-2"))...)
	p.Kill()
}

// What the program logs can be searched as the original's log.
func TestLog(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	p := w.launch()
	web := w.create("web")
	w.service(web, "is served", on("192.0.2.10", "node-1"))
	for _, line := range []string{"Attached address", "Assigned address", `"address":"192.0.2.10"`, `"service":"default/web"`, `"node":"node-1"`} {
		rig.Eventually(t, "the log says "+line, func() error {
			if !strings.Contains(p.Log.String(), line) {
				return errString(p.Log.String())
			}
			return nil
		})
	}
	p.Kill()
	w.AddTag("unrelated", w.servers["node-1"])
	p = w.launch()
	rig.Eventually(t, "the log says Recovered", func() error {
		if !strings.Contains(p.Log.String(), "Recovered address") {
			return errString(p.Log.String())
		}
		return nil
	})
	p.Kill()
	p = w.launch("--disable-lb-ip-pool")
	w.patch("web", `{"metadata":{"annotations":{"fairlead.io/addresses":"192.0.2.99"}}}`)
	w.service(web, "is left alone", on("192.0.2.10", "node-1"), says("Ready"))
	p.Kill()
}
