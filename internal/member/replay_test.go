package member_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"fairlead.io/internal/member"
	"fairlead.io/internal/member/membersim"
)

// These tests send again, to members, all that members have ever sent.

// steadily checks that something holds while everything is sent again to a member,
// and for a while after that, in which memberlist would find out its error.
func steadily(t *testing.T, network *membersim.Network, to *member.Group, what string, holds func() bool) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		packets, streams := network.Replay(to.Addr())
		t.Logf("sent again: %d packets, %d streams", packets, streams)
		if packets == 0 || streams == 0 {
			t.Error("nothing was recorded")
		}
	}()
	after := time.After(24 * time.Hour)
	for until := done; ; {
		if !holds() {
			t.Fatalf("%s: members %v, claims %v", what, names(to), to.Claims())
		}
		select {
		case <-until:
			until, after = nil, time.After(5*time.Second)
		case <-after:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// claimant is a node with an address that died, whose address another one took.
// lives is how often it was believed dead before, and came back.
func claimant(t *testing.T, network *membersim.Network, groups []*member.Group, lives int) {
	t.Helper()
	dead := groups[2]
	for range lives {
		network.Split(membersim.Address(2).Addr())
		within(t, 2*time.Second, "believed dead", each(groups[:2], members(2)))
		network.Heal()
		within(t, 10*time.Second, "back", each(groups, members(3)))
	}
	dead.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 1, Up: true}})
	within(t, time.Second, "claim known", each(groups, func(g *member.Group) bool { return len(g.Claims()[member.Addr(vip)]) == 1 }))
	<-time.After(11 * time.Second) // some exchanges
	dead.Close()
	within(t, 2*time.Second, "dead", each(groups[:2], members(2)))
	groups[1].SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 2, Up: true}})
	within(t, time.Second, "taken over", each(groups[:2], func(g *member.Group) bool { return g.Claims()[member.Addr(vip)][0].Epoch == 2 }))
}

// stillDead says that the dead node moves nothing: it is no member, it holds
// nothing, and it does not die again.
func stillDead(g *member.Group, deaths int) func() bool {
	return func() bool {
		return !slices.Contains(names(g), membersim.Name(2)) && g.Deaths() == deaths &&
			!slices.ContainsFunc(g.Claims()[member.Addr(vip)], func(c member.Claim) bool {
				return c.Node == membersim.Name(2) && c.Standing != member.Orphaned
			})
	}
}

// What a dead node has sent does not bring it back: neither while memberlist
// remembers it, nor when it has forgotten it.
func TestSimulatedReplayOfTheDead(t *testing.T) {
	for name, pause := range map[string]time.Duration{"remembered": time.Second, "forgotten": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			network := &membersim.Network{Delay: 100 * time.Microsecond}
			network.Record()
			simulate(t, network, 3, func(t *testing.T, groups []*member.Group) {
				claimant(t, network, groups, 2)
				<-time.After(pause)
				a := groups[0]
				steadily(t, network, a, "the dead has come back", stillDead(a, a.Deaths()))
				if c := a.Claims()[member.Addr(vip)]; c[0].Node != membersim.Name(1) || c[0].Standing != member.Held {
					t.Errorf("the address is not its new owner's: %v", c)
				}
			})
		})
	}
}

// A new process knows nobody, so what it is told first counts; but not more than
// what the members say that are there.
func TestSimulatedReplayToANewProcess(t *testing.T) {
	network := &membersim.Network{Delay: 100 * time.Microsecond}
	network.Record()
	simulate(t, network, 3, func(t *testing.T, groups []*member.Group) {
		claimant(t, network, groups, 1)
		groups[0].Close()
		<-time.After(2 * time.Minute)
		next, err := network.Start(0)
		if err != nil {
			t.Fatal(err)
		}
		groups[0] = next
		synced := func() bool {
			c := next.Claims()[member.Addr(vip)]
			return !next.Synced() || len(c) > 0 && c[0].Node == membersim.Name(1) && c[0].Epoch == 2 && c[0].Standing == member.Held
		}
		dead := stillDead(next, 0)
		steadily(t, network, next, "it believes the dead", func() bool { return dead() && synced() })
	})
}

// What was said of an earlier process, that it was suspected, died or left, does
// not count against the one that runs.
func TestSimulatedReplayAgainstTheLiving(t *testing.T) {
	network := &membersim.Network{Delay: 100 * time.Microsecond}
	network.Record()
	simulate(t, network, 3, func(t *testing.T, groups []*member.Group) {
		claimant(t, network, groups, 3)
		<-time.After(2 * time.Minute)
		next, err := network.Start(2)
		if err != nil {
			t.Fatal(err)
		}
		groups[2] = next
		if _, err := next.Join(t.Context(), []netip.AddrPort{groups[1].Addr()}); err != nil {
			t.Fatal(err)
		}
		within(t, time.Second, "back", each(groups, members(3)))
		next.SetClaims(nil)
		within(t, time.Second, "without claims", each(groups, func(g *member.Group) bool { return len(g.Claims()[member.Addr(vip)]) == 1 }))
		deaths := groups[0].Deaths()
		for _, to := range groups {
			steadily(t, network, to, "one who is alive was believed dead", func() bool {
				return members(3)(to) && (to != groups[0] || to.Deaths() == deaths) &&
					len(to.Claims()[member.Addr(vip)]) == 1 && to.Claims()[member.Addr(vip)][0].Node == membersim.Name(1)
			})
		}
	})
}
