package failover

import (
	"syscall"
	"testing"
	"time"
)

// A node whose cable is cut loses its addresses to another one, and does not
// take them back: neither if it comes back at once, before it has missed
// anything, nor later, when it knows that it is alone.
func TestCableCut(t *testing.T) {
	for name, wait := range map[string]time.Duration{"briefly": 0, "for a while": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			former := w.settled()
			answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
			t.Cleanup(func() { _ = cluster.Heal(former) })
			if err := cluster.Cut(former); err != nil {
				t.Fatal(err)
			}
			next := w.moved(former)
			during(t, wait, func() error { return w.onlyAt(next) })
			answers()
			connections()
			answers, connections = w.asker.watching(w.addrs...), connecting(t, w.addrs...)
			if err := cluster.Heal(former); err != nil {
				t.Fatal(err)
			}
			during(t, 3*time.Second, func() error { return w.onlyAt(next) })
			if owner := w.settled(); owner != next {
				t.Errorf("after the cable of %s was healed %s has the addresses, not %s", former, owner, next)
			}
			answers()
			if failed := connections(); len(failed) > 0 {
				t.Errorf("connections failed: %v", failed)
			}
		})
	}
}

// A node that dies loses its addresses, and comes back without them.
func TestNodeDies(t *testing.T) {
	w := newWorld(t)
	former := w.settled()
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	if err := cluster.Kill(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	next := w.moved(former)
	w.settled()
	answers()
	connections()
	if err := cluster.Restart(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	agentsRun(t, nodes...)
	if owner := w.settled(); owner != next {
		t.Errorf("after %s came back %s has the addresses, not %s", former, owner, next)
	}
}

// An agent that crashes costs no connection: its node goes on until another has
// taken over.
func TestAgentKilled(t *testing.T) {
	w := newWorld(t)
	former := w.settled()
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	running[former].kill(t)
	next := w.moved(former)
	if failed := beyondMove(connections()); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
	answers()
	agentsRun(t, nodes...)
	if owner := w.settled(); owner != next {
		t.Errorf("after the agent of %s was started again %s has the addresses, not %s", former, owner, next)
	}
}

// The kernel silences the node of an agent that hangs, and an agent that wakes
// up does not take anything back.
func TestAgentHangs(t *testing.T) {
	w := newWorld(t)
	former := w.settled()
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	t.Cleanup(func() { running[former].signal(t, syscall.SIGCONT) })
	stopped := time.Now()
	running[former].signal(t, syscall.SIGSTOP)
	next := w.moved(former)
	t.Logf("%s is the only one that answers after %v", next, time.Since(stopped).Round(10*time.Millisecond))
	during(t, 10*time.Second-time.Since(stopped), func() error { return w.onlyAt(next) })
	running[former].signal(t, syscall.SIGCONT)
	during(t, 3*time.Second, func() error { return w.onlyAt(next) })
	if owner := w.settled(); owner != next {
		t.Errorf("after the agent of %s woke up %s has the addresses, not %s", former, owner, next)
	}
	answers()
	if failed := beyondMove(connections()); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
}

// All agents crash at once: nothing moves, because the nodes had what they had.
func TestAllAgentsKilled(t *testing.T) {
	w := newWorld(t)
	owner := w.settled()
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	for _, node := range nodes {
		running[node].signal(t, syscall.SIGKILL)
	}
	for _, node := range nodes {
		running[node].gone(t)
	}
	agentsRun(t, nodes...)
	if now := w.settled(); now != owner {
		t.Errorf("after all agents were started again %s has the addresses, not %s", now, owner)
	}
	answers()
	connections()
}
