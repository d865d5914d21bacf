package cloudsigma

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudsigma"
)

// lose removes a Service without its finalizer having kept it.
func (w *world) lose(s *corev1.Service) {
	w.ledger.Forget(key(s))
	w.backend.Forget(s.UID)
	w.services = slices.DeleteFunc(w.services, func(o *corev1.Service) bool { return o == s })
}

// exists is what the controller says of Services.
func (w *world) exists(name types.NamespacedName, _ types.UID) bool {
	return slices.ContainsFunc(w.services, func(s *corev1.Service) bool { return key(s) == name })
}

// The address of a Service that lost its finalizer, and is gone, is found by its tags.
// It is freed if that is asked for, and nothing else is touched.
func TestOrphans(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 4, func(t *testing.T, w *world) {
		web, lost := w.create("web-shop"), w.create("gone-for-good")
		w.settle()
		stays := w.claimed("192.0.2.10", "service:shop-web-shop", "worker-1")
		w.sim.AddTag("cluster:staging", "192.0.2.12") // another cluster's
		w.sim.AddTag("service:shop-gone-for-good", "192.0.2.12")
		others := []string{"tag cluster:staging 192.0.2.12", "tag service:shop-gone-for-good 192.0.2.12"}
		if orphans, err := w.backend.Orphans(t.Context(), w.exists); err != nil || len(orphans) > 0 {
			t.Errorf("found %v, %v", orphans, err)
		}
		w.lose(lost)
		for _, restarted := range []bool{false, true} {
			if restarted {
				w.restart()
				w.settle()
			}
			orphans, err := w.backend.Orphans(t.Context(), w.exists)
			if err != nil || len(orphans) != 1 || orphans[0].Service != key(lost) || orphans[0].Reason.Code != AddressOrphaned || !strings.Contains(orphans[0].Reason.Text, "192.0.2.11") {
				t.Fatalf("found %v, %v", orphans, err)
			}
		}
		w.want("it is only reported", slices.Concat(stays, w.claimed("192.0.2.11", "service:shop-gone-for-good", "worker-2"), others)...)
		orphans, err := w.backend.Orphans(t.Context(), w.exists)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := w.backend.Remove(t.Context(), orphans)
		if err != nil || plan.Empty() {
			t.Errorf("%v, %v", plan, err)
		}
		w.want("it is free", slices.Concat(stays, others)...)
		if plan, err := w.backend.Remove(t.Context(), orphans); err != nil || !plan.Empty() {
			t.Errorf("again: %v, %v", plan, err)
		}
		w.settle()
		if published(web) != "192.0.2.10" {
			t.Errorf("has %s", published(web))
		}
	})
}

// An orphaned address that a Service has got meanwhile is not taken away.
func TestOrphanIsUsedAgain(t *testing.T) {
	play(t, simulated.Knobs{}, 1, 1, func(t *testing.T, w *world) {
		lost := w.create("gone")
		w.settle()
		w.lose(lost)
		orphans, err := w.backend.Orphans(t.Context(), w.exists)
		if err != nil || len(orphans) != 1 {
			t.Fatalf("found %v, %v", orphans, err)
		}
		web := w.create("web")
		w.settle()
		if plan, err := w.backend.Remove(t.Context(), orphans); err != nil || !plan.Empty() || published(web) != "192.0.2.10" || says(web) != lb.Ready {
			t.Errorf("%v, %v; has %s", plan, err, published(web))
		}
		w.want("it is the next Service's", w.claimed("192.0.2.10", webTag, "worker-1")...)
	})
}
