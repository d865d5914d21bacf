package failover

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
)

const card = "lan1"

// plug adds a second network card to a node until the test ends.
func plug(t *testing.T, node string) {
	t.Helper()
	if err := cluster.AddNIC(t.Context(), node, card); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.RemoveNIC(context.Background(), node, card) })
	configure(t, node)
}

// configure gives the card an address of its own, without which IPv6 is not
// announced there.
func configure(t *testing.T, node string) {
	t.Helper()
	onHost(t, node, "ip", "address", "replace", "fd77::3"+node[len(node)-1:]+"/64", "dev", card, "nodad", "noprefixroute")
}

// Addresses that are announced on a second card only: the node whose card goes
// down, is renamed or taken out loses them, although it is alive; and one that
// gets a card can have them.
func TestSecondCard(t *testing.T) {
	for _, node := range nodes[:2] {
		plug(t, node)
	}
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "second"}}
	pool.Spec.Addresses = []v1alpha1.Span{"10.77.0.220-10.77.0.229", "fd77::220-fd77::229"}
	pool.Spec.Advertise.Interfaces = []string{card}
	pool.Spec.ServiceSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"on": card}}}
	pool.Spec.Priority = 1
	create(t, pool)
	w := newWorld(t, func(s *corev1.Service) { s.Labels = map[string]string{"on": card} })
	if got := w.addrs[0].String(); got != "10.77.0.220" {
		t.Fatalf("the address is %s", got)
	}

	former := w.settled()
	next := others("node3")[0]
	if next == former {
		next = others("node3")[1]
	}
	step := func(what string, do func()) {
		t.Helper()
		answers, connections := w.asker.watching(w.addrs...), connecting(t, w.addrs...)
		do()
		if owner := w.moved(former); owner != next {
			t.Errorf("%s: %s has the addresses, not %s", what, owner, next)
		}
		w.settled()
		t.Log(what)
		answers()
		connections()
	}
	step("card of "+former+" down", func() { onHost(t, former, "ip", "link", "set", card, "down") })
	onHost(t, former, "ip", "link", "set", card, "up")
	configure(t, former) // the kernel forgets IPv6 addresses of a card that is down
	during(t, 3*time.Second, func() error { return w.onlyAt(next) })
	w.settled()

	former, next = next, former
	step("card of "+former+" renamed", func() {
		onHost(t, former, "ip", "link", "set", card, "down")
		onHost(t, former, "ip", "link", "set", card, "name", "other1")
		onHost(t, former, "ip", "link", "set", "other1", "up")
	})

	plug(t, "node3") // the only other one that has such a card
	during(t, 3*time.Second, func() error { return w.onlyAt(next) })
	former, next = next, "node3"
	step("card of "+former+" taken out", func() {
		if err := cluster.RemoveNIC(t.Context(), former, card); err != nil {
			t.Fatal(err)
		}
	})

	former = "node3"
	if err := cluster.RemoveNIC(t.Context(), former, card); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { // nobody can have them
		where, err := interfaces()
		if err == nil && len(where) > 0 {
			err = fmt.Errorf("addresses are on %v", where)
		}
		return err
	})
	plug(t, former)
	if owner := w.settled(); owner != former {
		t.Errorf("%s has the addresses, not %s", owner, former)
	}
}
