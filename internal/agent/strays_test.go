package agent

import (
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Addresses that are raised while others are looked at are looked at next, all at once; a kernel
// that refuses stops nothing.
func TestStraysAreRemovedOnceEach(t *testing.T) {
	all := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::3")}
	entered, proceed := make(chan []bool, len(all)), make(chan struct{})
	s := &strays{log: slog.New(slog.DiscardHandler), remove: func(of func(netip.Addr) bool) (int, error) {
		var asked []bool
		for _, addr := range all {
			asked = append(asked, of(addr))
		}
		entered <- asked
		<-proceed
		return 0, errors.New("refused")
	}}
	var running sync.WaitGroup
	s.of(&running, nil)
	s.of(&running, all[:1])
	same(t, "first", <-entered, "[true false false]")
	s.of(&running, all[1:2])
	s.of(&running, all[1:])
	close(proceed)
	same(t, "then", <-entered, "[false true true]")
	running.Wait()
	s.of(&running, all[2:])
	same(t, "later", <-entered, "[false false true]")
	running.Wait()
}

// An agent that takes an address has them removed.
func TestLoopRemovesStrays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var removed atomic.Int32
		r := start(t, newCluster(), []string{"b"}, func(p *parts) {
			p.removeStrays = func(of func(netip.Addr) bool) (int, error) {
				if of(vip) {
					removed.Add(1)
				}
				return 1, nil
			}
		})
		claimedBy(r, "a")
		r.group.claim(vip)
		after(peersPatience + 2*time.Second)
		r.has("taken", true)
		if n := removed.Load(); n != 1 {
			t.Errorf("removed %d times, want once", n)
		}
	})
}
