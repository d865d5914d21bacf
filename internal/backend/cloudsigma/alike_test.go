package cloudsigma

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	simulated "fairlead.io/sandbox/cloudsigma"
)

const alikeTag = "service:a-b-c"

// Two Services have one tag, a-b/c and a/b-c, and the controller ended after it had
// claimed and attached their addresses, and before it could publish them. Each has one
// afterwards, and nothing is left over.
func TestAlikeAfterCrash(t *testing.T) {
	for name, first := range map[string]bool{"both": false, "the second alone": true} {
		t.Run(name, func(t *testing.T) {
			play(t, simulated.Knobs{}, 2, 4, func(t *testing.T, w *world) {
				one := w.create("a-b/c")
				w.settle()
				two := w.create("a/b-c")
				w.settle()
				lose := func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} }
				if lose(two); !first {
					lose(one)
				}
				w.restart()
				w.settle()
				if published(one) == "" || published(two) == "" || published(one) == published(two) || len(one.Status.LoadBalancer.Ingress) != 1 || len(two.Status.LoadBalancer.Ingress) != 1 {
					t.Errorf("%q and %q", published(one), published(two))
				}
				if first && published(one) != "192.0.2.10" {
					t.Errorf("it lost 192.0.2.10 for %s", published(one))
				}
				if n := len(slices.DeleteFunc(w.state(), func(line string) bool { return line[:3] != "NIC" })); n != 2 {
					t.Errorf("the cloud has %q", w.state())
				}
				w.delete(one)
				w.delete(two)
				w.settle()
				w.want("deleted")
			})
		})
	}
}

// A Service moves to another address while one with the same tag is looked at: what it
// still publishes stays attached.
func TestAlikeMoves(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 3, func(t *testing.T, w *world) {
		one := w.create("a-b/c")
		w.settle()
		two := w.create("a/b-c")
		w.settle()
		// The next address cannot be attached yet.
		end := w.sim.Fail(simulated.Fault{Method: "PUT", Kind: simulated.Servers, Times: -1, Status: 503})
		one.Annotations["fairlead.io/addresses"] = "192.0.2.12"
		_, _ = w.look(one)
		end()
		if published(one) != "192.0.2.10" {
			t.Fatalf("%s", published(one))
		}
		if _, err := w.look(two); err != nil {
			t.Fatal(err)
		}
		if state := w.state(); !slices.Contains(state, "NIC worker-1 192.0.2.10") || !slices.Contains(state, "tag cluster:prod 192.0.2.10") {
			t.Errorf("published, and taken away: %q", state)
		}
		w.settle()
		w.want("moved", append(w.claimed("192.0.2.12", alikeTag, "worker-1"), w.claimed("192.0.2.11", alikeTag, "worker-2")...)...)
	})
}
