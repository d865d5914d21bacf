package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/member"
)

// guarded checks that the address is in the tables, so that nobody answers for it who
// must not, and whether packets to it are filtered.
func (r *running) guarded(what string, want bool) {
	r.t.Helper()
	if v, known := r.tables.VIP(vip); !known || v.Unclaimed == want || len(v.Ports) != 1 {
		r.t.Errorf("%s: known %t, unclaimed %t, ports %v; want guarded %t", what, known, v.Unclaimed, v.Ports, want)
	}
}

// unserved is a cluster in which nobody serves the address, so that no node has it.
func unserved() *fakeCluster {
	c := newCluster()
	c.delete(sliceOf("web", "web-1", "b"))
	return c
}

func up(node string, epoch uint64) member.Claim {
	return member.Claim{Key: member.Addr(vip), Node: node, Epoch: epoch, Up: true}
}

// An address is filtered while an agent has it, and for a while after.
func TestOnlyWhatAnAgentClaimsIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, unserved(), []string{"b", "c"}, nil)
		after(time.Minute)
		r.guarded("nobody has it", false)
		r.group.claim(vip, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: 1})
		after(time.Second)
		r.guarded("b probes it", false)
		r.group.claim(vip, up("b", 1))
		synctest.Wait()
		r.guarded("b has it", true)
		after(time.Hour)
		r.guarded("b still has it", true)

		r.group.die("b")
		after(guardGrace - time.Second)
		r.guarded("b is dead", true)
		r.group.claim(vip, up("c", 2))
		after(time.Hour)
		r.guarded("c has it", true)
		r.group.claim(vip)
		after(guardGrace - time.Second)
		r.guarded("c has left it a moment ago", true)
		after(2 * time.Second)
		r.guarded("nobody has claimed it since", false)
	})
}

// What this node itself gives up is filtered for a while, and what it takes is at once.
func TestOwnAddressIsGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		r.has("taken", true)
		r.guarded("taken", true)
		r.announcer.use(vip, stranger)
		after(guardGrace - time.Second)
		r.guarded("another host has it since a moment", true)
		after(time.Minute)
		r.has("another host has it", false)
		r.guarded("another host has it", false)
		r.announcer.use(vip, nil)
		after(2 * rivalRetry)
		r.has("free again", true)
		r.guarded("free again", true)

		slice := sliceOf("web", "web-1", "b")
		r.cluster.delete(slice)
		r.changed(slice)
		after(guardGrace / 2)
		r.has("served by nobody", false)
		r.guarded("served by nobody since a moment", true)
		after(guardGrace)
		r.guarded("served by nobody", false)
	})
}

// An agent that starts while an address moves does not leave it open.
func TestGuardOfAnAddressThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, unserved(), []string{"b", "c"}, nil, up("b", 1))
		r.group.die("b")
		after(time.Second)
		r.guarded("b died before the start", true)
		after(2 * guardGrace)
		r.guarded("nobody has claimed it since", false)
	})
}

// Without gossip nobody hears of claims: what all elect counts.
func TestGuardWithoutGossip(t *testing.T) {
	a := newTestAgent(t)
	now := time.Now()
	if !a.guards(vip, now) {
		t.Error("not guarded although a node has it")
	}
	for _, name := range []string{"a", "b", "c"} {
		setAlive(a, name, false)
	}
	if a.guards(vip, now) {
		t.Error("guarded although no node can have it")
	}
}
