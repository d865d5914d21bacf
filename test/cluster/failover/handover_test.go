package failover

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
)

// An agent that is told to end hands over: the next owner answers before the
// former one stops.
func TestAgentTerminated(t *testing.T) {
	w := newWorld(t)
	former := w.settled()
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	running[former].terminate(t)
	next := w.settled()
	if next == former {
		t.Errorf("%s still has the addresses", former)
	}
	answers()
	if failed := beyondHandOver(connections()); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
	if left := onHost(t, former, "nft", "list", "tables"); strings.Contains(left, "fairlead") {
		t.Errorf("tables are left on %s:\\n%s", former, left)
	}
	agentsRun(t, nodes...)
	if owner := w.settled(); owner != next {
		t.Errorf("after the agent of %s was started again %s has the addresses, not %s", former, owner, next)
	}
}

func cordon(t *testing.T, node string, yes bool) {
	t.Helper()
	o := &corev1.Node{}
	o.Name = node
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, yes)
	if err := api.Patch(t.Context(), o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// A cordoned node gives its addresses away, as if nothing was.
func TestNodeCordoned(t *testing.T) {
	w := newWorld(t)
	former := w.settled()
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	cordon(t, former, true)
	next := w.moved(former)
	w.settled()
	cordon(t, former, false)
	if owner := w.settled(); owner != next {
		t.Errorf("after %s was uncordoned %s has the addresses, not %s", former, owner, next)
	}
	answers()
	if failed := beyondHandOver(connections()); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
}

// An agent is followed by another one on the same node: nothing moves, nothing
// fails, and nobody who asks is left without an answer.
func TestAgentUpgraded(t *testing.T) {
	w := newWorld(t)
	owner := w.settled()
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	for range 3 {
		old := running[owner]
		next := launch(t, owner)
		next.awaitReady(t)
		old.terminate(t)
		running[owner] = next
		if now := w.settled(); now != owner {
			t.Errorf("after an upgrade %s has the addresses, not %s", now, owner)
		}
		owner = w.settled()
	}
	if failed := connections(); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
	answers()
	for _, x := range w.asker.since(time.Time{}) {
		if slices.Contains(w.addrs, x.addr) && nodeOf(x.mac) != owner {
			t.Errorf("%s has answered for %s", nodeOf(x.mac), x.addr)
			break
		}
	}
}

// The successor needs nothing from the API server at the moment it follows.
func TestAgentUpgradedWithoutAPIServer(t *testing.T) {
	w := newWorld(t)
	owner := w.settled()
	old, next := running[owner], launch(t, owner)
	next.awaitReady(t)
	killAPIServer(t)
	answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
	old.terminate(t)
	running[owner] = next
	if now := w.settled(); now != owner {
		t.Errorf("after an upgrade %s has the addresses, not %s", now, owner)
	}
	answers()
	if failed := connections(); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
}

// The successor takes over also from an agent that crashes.
func TestAgentKilledWithSuccessor(t *testing.T) {
	w := newWorld(t)
	owner := w.settled()
	connections := connecting(t, w.addrs...)
	old, next := running[owner], launch(t, owner)
	next.awaitReady(t)
	old.kill(t)
	running[owner] = next
	if now := w.settled(); now != owner {
		t.Errorf("after the agent of %s was followed by another %s has the addresses", owner, now)
	}
	if failed := connections(); len(failed) > 0 {
		t.Errorf("connections failed: %v", failed)
	}
}

// A successor that ends before it could follow changes nothing.
func TestSuccessorTerminated(t *testing.T) {
	w := newWorld(t)
	owner := w.settled()
	next := launch(t, owner)
	next.awaitReady(t)
	next.signal(t, syscall.SIGTERM)
	next.gone(t)
	if now := w.settled(); now != owner {
		t.Errorf("after a successor on %s gave up %s has the addresses", owner, now)
	}
}

// A program of the node that listens on all addresses is reached at the node's
// own, and not at those of Services.
func TestPortsOfTheNodeAreClosed(t *testing.T) {
	const port = 2222
	w := newWorld(t)
	owner := w.settled()
	var l net.Listener
	if err := cluster.In(owner, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reach := func(addr netip.Addr) error {
		conn, err := cluster.Dial(t.Context(), sandbox.ClientHost, "tcp", netip.AddrPortFrom(addr, port).String())
		if err != nil {
			return err
		}
		return conn.Close()
	}
	number := owner[len(owner)-1:]
	for _, own := range []string{"10.77.0.1" + number, "fd77::1" + number} {
		if err := reach(netip.MustParseAddr(own)); err != nil {
			t.Errorf("the node itself: %v", err)
		}
	}
	for _, addr := range w.addrs {
		if err := reach(addr); err == nil {
			t.Errorf("port %d of %s is reached at %s", port, owner, addr)
		} else if !strings.Contains(err.Error(), "refused") {
			t.Errorf("port %d at %s is not refused: %v", port, addr, err)
		}
	}
}
