package member_test

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/member"
	"fairlead.io/internal/member/membersim"
)

// These tests run in virtual time on a network in memory.

// simulate runs a test with as many members.
func simulate(t *testing.T, network *membersim.Network, size int, test func(*testing.T, []*member.Group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		groups, err := network.Group(t.Context(), size)
		defer func() { membersim.Close(groups...) }()
		if err != nil {
			t.Fatal(err)
		}
		test(t, groups)
	})
}

func within(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	began := time.Now()
	if !membersim.Wait(limit, holds) {
		t.Fatalf("%s: not within %s", what, limit)
	}
	t.Logf("%s after %s", what, time.Since(began))
}

func each(groups []*member.Group, holds func(*member.Group) bool) func() bool {
	return func() bool {
		return !slices.ContainsFunc(groups, func(g *member.Group) bool { return !holds(g) })
	}
}

func members(n int) func(*member.Group) bool {
	return func(g *member.Group) bool { return len(g.Members()) == n }
}

func addresses(from, to int) (all []netip.Addr) {
	for i := from; i < to; i++ {
		all = append(all, membersim.Address(i).Addr())
	}
	return all
}

// Both halves declare the other one dead; memberlist alone would leave it there.
// Short: memberlist still remembers its dead. Long: it has forgotten them.
func TestSimulatedPartitionHeals(t *testing.T) {
	for name, length := range map[string]time.Duration{"short": 5 * time.Second, "long": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			network := &membersim.Network{Delay: 100 * time.Microsecond}
			simulate(t, network, 10, func(t *testing.T, groups []*member.Group) {
				left, right := groups[:4], groups[4:]
				left[0].SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 1, Up: true}})
				within(t, time.Second, "claim known", each(groups, func(g *member.Group) bool { return len(g.Claims()[member.Addr(vip)]) == 1 }))

				network.Split(addresses(0, 4)...)
				within(t, 2*time.Second, "split noticed on the left", each(left, members(4)))
				within(t, 2*time.Second, "split noticed on the right", each(right, members(6)))
				if c := right[0].Claims()[member.Addr(vip)]; len(c) != 1 || c[0].Standing != member.Orphaned {
					t.Errorf("the claim of the other side: %v", c)
				}
				right[0].SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 2, Up: true}})
				<-time.After(length)

				network.Heal()
				within(t, 5*time.Second, "healed", each(groups, members(10)))
				within(t, time.Second, "claims of both sides known", each(groups, func(g *member.Group) bool {
					c := g.Claims()[member.Addr(vip)]
					return len(c) == 2 && c[0].Node == membersim.Name(4) && c[0].Epoch == 2 && c[1].Standing == member.Held
				}))
				if _, died := groups[0].Died(membersim.Name(5)); died {
					t.Error("one who is back is still dead")
				}
			})
		})
	}
}

// All learn that a member has left, and none takes it for dead.
func TestSimulatedLeaveOfMany(t *testing.T) {
	network := &membersim.Network{Delay: 100 * time.Microsecond}
	simulate(t, network, 30, func(t *testing.T, groups []*member.Group) {
		rest, leaver := groups[:29], groups[29]
		if err := leaver.Leave(t.Context()); err != nil {
			t.Error(err)
		}
		leaver.Close()
		within(t, time.Second, "leave known to all", each(rest, func(g *member.Group) bool {
			_, left := g.Left(membersim.Name(29))
			return left && len(g.Members()) == 29
		}))
	})
}

// Whoever has left or died may come back, with an empty memory.
func TestSimulatedReturn(t *testing.T) {
	network := &membersim.Network{Delay: 100 * time.Microsecond}
	simulate(t, network, 3, func(t *testing.T, groups []*member.Group) {
		for i, leaves := range []bool{true, false, true} {
			g := groups[0]
			g.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 1}})
			if leaves {
				if err := g.Leave(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			g.Close()
			within(t, time.Second, "noticed", each(groups[1:], members(2)))
			<-time.After(time.Duration(i) * 20 * time.Second) // at first memberlist remembers it, later not
			next, err := network.Start(0)
			if err != nil {
				t.Fatal(err)
			}
			groups[0] = next
			if _, err := next.Join(t.Context(), []netip.AddrPort{groups[1].Addr()}); err != nil {
				t.Fatal(err)
			}
			within(t, time.Second, "back", each(groups, members(3)))
			within(t, time.Second, "without the claims of the past", each(groups, func(g *member.Group) bool { return len(g.Claims()) == 0 }))
			_, died := groups[1].Died(membersim.Name(0))
			_, left := groups[1].Left(membersim.Name(0))
			if died || left {
				t.Errorf("died %t, left %t", died, left)
			}
		}
	})
}

func TestSimulatedRestartWithinSuspicionIsNoDeath(t *testing.T) {
	network := &membersim.Network{Delay: 100 * time.Microsecond}
	simulate(t, network, 3, func(t *testing.T, groups []*member.Group) {
		a, c := groups[0], groups[2]
		a.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 1, Up: true}})
		within(t, time.Second, "claim known", func() bool { return len(c.Claims()[member.Addr(vip)]) == 1 })
		within(t, time.Second, "synced", c.Synced)
		for range 20 {
			groups[0].Close()
			<-time.After(150 * time.Millisecond) // of no process, out of the 225 that a suspect has
			next, err := network.Start(0)
			if err != nil {
				t.Fatal(err)
			}
			groups[0] = next
			if _, err := next.Join(t.Context(), []netip.AddrPort{c.Addr()}); err != nil {
				t.Fatal(err)
			}
			within(t, time.Second, "inheritance", each(groups, func(g *member.Group) bool {
				claims := g.Claims()[member.Addr(vip)]
				return len(claims) == 1 && claims[0].Standing == member.Inherited
			}))
			if !next.Synced() {
				t.Error("the successor is not synced")
			}
			next.SetClaims([]member.Claim{{Key: member.Addr(vip), Epoch: 1, Up: true}})
			within(t, time.Second, "claim of the successor", func() bool { return c.Claims()[member.Addr(vip)][0].Standing == member.Held })
			<-time.After(time.Second)
			if _, died := c.Died(membersim.Name(0)); died || len(c.Members()) != 3 {
				t.Fatal("the restart was taken for a death")
			}
		}
	})
}

func TestSimulatedSyncedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &membersim.Network{}
		g, err := network.Start(0)
		if err != nil {
			t.Fatal(err)
		}
		defer membersim.Close(g)
		<-time.After(999 * time.Millisecond)
		if g.Synced() {
			t.Error("synced with nobody too early")
		}
		for range g.Changed() {
			if g.Synced() {
				break
			}
		}
		// Two who know nothing do not make each other any wiser.
		b, _ := network.Start(1)
		c, _ := network.Start(2)
		defer membersim.Close(b, c)
		if _, err := b.Join(t.Context(), []netip.AddrPort{c.Addr()}); err != nil || b.Synced() || c.Synced() {
			t.Errorf("error %v, synced %t and %t", err, b.Synced(), c.Synced())
		}
		if _, err := b.Join(t.Context(), []netip.AddrPort{g.Addr()}); err != nil {
			t.Error(err)
		}
		within(t, 100*time.Millisecond, "synced by one who knows", b.Synced)
	})
}

// A thousand claims at once, with one packet of twenty lost, and then all of
// them given up.
func TestSimulatedManyClaims(t *testing.T) {
	network := &membersim.Network{Delay: 100 * time.Microsecond, Loss: 0.05}
	simulate(t, network, 5, func(t *testing.T, groups []*member.Group) {
		var claims []member.Claim
		a := netip.MustParseAddr("10.9.0.0")
		for range 1000 {
			a = a.Next()
			claims = append(claims, member.Claim{Key: member.Addr(a), Epoch: 1 << 33, Up: true})
		}
		groups[1].SetClaims(claims)
		within(t, 20*time.Second, "claims known", each(groups, func(g *member.Group) bool { return len(g.Claims()) == 1000 }))
		groups[1].SetClaims(nil)
		within(t, 20*time.Second, "releases known", each(groups, func(g *member.Group) bool { return len(g.Claims()) == 0 }))
	})
}

func TestSimulatedDetectionIsFast(t *testing.T) {
	d, err := membersim.Detect(t.Context(), 3, 30)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(d.Each)
	if worst := d.Each[len(d.Each)-1]; worst > 700*time.Millisecond {
		t.Errorf("a silent node was known dead only after %s", worst)
	}
	t.Logf("median %s, worst %s", d.Each[len(d.Each)/2], d.Each[len(d.Each)-1])
}
