package cloudsigma

import (
	"context"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	simulated "fairlead.io/sandbox/cloudsigma"
)

// A Service whose address has a subscription that ends soon says so, until it is renewed.
// Where subscriptions cannot be read, all else works.
func TestSubscriptionEnds(t *testing.T) {
	play(t, simulated.Knobs{}, 1, 2, func(t *testing.T, w *world) {
		web := w.create("web")
		w.create("api")
		w.settle()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		woken := make(chan struct{}, 100)
		running.Go(func() {
			_ = w.backend.Run(ctx, func(...types.NamespacedName) { woken <- struct{}{} })
		})
		defer running.Wait()
		defer stop()
		w.sim.Fail(simulated.Fault{Kind: simulated.Subscriptions, Status: 403, Times: 1})
		<-time.After(time.Minute)
		address := netip.MustParseAddr("192.0.2.10")
		end := time.Now().Add(endingSoon + 3*subscriptionPause)
		if err := w.sim.ExpiresAt(address, end); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * subscriptionPause)
		w.settle()
		if told := w.toldOf(SubscriptionEnds); told != "" || len(woken) > 0 {
			t.Errorf("long before: %s, woken %d times", told, len(woken))
		}
		<-time.After(2 * subscriptionPause)
		if len(woken) == 0 {
			t.Error("nobody is woken")
		}
		w.settle()
		if told := w.toldOf(SubscriptionEnds); !strings.Contains(told, "192.0.2.10 ends on "+end.UTC().Format(time.DateOnly)) {
			t.Errorf("told %q", told)
		}
		if published(web) != "192.0.2.10" {
			t.Errorf("has %s", published(web))
		}
		if err := w.sim.ExpiresAt(address, end.Add(endingSoon)); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * subscriptionPause)
		w.told = nil
		w.settle()
		if told := w.toldOf(SubscriptionEnds); told != "" {
			t.Errorf("renewed: %s", told)
		}
	})
}
