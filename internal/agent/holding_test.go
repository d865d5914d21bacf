package agent

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

var (
	vip      = netip.MustParseAddr("192.0.2.10")
	macs     = map[string]net.HardwareAddr{"a": {2, 0, 0, 0, 0, 1}, "b": {2, 0, 0, 0, 0, 2}, "c": {2, 0, 0, 0, 0, 3}}
	stranger = net.HardwareAddr{2, 0, 0, 0, 0, 9}
)

// newTestAgent is the agent of node a among a, b and c, with one Service, and
// without a kernel. The loop does not run: tests call what it would.
func newTestAgent(t *testing.T) *agent {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := newAgent(ctx, fakeParts("a", &fakeCluster{}))
	a.links = a.kernel.List()
	t.Cleanup(func() {
		cancel()
		a.close()
		a.running.Wait()
	})
	put(a.directory, serviceOf("web", 1, "", 80, vip.String()))
	a.directory.setSlice(types.NamespacedName{Namespace: "shop", Name: "web-1"}, sliceOf("web", "web-1", "c"))
	for _, name := range []string{"a", "b", "c"} {
		a.macs[name] = []net.HardwareAddr{macs[name]}
		setAlive(a, name, true)
	}
	return a
}

// setAlive says whether a node is a member.
func setAlive(a *agent, node string, yes bool) {
	delete(a.members, node)
	v := elect.Node{Name: node}
	if yes {
		meta := member.Meta{Eligible: true, Links: []member.Link{{Name: "eth0", V4: true, V6: true}}, MACs: a.macs[node]}
		a.members[node] = meta
		fill(&v, meta)
	}
	for i := range a.voters {
		if a.voters[i].Name == node {
			a.voters[i] = v
			return
		}
	}
	a.voters = append(a.voters, v)
}

func claim(node string, epoch uint64, up bool, standing member.Standing) member.Claim {
	return member.Claim{Key: member.Addr(vip), Node: node, Epoch: epoch, Up: up, Standing: standing}
}

func TestClaims(t *testing.T) {
	for name, c := range map[string]struct {
		said   []member.Claim
		held   *holding
		claims []elect.Claim
		last   string
	}{
		"nothing": {},
		"another has it": {
			said:   []member.Claim{claim("b", 3, true, member.Held)},
			claims: []elect.Claim{{Node: "b", Epoch: 3, Up: true}}, last: "b"},
		"a dead one had it": {
			said:   []member.Claim{claim("b", 3, true, member.Orphaned)},
			claims: []elect.Claim{{Node: "b", Epoch: 3}}, last: "b"},
		"the process before has it": {
			said:   []member.Claim{claim("b", 3, true, member.Inherited)},
			claims: []elect.Claim{{Node: "b", Epoch: 3, Up: true}}, last: "b"},
		"two say so: the higher epoch counts": {
			said:   []member.Claim{claim("c", 4, true, member.Held), claim("b", 3, true, member.Held)},
			claims: []elect.Claim{{Node: "c", Epoch: 4, Up: true}, {Node: "b", Epoch: 3, Up: true}}, last: "c"},
		"one asks whether it is free": {
			said:   []member.Claim{claim("c", 4, false, member.Held), claim("b", 3, true, member.Orphaned)},
			claims: []elect.Claim{{Node: "c", Epoch: 4}, {Node: "b", Epoch: 3}}},
		"what somebody once asked is long answered": {
			said:   []member.Claim{claim("b", 5, true, member.Held), claim("c", 4, false, member.Orphaned)},
			claims: []elect.Claim{{Node: "b", Epoch: 5, Up: true}, {Node: "c", Epoch: 4}}, last: "b"},
		"the own claim is what is, not what was said": {
			said:   []member.Claim{claim("a", 1, false, member.Held)},
			held:   &holding{epoch: 2, up: true},
			claims: []elect.Claim{{Node: "a", Epoch: 2, Up: true}}},
		"an epoch of the own past is not used again": {
			said:   []member.Claim{claim("a", 7, true, member.Inherited)},
			claims: []elect.Claim{{Node: "a", Epoch: 7}}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAgent(t)
			a.claims[member.Addr(vip)] = c.said
			if c.held != nil {
				a.held[vip] = c.held
			}
			claims, last := a.claimsOf(vip, nil)
			if diff := cmp.Diff(c.claims, claims); diff != "" || last != c.last {
				t.Errorf("last %q, want %q; %s", last, c.last, diff)
			}
		})
	}
}

// Once a node is known to have had an address, it needs no probe, even if that
// node has forgotten it since.
func TestWhatWasANodesIsNotProbed(t *testing.T) {
	a := newTestAgent(t)
	now := time.Now()
	a.claims[member.Addr(vip)] = []member.Claim{claim("b", 1, true, member.Held)}
	a.decide(vip, now)
	if len(a.held) > 0 {
		t.Fatal("another node's address was taken")
	}
	a.claims[member.Addr(vip)] = nil
	setAlive(a, "b", false)
	setAlive(a, "c", false)
	a.decide(vip, now)
	if h := a.held[vip]; h == nil || h.probing || len(a.rising) != 1 || a.came[vip] != "b" {
		t.Errorf("it is not taken at once: %+v, from %q", h, a.came[vip])
	}
}

// A new address is probed, and left alone while a stranger has it.
func TestProbe(t *testing.T) {
	a := newTestAgent(t)
	now := time.Now()
	setAlive(a, "b", false)
	setAlive(a, "c", false)
	a.decide(vip, now)
	h := a.held[vip]
	if h == nil || !h.probing || len(a.rising) > 0 {
		t.Fatalf("a new address is not probed: %+v", h)
	}
	<-a.announcer.News()
	a.probed(News{Addr: vip, MAC: stranger, Interface: "eth0", Probe: true}, now)
	a.decide(vip, now)
	if h.probing || h.up || len(a.rising) > 0 || len(a.reporter.events) != 1 || a.reporter.events[0].Reason != string(lb.AddressConflict) {
		t.Errorf("a stranger's address: %+v, %d events", h, len(a.reporter.events))
	}
	a.decide(vip, now.Add(rivalRetry))
	if !h.probing {
		t.Fatal("it is not tried again")
	}
	<-a.announcer.News()
	a.probed(News{Addr: vip, Probe: true}, now)
	if h.rival != nil || len(a.rising) != 1 {
		t.Errorf("a free address is not taken: %+v", h)
	}
}

// A stranger who has turned out to be a node is forgiven.
func TestForgive(t *testing.T) {
	a := newTestAgent(t)
	a.held[vip] = &holding{rival: macs["b"], retry: time.Now().Add(time.Hour)}
	setAlive(a, "b", false)
	a.forgive(time.Now())
	if a.held[vip].rival == nil {
		t.Error("b is no member yet")
	}
	setAlive(a, "b", true)
	a.forgive(time.Now())
	if a.held[vip].rival != nil || !a.dirty[vip] {
		t.Error("b is still a rival")
	}
}

// Whom a node gives way to that hears another announce its address.
func TestSighted(t *testing.T) {
	for name, c := range map[string]struct {
		mac    net.HardwareAddr
		lost   string // a node that is no member
		since  time.Duration
		yields bool
		events int
	}{
		"a member":                       {mac: macs["b"], since: time.Hour},
		"a stranger":                     {mac: stranger, since: time.Hour, yields: true, events: 1},
		"a node that was lost":           {mac: macs["b"], lost: "b", since: time.Hour, yields: true},
		"a dead node whose fence stands": {mac: macs["b"], lost: "b", since: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAgent(t)
			now := time.Now()
			a.held[vip] = &holding{up: true, since: now.Add(-c.since), ifaces: []string{"eth0"}}
			if c.lost != "" {
				setAlive(a, c.lost, false)
			}
			a.sighted(vip, c.mac, "eth0", now)
			if yields := len(a.lowering) == 1; yields != c.yields || len(a.reporter.events) != c.events {
				t.Errorf("yields: %t, want %t; %d events", yields, c.yields, len(a.reporter.events))
			}
		})
	}
}

// A stranger that stays is reported once, not with every probe.
func TestTheSameStrangerIsReportedOnce(t *testing.T) {
	a := newTestAgent(t)
	now := time.Now()
	h := &holding{}
	a.held[vip] = h
	for i, c := range []struct {
		after  time.Duration
		mac    net.HardwareAddr
		events int
	}{{0, stranger, 1}, {rivalRetry, stranger, 1}, {2 * rivalRetry, net.HardwareAddr{2, 0, 0, 0, 0, 8}, 2}, {time.Hour, net.HardwareAddr{2, 0, 0, 0, 0, 8}, 3}} {
		a.concede(vip, h, c.mac, "eth0", now.Add(c.after))
		if n := len(a.reporter.events); n != c.events {
			t.Errorf("%d: %d events, want %d", i, n, c.events)
		}
	}
}

// What the kernel did not take is not up, and tried again.
func TestFailureIsTriedAgain(t *testing.T) {
	a := newTestAgent(t)
	now := time.Now()
	h := &holding{}
	a.held[vip] = h
	a.tables.state.VIPs[vip] = nft.VIP{Interfaces: []string{"eth0"}} // without a fence
	if a.raise(vip, h, now) || h.up {
		t.Fatal("it is up")
	}
	if a.take(vip, h, 1, "b", now); len(a.rising) > 0 {
		t.Error("tried again at once")
	}
	h.retry = now.Add(-time.Second)
	if a.retryFailed(); !a.dirty[vip] {
		t.Error("not looked at again")
	}
	if a.take(vip, h, 1, "b", now); len(a.rising) != 1 {
		t.Error("not tried again")
	}
	a.tables.state.VIPs[vip] = nft.VIP{}
	if a.raise(vip, h, now) || h.up {
		t.Error("it is up on no interface")
	}
}

// A node takes nothing on an interface on which it was just not heard.
func TestSettle(t *testing.T) {
	a := newTestAgent(t)
	now := time.Now()
	a.had[vip] = "a"
	setAlive(a, "b", false)
	setAlive(a, "c", false)
	down := []link.Link{{Name: "eth0"}}
	a.settle(now, risen(down, a.links)...)
	a.decide(vip, now)
	if len(a.held) > 0 || !a.postponed {
		t.Fatal("it was taken at once")
	}
	if a.resume(); !a.allDirty {
		t.Error("it is not looked at again")
	}
	a.decide(vip, now.Add(settlePause))
	if len(a.rising) != 1 {
		t.Error("it was not taken later")
	}
	if got := risen(a.links, a.links); got != nil {
		t.Errorf("%v was up all the time", got)
	}
	replaced := []link.Link{{Name: "eth0", Index: 7, Up: true}}
	if got := risen(a.links, replaced); len(got) != 1 {
		t.Error("a card that was replaced is another one")
	}
}

// What each task of the election comes to.
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		claims          []member.Claim
		holding         *holding
		change          func(*agent)
		rising, falling int
	}{
		"kept":                     {holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}}},
		"on another interface now": {holding: &holding{epoch: 1, up: true, ifaces: []string{"eth9"}}, rising: 1},
		"handed over: not before the other is up": {
			claims:  []member.Claim{claim("b", 1, false, member.Held)},
			holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}},
			change:  func(a *agent) { a.voters[0].Leaving = true }},
		"handed over": {
			claims:  []member.Claim{claim("b", 2, true, member.Held)},
			holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}},
			change:  func(a *agent) { a.voters[0].Leaving = true }, falling: 1},
		"another has the higher epoch": {
			claims:  []member.Claim{claim("b", 2, true, member.Held)},
			holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}}, falling: 1},
		"no interface is left": {
			holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}},
			change:  func(a *agent) { a.links[0].Up = false }, falling: 1},
		"cut off from all": {
			holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}},
			change:  func(a *agent) { a.isolated = true }, falling: 1},
		"it is a node's": {
			holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}},
			change:  func(a *agent) { a.directory.setNodes(sets.New(vip)) }, falling: 1},
		"no Service has it any more": {
			holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}},
			change: func(a *agent) {
				a.directory.setService(types.NamespacedName{Namespace: "shop", Name: "web"}, nil)
			}, falling: 1},
		"nothing serves": {
			holding: &holding{epoch: 1, up: true, ifaces: []string{"eth0"}},
			change: func(a *agent) {
				a.directory.setSlice(types.NamespacedName{Namespace: "shop", Name: "web-1"}, nil)
			}, falling: 1},
	} {
		t.Run(name, func(t *testing.T) {
			a := newTestAgent(t)
			a.claims[member.Addr(vip)] = c.claims
			a.held[vip] = c.holding
			if c.change != nil {
				c.change(a)
			}
			a.decide(vip, time.Now())
			if len(a.rising) != c.rising || len(a.falling) != c.falling {
				t.Errorf("rising %v, falling %v", a.rising, a.falling)
			}
		})
	}
}
