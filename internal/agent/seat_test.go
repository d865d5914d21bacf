package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	"fairlead.io/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestSeat: one agent is active; another waits, the first knows of it, and the
// second follows as soon as the first is gone.
func TestSeat(t *testing.T) {
	name := t.Name()
	first, err := takeSeat(t.Context(), name, func() { t.Error("the seat was free") })
	if err != nil {
		t.Fatal(err)
	}
	if first.hasSuccessor() {
		t.Error("nobody waits yet")
	}
	waits, followed := make(chan struct{}), make(chan *seat)
	go func() {
		second, err := takeSeat(context.WithoutCancel(t.Context()), name, func() { close(waits) })
		if err != nil {
			t.Error(err)
		}
		followed <- second
	}()
	<-waits
	until(t, first.hasSuccessor)
	first.leave()
	second := <-followed
	if second == nil {
		t.Fatal("nobody followed")
	}
	defer second.leave()

	// A successor that gives up is not counted.
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() {
		_, err := takeSeat(ctx, name, func() {})
		gaveUp <- err
	}()
	until(t, second.hasSuccessor)
	cancel()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("gave up with %v", err)
	}
	until(t, func() bool { return !second.hasSuccessor() })
}

func until(t *testing.T, f func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not within 10 s")
		}
	}
}
