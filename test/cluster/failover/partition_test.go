package failover

import (
	"context"
	"testing"
	"time"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
)

// deaf has a node not hear the gossip of others until the test ends or the
// returned function is called.
func deaf(t *testing.T, node string, others ...string) (heal func()) {
	t.Helper()
	end, err := site.Deaf(t.Context(), cluster, node, others...)
	if err != nil {
		t.Fatal(err)
	}
	heal = func() { _ = end(context.Background()) }
	t.Cleanup(heal)
	return heal
}

func others(node string) (out []string) {
	for _, n := range nodes {
		if n != node {
			out = append(out, n)
		}
	}
	return out
}

// Two nodes of which one does not hear the other know by the third that both are
// alive.
func TestOneDirectionIsLost(t *testing.T) {
	w := newWorld(t)
	owner := w.settled()
	answers := w.asker.watching(w.addrs...)
	heal := deaf(t, owner, others(owner)[0])
	during(t, 2*time.Second, func() error { return w.onlyAt(owner) })
	heal()
	deaf(t, others(owner)[0], owner)
	during(t, 2*time.Second, func() error { return w.onlyAt(owner) })
	if now := w.settled(); now != owner {
		t.Errorf("%s had the addresses, now %s has", owner, now)
	}
	answers()
}

// Gossip between the owner and all others fails, and nothing else: it is the
// LAN that tells the owner that another has taken over.
func TestGossipIsLost(t *testing.T) {
	w := newWorld(t)
	former := w.settled()
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	heal := deaf(t, former, others(former)...)
	next := w.moved(former)
	w.settled()
	during(t, 3*time.Second, func() error { return w.onlyAt(next) })
	heal()
	during(t, 3*time.Second, func() error { return w.onlyAt(next) })
	if owner := w.settled(); owner != next {
		t.Errorf("%s had the addresses, now %s has", next, owner)
	}
	answers()
	if failed := beyondMove(connections()); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
}

// killAPIServer ends the control plane until the end of the test.
func killAPIServer(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if err := cluster.Up(context.Background()); err != nil {
			t.Error(err)
		}
		// Who has asked in vain for a while asks less and less often.
		if err := startController(); err != nil {
			t.Error(err)
		}
		killAll()
	})
	if err := cluster.Kill(t.Context(), sandbox.ControlHost); err != nil {
		t.Fatal(err)
	}
}

// Without the API server a node that dies is followed all the same.
func TestNodeDiesWithoutAPIServer(t *testing.T) {
	w := newWorld(t)
	former := w.settled()
	killAPIServer(t)
	during(t, 2*time.Second, func() error { return w.onlyAt(former) })
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	if err := cluster.Kill(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	next := w.moved(former)
	w.settled()
	answers()
	connections()
	if err := cluster.Restart(t.Context(), sandbox.ControlHost); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Restart(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	agentsRun(t, nodes...)
	if owner := w.settled(); owner != next {
		t.Errorf("%s had the addresses, now %s has", next, owner)
	}
}

// An agent that is alone because all others took their leave keeps what it has,
// also without the API server.
func TestLastAgent(t *testing.T) {
	w := newWorld(t)
	for _, node := range others(w.settled()) {
		running[node].terminate(t)
	}
	owner := w.settled()
	killAPIServer(t)
	during(t, 3*time.Second, func() error { return w.onlyAt(owner) })
	if now := w.settled(); now != owner {
		t.Errorf("%s had the addresses, now %s has", owner, now)
	}
}
