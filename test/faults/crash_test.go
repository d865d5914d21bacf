package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/test/rig"
)

// inFlight is how often a write that was under way when a controller was killed
// may be committed only after its successor has read everything. Such a write may
// give an address that the successor has given, too; the older Service keeps it.
// (With leader election the successor waits for the Lease, which is longer.)
const inFlight = 3

// TestKilledAHundredTimes kills the controller with SIGKILL a hundred times
// while Services come and go. There is one at a time, so but for writes in flight
// no two Services have one address, and none ever loses its address.
func TestKilledAHundredTimes(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "storm", "10.1.0.0/24")
	binary := rig.Binary(t)
	l := keepLedger(t)

	ctx, cancel := context.WithCancel(t.Context())
	var storm sync.WaitGroup
	for w := range 4 {
		storm.Go(func() { comeAndGo(ctx, t, fmt.Sprintf("storm-%d", w), 30) })
	}
	for range 100 {
		p := theRig.Launch(t, binary, "--log-level=warn")
		// Let it get some work done, so that it dies at all stages of it; a start
		// without any work is a stage, too.
		wanted, patience := rand.IntN(12), time.After(2*time.Second)
		for done := 0; done < wanted; {
			select {
			case <-l.changes:
				done++
			case <-patience:
				done = wanted
			}
		}
		p.Kill()
	}
	cancel()
	storm.Wait()
	theRig.Launch(t, binary)
	held := settled(t, "storm")
	l.close()
	if len(l.doubles) > inFlight {
		t.Errorf("addresses with two holders: %v", l.doubles)
	}
	if len(l.lost) > len(l.doubles) {
		t.Errorf("addresses taken from a Service: %v, with two holders: %v", l.lost, l.doubles)
	}
	// Nothing has leaked: the whole pool can be had.
	create(t, "rest", 256-len(held))
	settled(t, "storm")
}

// comeAndGo keeps creating and deleting Services, at most most at a time, until
// ctx ends.
func comeAndGo(ctx context.Context, t *testing.T, prefix string, most int) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var live []*corev1.Service
	for n := 0; ctx.Err() == nil; n++ {
		if len(live) == most || len(live) > 0 && random.IntN(3) == 0 {
			i := random.IntN(len(live))
			if err := client.IgnoreNotFound(theRig.Client.Delete(context.Background(), live[i])); err != nil {
				t.Errorf("delete: %v", err)
			}
			live = append(live[:i], live[i+1:]...)
			continue
		}
		s := newService(fmt.Sprintf("%s-%d", prefix, n))
		if err := theRig.Client.Create(context.Background(), s); err != nil {
			t.Errorf("create: %v", err)
			return
		}
		live = append(live, s)
	}
}

// TestAPIServerKilledAndBack kills the API server under a running controller.
func TestAPIServerKilledAndBack(t *testing.T) {
	theRig.Clean(t)
	createPool(t, "edge", "10.2.0.0/24")
	theRig.Start(t)
	create(t, "before", 20)
	before := settled(t, "edge")

	for round := range 3 {
		if err := theRig.API.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		create(t, fmt.Sprintf("after-%d", round), 10)
		after := settled(t, "edge")
		for name, address := range before {
			if after[name] != address {
				t.Errorf("round %d: service %s had %s, has %s", round, name, address, after[name])
			}
		}
	}
}
