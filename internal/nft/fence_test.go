package nft_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
	"fairlead.io/test/kit/netns"
)

func TestKernelAnswersForOwnedAddressesWhileTheFenceStands(t *testing.T) {
	l := newLab(t)
	// Without our tables the kernel answers for everything it has, IPv4 even on
	// the wrong interface: what follows is our doing.
	if !l.asker[1].Answers(vip[lb.IPv4], own1[lb.IPv4]) {
		t.Error("the kernel does not answer on other interfaces; the test shows nothing")
	}
	table := l.open()
	l.apply(table, owning())
	l.grant(table, "eth0")
	l.grant(table, "eth1")
	eachFamily(t, func(t *testing.T, f lb.Family) {
		if l.answers(vip, f) || l.answers(other, f) {
			t.Error("answered, but not owned")
		}
	})
	l.apply(table, owning("eth0"))
	l.grant(table, "eth0")
	l.grant(table, "eth1")
	stop := keep(t, table, "eth0", "eth1")
	defer stop()
	eachFamily(t, func(t *testing.T, f lb.Family) {
		if !l.answers(vip, f) {
			t.Error("not answered, but owned")
		}
		if l.answers(other, f) {
			t.Error("answered, but not owned")
		}
		if l.asker[1].Answers(vip[f], own1[f]) {
			t.Error("answered on an interface on which it is not owned")
		}
	})
	l.apply(table, owning())
	eachFamily(t, func(t *testing.T, f lb.Family) {
		if l.answers(vip, f) {
			t.Error("answered after it was given up")
		}
	})
	l.apply(table, nft.State{})
	eachFamily(t, func(t *testing.T, f lb.Family) {
		if !l.answers(vip, f) {
			t.Error("an address that is not announced is none of our business")
		}
	})
}

func TestFenceEndsByItselfAndCannotBeRenewedLate(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.apply(table, owning("eth0"))
	eachFamily(t, func(t *testing.T, f lb.Family) {
		before := time.Now()
		l.grant(table, "eth0")
		after := time.Now()
		// A busy machine may be late with a question, or in hearing the answer.
		netns.Eventually(t, time.Minute, "silence", func() bool {
			asked := time.Since(after)
			if l.answers(vip, f) {
				if asked > nft.FenceTime+200*time.Millisecond {
					t.Errorf("answered to a question %v after the grant, want %v at most", asked, nft.FenceTime)
				}
				return false
			}
			if silent := time.Since(before); silent < nft.FenceTime/2 {
				t.Errorf("silent %v after the grant, want about %v", silent, nft.FenceTime)
			}
			return true
		})
		lost, err := table.Renew([]string{"eth0"})
		if err != nil || !slices.Equal(lost, []string{"eth0"}) {
			t.Errorf("late renewal: lost %v, %v", lost, err)
		}
		if l.answers(vip, f) {
			t.Error("a late renewal brought the fence back")
		}
		netns.Eventually(t, time.Minute, "answered after a new grant", func() bool {
			l.grant(table, "eth0")
			return l.answers(vip, f)
		})
	})
}

func TestFencesAreRenewedWithoutAGap(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.apply(table, owning("eth0"))
	l.grant(table, "eth0")
	stop := keep(t, table, "eth0")
	defer stop()
	for start := time.Now(); time.Since(start) < 2*nft.FenceTime; {
		for _, f := range lb.Families {
			if !l.answers(vip, f) {
				t.Fatalf("%v: silent after %v", f, time.Since(start))
			}
		}
	}
}

func TestALostFenceDoesNotHarmOthers(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.apply(table, owning("eth0"))
	l.grant(table, "eth0")
	lost, err := table.Renew([]string{"eth1", "eth0", "eth7"})
	if err != nil || !slices.Equal(lost, []string{"eth1", "eth7"}) {
		t.Errorf("lost %v, %v", lost, err)
	}
	if !l.answers(vip, lb.IPv4) {
		t.Error("eth0 has lost its fence, too")
	}
	if err := errors.Join(table.Revoke("eth0"), table.Revoke("eth0"), table.Revoke("eth9")); err != nil {
		t.Error(err)
	}
	eachFamily(t, func(t *testing.T, f lb.Family) {
		if l.answers(vip, f) {
			t.Error("answered after the fence was revoked")
		}
	})
	if lost, err := table.Renew([]string{"eth0"}); err != nil || len(lost) != 1 {
		t.Errorf("renewal of a revoked fence: lost %v, %v", lost, err)
	}
}

// A neighbour learns from requests and solicitations as well: the node sends
// them from a VIP when it answers a connection to it.
func TestNothingIsSaidInTheNameOfAVIPThatIsNotOwned(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.apply(table, owning("eth0"))
	l.grant(table, "eth0")
	stop := keep(t, table, "eth0")
	defer stop()
	for _, f := range lb.Families {
		peer := pair("192.0.2.1", "2001:db8:1::1")[f].String()
		l.node.Run("ip", "neigh", "flush", "dev", "eth0")
		if out, err := l.node.Try("ping", "-c", "1", "-W", "5", "-I", vip[f].String(), peer); err != nil {
			t.Errorf("from an owned VIP: %v\n%s", err, out)
		}
		l.node.Run("ip", "neigh", "flush", "dev", "eth0")
		l.client.Run("ip", "neigh", "flush", "dev", "c0")
		if out, err := l.node.Try("ping", "-c", "1", "-W", "1", "-I", other[f].String(), peer); err == nil {
			t.Errorf("from a VIP that is not owned:\n%s", out)
		}
		if out := l.client.Run("ip", "neigh", "show", other[f].String()); strings.Contains(out, "lladdr") {
			t.Errorf("the client has learnt %s", out)
		}
	}
}

// Answers to clients may leave by another interface than the one that is
// announced on: the node finds its neighbour there all the same, and tells it
// nothing.
func TestNeighboursAreFoundOnOtherInterfaces(t *testing.T) {
	l := newLab(t)
	table := l.open()
	l.apply(table, owning("eth0"))
	l.grant(table, "eth0")
	stop := keep(t, table, "eth0")
	defer stop()
	for _, f := range lb.Families {
		peer := pair("192.0.3.1", "2001:db8:2::1")[f].String()
		l.node.Run("ip", "neigh", "flush", "dev", "eth1")
		l.client.Run("ip", "neigh", "flush", "dev", "c1")
		if out, err := l.node.Try("ping", "-c", "1", "-W", "5", "-I", vip[f].String(), peer); err != nil {
			t.Errorf("from a VIP that is owned on the other interface: %v\n%s", err, out)
		}
		if out := l.client.Run("ip", "neigh", "show", vip[f].String(), "dev", "c1"); strings.Contains(out, "lladdr") {
			t.Errorf("the client has learnt %s", out)
		}
	}
}

// keep renews fences until it is stopped. If this machine is so busy that it is too late
// for that, it grants them again.
func keep(t *testing.T, table *nft.Table, ifnames ...string) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(nft.FenceTime / 4)
		defer tick.Stop()
		for renewed := time.Now(); ; {
			select {
			case <-quit:
				return
			case <-tick.C:
			}
			lost, err := table.Renew(ifnames)
			late := time.Since(renewed) > nft.FenceTime*3/4
			if err != nil || len(lost) > 0 && !late {
				t.Errorf("renew: lost %v, %v", lost, err)
			}
			for _, name := range lost {
				if err := table.Grant(name); err != nil {
					t.Error(err)
				}
			}
			renewed = time.Now()
		}
	}()
	return func() { close(quit); <-done }
}
