package agent

import (
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

var (
	gateway    = netip.MustParseAddr("192.0.2.254")
	gatewayMAC = net.HardwareAddr{2, 0, 0, 0, 0, 0xfe}
)

// startPair runs the loop of node a, with a gateway on its LAN, where owner has the
// address.
func startPair(t *testing.T, owner string) *running {
	t.Helper()
	var claims []member.Claim
	if owner == "b" {
		claims = []member.Claim{{Key: member.Addr(vip), Node: "b", Epoch: 4, Up: true}}
	}
	r := start(t, newCluster(), []string{"b"}, nil, claims...)
	r.kernel.SetHosts(map[string][]link.Host{"eth0": {{Addr: gateway, MAC: gatewayMAC, Gateway: true}}})
	r.answers(gateway, gatewayMAC)
	if owner == "a" {
		claimedBy(r, "a")
		after(5 * time.Second)
		b := nodeObject("b", "192.0.2.2")
		r.cluster.put(b)
		r.changed(b)
	}
	after(5 * time.Second)
	r.has("before", owner == "a")
	r.events()
	return r
}

// answers has a host answer for an address from now on, or none.
func (r *running) answers(addr netip.Addr, mac net.HardwareAddr) {
	r.announcer.mu.Lock()
	defer r.announcer.mu.Unlock()
	r.announcer.hosts[addr] = mac
}

// unplug has nobody answer any more.
func (r *running) unplug(yes bool) {
	r.announcer.mu.Lock()
	defer r.announcer.mu.Unlock()
	r.announcer.silent = yes
}

// loseAPI has the API server not answer from now on.
func (r *running) loseAPI() {
	r.api.away.Store(true)
	r.poke <- struct{}{}
}

// reminders is how often everything was announced again.
func (r *running) reminders() int {
	r.announcer.mu.Lock()
	defer r.announcer.mu.Unlock()
	return r.announcer.heard
}

// The survivor of two takes over within a second, with and without the API server.
func TestAloneTakesOver(t *testing.T) {
	for name, lose := range map[string]func(*running){"": func(*running) {}, "without the API server": (*running).loseAPI} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startPair(t, "b")
				r.group.die("b")
				lose(r)
				after(600 * time.Millisecond)
				r.has("taken over", true)
				if c, _ := r.group.own(vip); c.Epoch != 5 {
					t.Errorf("claimed with epoch %d, want 5", c.Epoch)
				}
				same(t, "probed", len(r.announcer.probes), 0)
				same(t, "events", r.events(), "[Moved]")
				after(time.Minute)
				r.has("kept", true)
			})
		})
	}
}

// Without a witness this node may be the one that is cut off: it waits until the API
// server says that the other is not Ready.
func TestAloneWithoutWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "b")
		r.answers(gateway, nil)
		r.group.die("b")
		after(30 * time.Second)
		r.has("nobody answers", false)
		same(t, "reminders", r.reminders(), 0)
		b := nodeObject("b", "192.0.2.2")
		b.Status.Conditions[0].Status = corev1.ConditionUnknown
		r.cluster.put(b)
		r.changed(b)
		after(time.Second)
		r.has("b is not Ready", true)
	})
}

// A witness that answers late counts.
func TestAloneWitnessComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "b")
		r.unplug(true)
		r.group.die("b")
		after(5 * time.Second)
		r.has("nobody answers", false)
		r.unplug(false)
		after(2 * surveyPeriod)
		r.has("the gateway answers", true)
	})
}

// The lost node itself is no witness, whatever address it answers for.
func TestAloneLostNodeIsNoWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "b")
		r.answers(gateway, macs["b"])
		r.group.die("b")
		after(30 * time.Second)
		r.has("only b answers, for another address", false)
	})
}

// The kernel of a node whose agent has crashed answers until its fence expires. It is
// followed then, at once.
func TestAloneFenceRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "b")
		r.answers(vip, macs["b"])
		r.group.die("b")
		after(nft.FenceTime - 300*time.Millisecond)
		r.has("its kernel answers", false)
		r.answers(vip, nil)
		after(600 * time.Millisecond)
		r.has("taken over", true)
		same(t, "events", r.events(), "[Moved]")
	})
}

// A lost node that answers lives: it keeps what it has, and that is no conflict. When it
// falls silent it is followed.
func TestAloneLostNodeLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "b")
		r.answers(vip, macs["b"])
		r.group.die("b")
		after(time.Minute)
		r.has("b answers", false)
		same(t, "events", r.events(), "[]")
		if c := r.reporter.status.Conditions; len(c) == 0 || c[0].Reason != "AgentReady" {
			t.Errorf("conditions %v", c)
		}
		r.answers(vip, nil)
		after(2 * surveySeldom)
		r.has("b is silent", true)
	})
}

// What a living node does not answer for, although it should, is taken after a while.
func TestAloneTakesWhatTheLivingDoesNotHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "b")
		other := netip.MustParseAddr("192.0.2.11")
		api := serviceOf("api", 2, "", 80, other.String())
		api.Spec.Type = corev1.ServiceTypeLoadBalancer
		slice := sliceOf("api", "api-1", "b")
		r.answers(other, macs["b"])
		r.group.claim(other, member.Claim{Key: member.Addr(other), Node: "b", Epoch: 1, Up: true})
		r.cluster.put(api, slice)
		r.changed(api, slice)
		after(time.Second)
		r.group.die("b")
		after(2 * time.Second)
		r.has("b may be about to take it", false)
		after(10 * time.Second)
		r.has("b does not answer for it", true)
		if c, ok := r.group.own(other); ok {
			t.Errorf("b answers for %s, and yet it is claimed: %v", other, c)
		}
	})
}

// b does not hear a, and so takes a's address, too. a hears b and leaves everything to
// it, as long as b says that it is there.
func TestAloneIsNotHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "a")
		r.group.die("b")
		after(600 * time.Millisecond)
		r.has("a does not know yet", true)
		if r.reminders() == 0 {
			t.Error("a node that is alone does not say what it has")
		}
		r.announcer.say(News{Addr: vip, MAC: macs["b"], Interface: "eth0"})
		synctest.Wait()
		r.has("b announces it", false)
		for range 10 {
			after(remindPeriod)
			r.announcer.say(News{Addr: vip, MAC: macs["b"], Interface: "eth0"})
		}
		r.has("b reminds", false)
		same(t, "events", r.events(), "[]")
		after(heardFor + rivalRetry + 2*surveySeldom)
		r.has("b is silent", true)
	})
}

// A lost node that asks for addresses lives, although it does not hear this one's
// questions, also if its kubelet is late and it is not Ready. When it falls silent it is
// followed.
func TestAloneHearsQuestions(t *testing.T) {
	for _, ready := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionUnknown} {
		t.Run("Ready is "+string(ready), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startPair(t, "b")
				r.group.die("b")
				after(100 * time.Millisecond)
				r.announcer.say(News{Addr: vip, MAC: macs["b"], Interface: "eth0", Asks: true})
				synctest.Wait()
				b := nodeObject("b", "192.0.2.2")
				b.Status.Conditions[0].Status = ready
				r.cluster.put(b)
				r.changed(b)
				after(10 * time.Second)
				r.has("b asks", false)
				after(heardFor)
				r.has("b is silent", true)
			})
		})
	}
}

// What a kernel says whose agent is dead, before its fence expires, moves nothing.
func TestAloneIgnoresADeadAgentsKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "b")
		r.group.die("b")
		after(600 * time.Millisecond)
		r.has("taken over", true)
		r.announcer.say(News{Addr: vip, MAC: macs["b"], Interface: "eth0"})
		synctest.Wait()
		r.has("b's kernel asks somebody in the name of the address", true)
		after(nft.FenceTime)
		r.announcer.say(News{Addr: vip, MAC: macs["b"], Interface: "eth0"})
		synctest.Wait()
		r.has("b lives", false)
	})
}

// A node that has lost all others and the API server keeps what it has where a host
// answers, and gives it up where none does: then it is the one that is cut off.
func TestAloneKeepsWhatItHas(t *testing.T) {
	for name, witness := range map[string]bool{"with a witness": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startPair(t, "a")
				r.unplug(!witness)
				r.group.die("b")
				r.loseAPI()
				after(time.Minute)
				r.has("alone", witness)
				r.unplug(false)
				after(10 * time.Second)
				r.has("hosts answer", true)
			})
		})
	}
}

// A cluster of one node never withdraws: nobody else could answer.
func TestOneNodeNeverWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		r.has("taken", true)
		r.unplug(true)
		r.loseAPI()
		after(time.Minute)
		r.has("without the API server, and without any host", true)
		same(t, "surveys", r.announcer.asked, 0)
	})
}

// The other is back: everything is as if it had not been lost.
func TestAloneNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startPair(t, "b")
		meta := r.group.members["b"]
		r.group.die("b")
		after(time.Second)
		r.has("taken over", true)
		r.group.change(func() { r.group.members["b"] = meta; delete(r.group.died, "b") })
		r.group.claim(vip, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: 4, Up: false})
		after(5 * time.Second)
		asked := r.announcer.asked
		after(time.Minute)
		r.has("kept", true)
		same(t, "surveys", r.announcer.asked, asked)
	})
}

// That nobody answers for an address counts against a lost node only in rounds in a row
// in which it answers for others.
func TestSilenceCountsOnlyWhileOthersAreAnsweredFor(t *testing.T) {
	other := vip.Next()
	asked, nobody, others := []netip.Addr{vip, other}, map[netip.Addr]bool{}, map[netip.Addr]bool{other: true}
	seg := newSegment()
	for i, round := range []struct {
		living          map[netip.Addr]bool
		witness, fenced bool
		want            int
	}{
		{nobody, true, false, 0}, {nobody, true, false, 0},
		{others, true, false, 1}, {others, true, false, 2}, {others, true, true, 2},
		{nobody, true, false, 0}, {others, true, false, 1},
		{others, false, false, 0}, {others, true, false, 1},
		{map[netip.Addr]bool{vip: true}, true, false, 0},
	} {
		if seg.judge(asked, round.living, round.witness, round.fenced); seg.denied[vip] != round.want {
			t.Errorf("after round %d: %d, want %d", i, seg.denied[vip], round.want)
		}
	}
}

func TestSolitudeAllows(t *testing.T) {
	now := time.Now()
	one, two := []string{"eth0"}, []string{"eth0", "eth1"}
	witnessed := func(s *solitude, names ...string) {
		for _, name := range names {
			s.segments[name] = newSegment()
			s.segments[name].rounds = 1
		}
	}
	for name, c := range map[string]struct {
		build  func(*solitude)
		ifaces []string
		want   bool
	}{
		"nothing was asked yet":      {func(*solitude) {}, one, false},
		"no interface":               {func(s *solitude) { witnessed(s, "eth0") }, nil, false},
		"a witness, and nobody else": {func(s *solitude) { witnessed(s, "eth0") }, one, true},
		"a witness on one of two":    {func(s *solitude) { witnessed(s, "eth1") }, two, true},
		"a witness on another":       {func(s *solitude) { witnessed(s, "eth1") }, one, false},
		"the witness is silent now":  {func(s *solitude) { witnessed(s, "eth0"); s.segments["eth0"].missed = 1 }, one, false},
		"a lost node answers":        {func(s *solitude) { witnessed(s, "eth0"); s.segments["eth0"].living = true }, one, false},
		"a lost node answers on one": {func(s *solitude) { witnessed(s, two...); s.segments["eth1"].living = true }, two, false},
		"it was heard a moment ago":  {func(s *solitude) { witnessed(s, "eth0"); s.heard["b"] = now.Add(-time.Second) }, one, false},
		"it was heard, and does not hear the questions": {func(s *solitude) {
			witnessed(s, "eth0")
			s.heard["b"], s.segments["eth0"].silent[vip] = now, 9
		}, one, false},
		"it was heard long ago":         {func(s *solitude) { witnessed(s, "eth0"); s.heard["b"] = now.Add(-heardFor) }, one, true},
		"it was heard with the address": {func(s *solitude) { witnessed(s, "eth0"); s.seen[vip] = now; s.segments["eth0"].silent[vip] = 9 }, one, false},
		"it answers for the first time": {func(s *solitude) {
			witnessed(s, "eth0")
			s.heard["b"], s.segments["eth0"].living, s.segments["eth0"].silent[vip] = now, true, 9
		}, one, false},
		"it answers, but not for this": {func(s *solitude) {
			witnessed(s, "eth0")
			s.heard["b"], s.segments["eth0"].living, s.segments["eth0"].denied[vip] = now, true, silentRounds
		}, one, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSolitude()
			c.build(s)
			if got := s.allows(vip, c.ifaces, now); got != c.want {
				t.Errorf("allowed: %t, want %t", got, c.want)
			}
		})
	}
}
