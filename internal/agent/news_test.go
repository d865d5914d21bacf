package agent

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
)

// Probes of many addresses end at the same moment: one turn of the loop takes all of
// them over, and the other agents are told once.
func TestProbesAreTakenOverTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 300
		cluster := newCluster()
		first := netip.MustParseAddr("192.0.2.11")
		for i, addr := 1, first; i < many; i, addr = i+1, addr.Next() {
			s := serviceOf(fmt.Sprintf("many-%d", i), 1, "", 80, addr.String())
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			cluster.put(s, sliceOf(s.Name, s.Name+"-1", "b"))
		}
		r := start(t, cluster, nil, func(p *parts) {
			f := p.announcer.(*fakeAnnouncer)
			f.commit = func() {
				if len(f.probes) == many {
					synctest.Wait() // all of them have ended, and wait to be heard
				}
			}
		})
		after(4100 * time.Millisecond) // it waits for others first
		r.has("the first", true)
		if n := len(r.group.mine); n != many {
			t.Errorf("%d of %d are claimed", n, many)
		}
		for _, c := range r.group.mine {
			if !c.Up {
				t.Errorf("%s is not up", c.Key)
			}
		}
		if r.group.published > 10 {
			t.Errorf("claims were published %d times", r.group.published)
		}
	})
}

// What another host says right after a probe is not lost.
func TestSightedWhileOthersAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, now := newTestAgent(t), time.Now()
		setAlive(a, "b", false)
		setAlive(a, "c", false)
		a.decide(vip, now)
		synctest.Wait() // the probe has ended
		f := a.announcer.(*fakeAnnouncer)
		go f.use(vip, stranger)
		synctest.Wait()
		a.hearAll(<-a.announcer.News(), now)
		a.apply(now)
		if h := a.held[vip]; h == nil || h.up || h.rival == nil || len(a.kernel.Ours()) > 0 {
			t.Errorf("the address is not left to the host that insists: %+v", h)
		}
		if len(a.reporter.events) == 0 || a.reporter.events[len(a.reporter.events)-1].Reason != string(lb.AddressConflict) {
			t.Errorf("nobody is told: %v", a.reporter.events)
		}
	})
}

// A LAN on which too much is said does not keep the loop from its other work.
func TestNewsAreTakenOverInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAgent(t)
		f := a.announcer.(*fakeAnnouncer)
		for range maxNews + 10 {
			go f.say(News{Addr: vip, MAC: stranger, Interface: "eth0", Asks: true})
		}
		synctest.Wait()
		a.hearAll(<-f.news, time.Now())
		left := 0
		for range 11 {
			select {
			case <-f.news:
				left++
			default:
			}
		}
		if left != 10 {
			t.Errorf("%d are left, want 10", left)
		}
	})
}
