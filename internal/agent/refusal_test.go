package agent

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// A kernel that does not take an address says so to the others, one of which takes it.
// It is asked again from time to time.
func TestLoopTellsThatItsKernelRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		refuses.Store(true)
		r := start(t, newCluster(), []string{"b"}, func(p *parts) {
			p.kernel.(*link.Fake).Fail = func(verb, _ string, _ netip.Addr) error {
				if verb == "add" && refuses.Load() {
					return link.ErrOccupied
				}
				return nil
			}
		})
		claimedBy(r, "a")
		r.group.claim(vip)
		after(peersPatience + maxFailures*failureRetry + 2*time.Second)
		c, ok := r.group.own(vip)
		if !ok || c.Up || !c.Refused {
			t.Fatalf("the others do not know: %+v, %t", c, ok)
		}
		same(t, "events", r.events(), "[AddressRefused]")
		r.group.claim(vip, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: c.Epoch + 1, Up: true})
		after(3 * refusalRetry)
		r.has("b has it", false)
		same(t, "events", r.events(), "[]")

		// b is away: a kernel that takes it now is found.
		refuses.Store(false)
		r.group.claim(vip)
		after(2 * refusalRetry)
		r.has("taken after all", true)
		if c, _ := r.group.own(vip); c.Refused {
			t.Error("the claim still says that the kernel refuses")
		}
	})
}

// What the kernel of another node refuses is taken by this one, which is not preferred.
func TestLoopTakesWhatAnotherKernelRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, a := newCluster(), nodeObject("a", "192.0.2.1")
		a.Spec.Unschedulable = true
		cluster.put(a)
		r := start(t, cluster, []string{"b"}, nil)
		after(5 * time.Second)
		r.has("b is preferred", false)
		r.group.claim(vip, member.Claim{Key: member.Addr(vip), Node: "b", Epoch: 1, Refused: true})
		after(time.Second)
		r.has("b cannot have it", true)
	})
}

// A fence that cannot be renewed, for whatever reason, expires: the node gives up what
// is behind it, and lets others have it.
func TestLoopFenceIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		r := start(t, newCluster(), nil, func(p *parts) {
			p.tables.(*nft.Fake).Fail = func(verb string) error {
				if broken.Load() && (verb == "renew" || verb == "grant") {
					return errors.New("operation not permitted")
				}
				return nil
			}
		})
		after(5 * time.Second)
		r.has("taken", true)
		broken.Store(true)
		after(nft.FenceTime / 2)
		if c, _ := r.group.own(vip); !c.Up {
			t.Error("given up although the fence stands")
		}
		after(nft.FenceTime)
		if c, _ := r.group.own(vip); c.Up || len(r.kernel.Ours()) > 0 {
			t.Errorf("still claimed: %+v, %v", c, r.kernel.Ours())
		}
		after(10 * time.Second)
		if c, _ := r.group.own(vip); !c.Refused {
			t.Errorf("the others are not told: %+v", c)
		}
		broken.Store(false)
		after(2 * refusalRetry)
		r.has("repaired", true)
	})
}

// One interface whose fence cannot be renewed does not end that of another.
func TestOneFenceOfTwo(t *testing.T) {
	a := newTestAgent(t)
	now := time.Now()
	fake := &picky{Tables: a.tables.nft, bad: "eth1"}
	a.tables.nft = fake
	for _, iface := range []string{"eth0", "eth1"} {
		a.tables.grant(iface, now)
	}
	a.tables.stands["eth1"] = now.Add(-time.Millisecond)
	used := map[string]bool{"eth0": true, "eth1": true}
	same(t, "lost", a.tables.renew(used), "[eth1]")
	if !a.tables.fences["eth0"] || a.tables.fences["eth1"] {
		t.Errorf("fences %v", a.tables.fences)
	}
}

// picky does not renew the fence of one interface.
type picky struct {
	Tables
	bad string
}

func (p *picky) Renew(ifaces []string) ([]string, error) {
	for _, iface := range ifaces {
		if iface == p.bad {
			return nil, errors.New("device or resource busy")
		}
	}
	return p.Tables.Renew(ifaces)
}
