package failover

import (
	"errors"
	"net/netip"
	"testing"
	"time"
)

// Somebody takes an address off the owner's interface.
func TestAddressRemovedByHand(t *testing.T) {
	w := newWorld(t)
	owner := w.settled()
	answers := w.asker.watching(w.addrs...)
	for _, addr := range w.addrs {
		onHost(t, owner, "ip", "address", "del", netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", "eth0")
	}
	if now := w.settled(); now != owner {
		t.Errorf("%s had the addresses, now %s has", owner, now)
	}
	answers()
}

// Somebody flushes all packet filters of the owner, kube-proxy's included; and of
// another node.
func TestRulesetFlushed(t *testing.T) {
	w := newWorld(t)
	owner := w.settled()
	answers := w.asker.watching(w.addrs...)
	for _, node := range nodes {
		onHost(t, node, "nft", "delete table inet fairlead")
		onHost(t, node, "nft", "delete table arp fairlead")
		during(t, 500*time.Millisecond, func() error { return w.onlyAt(owner) })
	}
	if now := w.settled(); now != owner {
		t.Errorf("%s had the addresses, now %s has", owner, now)
	}
	for _, node := range nodes {
		onHost(t, node, "nft", "flush ruleset")
		during(t, 500*time.Millisecond, func() error { return w.onlyAt(owner) })
		eventually(t, func() error {
			_, err := cluster.Exec(t.Context(), node, "nft", "list table arp fairlead")
			return err
		})
	}
	answers()
	// kube-proxy finds out for itself only much later.
	for _, node := range nodes {
		restartProxy(t, node)
	}
	if now := w.settled(); now != owner {
		t.Errorf("%s had the addresses, now %s has", owner, now)
	}
}

// restartProxy ends kube-proxy, which the node starts again.
func restartProxy(t *testing.T, node string) {
	t.Helper()
	signalProxy(t, node, "TERM")
	proxyRuns(t, node)
}

// proxyRuns waits until kube-proxy of a node has written its rules.
func proxyRuns(t *testing.T, node string) {
	t.Helper()
	eventually(t, func() error {
		if _, err := cluster.Exec(t.Context(), node, "nft", "list table ip kube-proxy"); err != nil {
			return errors.New("kube-proxy of " + node + " has no rules")
		}
		return nil
	})
}
