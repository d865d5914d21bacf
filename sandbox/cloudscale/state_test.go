package cloudscale_test

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/sandbox/cloudscale"
)

func TestChangingRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloudscale.Options{Creating: 10 * time.Second, Changing: 2 * time.Second})
		lb := c.newLB()
		path := "load-balancers/" + id(lb)
		status := func(want string) {
			t.Helper()
			if got := c.must("GET", path, nil)["status"]; got != want {
				t.Errorf("status %v, want %s", got, want)
			}
		}
		status("changing")
		pool := object{"name": "p", "load_balancer": id(lb), "algorithm": "round_robin", "protocol": "tcp"}
		c.refused("POST", "load-balancers/pools", pool, 400, "detail", "being changed")
		c.refused("DELETE", path, nil, 400, "detail", "being changed")
		<-time.After(10 * time.Second)
		status("running")
		c.must("POST", "load-balancers/pools", pool)
		c.refused("POST", "load-balancers/pools", pool, 400, "detail", "being changed")
		c.refused("PATCH", path, object{"name": "x"}, 400, "detail", "being changed")
		c.refused("DELETE", path, nil, 400, "detail", "being changed")
		<-time.After(time.Second)
		status("changing")
		<-time.After(time.Second)
		c.must("PATCH", path, object{"name": "x"})
		status("changing")
		c.Settle()
		c.must("DELETE", path, nil)
	})
}

// Changes of one load balancer happen one after the other; those of another do
// not wait for them.
func TestChangingWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloudscale.Options{Creating: time.Second, Changing: 2 * time.Second, Busy: cloudscale.BusyWaits})
		first, second := c.newLB(), c.newLB()
		pool := object{"name": "p", "load_balancer": id(first), "algorithm": "round_robin", "protocol": "tcp"}
		c.refused("POST", "load-balancers/pools", pool, 400, "detail", "being changed")
		<-time.After(time.Second)
		start := time.Now()
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() { c.must("POST", "load-balancers/pools", pool) })
		}
		wait.Go(func() {
			c.must("PATCH", "load-balancers/"+id(second), object{"name": "x"})
			if took := time.Since(start); took != 0 {
				t.Errorf("the other load balancer waited %v", took)
			}
		})
		wait.Wait()
		if took := time.Since(start); took != 8*time.Second {
			t.Errorf("five changes took %v, want 8s", took)
		}
		if n := len(c.Pools()); n != 5 {
			t.Errorf("%d pools", n)
		}
		if log := c.Log(); log[len(log)-1].Took != 8*time.Second {
			t.Errorf("the last took %v", log[len(log)-1].Took)
		}
	})
}

func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, quick)
		lb := c.newLB()
		pool := c.newPool(lb, "tcp")
		check := func(wantLB string, wantMembers ...string) {
			t.Helper()
			if got := c.must("GET", "load-balancers/"+id(lb), nil)["status"]; got != wantLB {
				t.Errorf("load balancer is %v, want %s", got, wantLB)
			}
			for i, m := range c.Members(id(pool)) {
				if m.MonitorStatus != wantMembers[i] {
					t.Errorf("member %d is %s, want %s", i, m.MonitorStatus, wantMembers[i])
				}
			}
		}
		check("error") // a pool without members
		first, second := c.newMember(pool, "10.0.0.11"), c.newMember(pool, "10.0.0.12")
		check("running", "no_monitor", "no_monitor")
		monitor := c.newMonitor(pool, "tcp") // every 2 s; up after 2, down after 3
		check("running", "changing", "changing")
		<-time.After(4 * time.Second)
		check("running", "up", "up")
		c.SetReachable(netip.MustParseAddr("10.0.0.11"), false)
		check("running", "up", "up")
		<-time.After(6 * time.Second)
		check("degraded", "down", "up")
		c.SetReachable(netip.MustParseAddr("10.0.0.12"), false)
		c.Settle()
		check("error", "down", "down")
		c.SetReachable(netip.MustParseAddr("10.0.0.12"), true)
		check("error", "down", "down")
		<-time.After(4 * time.Second)
		check("degraded", "down", "up")
		c.must("PATCH", "load-balancers/pools/"+id(pool)+"/members/"+id(first), object{"enabled": false})
		check("running", "unknown", "up")
		c.must("DELETE", "load-balancers/pools/"+id(pool)+"/members/"+id(second), nil)
		check("running", "unknown")
		c.must("DELETE", "load-balancers/health-monitors/"+id(monitor), nil)
		check("running", "no_monitor")
	})
}

func TestWhatGoesWithAPool(t *testing.T) {
	for _, keep := range []bool{false, true} {
		o := quick
		o.KeepListeners = keep
		c := newCloud(t, o)
		lb := c.newLB()
		pool, other := c.newPool(lb, "tcp"), c.newPool(lb, "udp")
		l := c.newListener(pool, "tcp", 80)
		c.newListener(other, "udp", 80)
		c.newMember(pool, "10.0.0.11")
		c.newMonitor(pool, "tcp")
		c.must("DELETE", "load-balancers/pools/"+id(pool), nil)
		if len(c.Members("")) != 0 || len(c.HealthMonitors()) != 0 {
			t.Error("members and monitors are left")
		}
		left := c.list("load-balancers/listeners")
		switch {
		case !keep && len(left) != 1:
			t.Errorf("listeners left: %v", left)
		case keep && (len(left) != 2 || id(left[0]) != id(l) || left[0]["pool"] != nil || left[0]["load_balancer"] == nil):
			t.Errorf("listeners left: %v", left)
		}
		c.must("DELETE", "load-balancers/"+id(lb), nil)
		if len(c.Pools())+len(c.Listeners()) != 0 {
			t.Error("something outlives its load balancer")
		}
	}
}

func TestTheSameSeedGivesTheSame(t *testing.T) {
	a, b := newCloud(t, quick), newCloud(t, quick)
	if a.node.UUID != b.node.UUID || id(a.newLB()) != id(b.newLB()) {
		t.Error("two simulators with one seed differ")
	}
	o := quick
	o.Seed = 7
	if other := newCloud(t, o); other.node.UUID == a.node.UUID {
		t.Error("another seed gives the same")
	}
}
