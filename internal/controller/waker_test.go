package controller

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"fairlead.io/internal/config"
)

func newQueue(t *testing.T) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}

// drained are the names in a queue.
func drained(q workqueue.TypedRateLimitingInterface[reconcile.Request]) (out []string) {
	for q.Len() > 0 {
		r, _ := q.Get()
		q.Done(r)
		out = append(out, r.Name)
	}
	return out
}

// waiting is how many Services are in any queue.
func waiting(w *wakers) (n int) {
	for _, one := range w.all {
		n += one.waiting()
	}
	return n
}

// Each Service is woken in the queue of the backend that serves it. One of which that
// is not known is woken in all: somebody may have to let it go.
func TestWakersRoute(t *testing.T) {
	c := several()
	ofAnother := serviceOf("of another type", "", false)
	ofAnother.Spec.Type = "ClusterIP"
	w := &wakers{ctx: t.Context(), all: map[config.Backend]*waker{config.Announce: {}, config.KubeVIP: {}}, classes: c,
		cache: objectsOf(t, serviceOf("announced", "", false), serviceOf("given", "vip", false), serviceOf("nobody's", "other", false), ofAnother)}
	queues := map[config.Backend]workqueue.TypedRateLimitingInterface[reconcile.Request]{}
	for name, one := range w.all {
		queues[name] = newQueue(t)
		if err := one.Start(t.Context(), queues[name]); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string][]config.Backend{
		"announced": {config.Announce}, "given": {config.KubeVIP},
		"nobody's": {config.Announce, config.KubeVIP}, "of another type": {config.Announce, config.KubeVIP}, "gone": {config.Announce, config.KubeVIP},
	} {
		w.wake([]types.NamespacedName{{Namespace: "shop", Name: name}})
		if n := waiting(w); n != len(want) {
			t.Errorf("%s: %d wait", name, n)
		}
		for backend, q := range queues {
			if got := len(drained(q)) == 1; got != slices.Contains(want, backend) {
				t.Errorf("%s: in the queue of %s: %v", name, backend, got)
			}
		}
	}
	w.cache = nil // before there is one
	w.wake([]types.NamespacedName{{Namespace: "shop", Name: "announced"}})
	if n := waiting(w); n != 2 {
		t.Errorf("before there is a cache %d wait", n)
	}
}

// Where there is one backend, nobody is asked.
func TestWakersOfOneBackend(t *testing.T) {
	w := &wakers{all: map[config.Backend]*waker{config.Announce: {}}}
	w.wake([]types.NamespacedName{{Name: "a"}, {Name: "b"}})
	if n := waiting(w); n != 0 {
		t.Errorf("without a queue %d wait", n)
	}
	q := newQueue(t)
	if err := w.all[config.Announce].Start(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	w.wake([]types.NamespacedName{{Name: "c"}, {Name: "a"}})
	if got := drained(q); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("woken: %v", got)
	}
}
