package cloudscale

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/kubeapi"
	simulated "fairlead.io/sandbox/cloudscale"
)

// What cloudscale's own controller (1.3.0) needs of the same cloud: 71 calls and
// 18 s to create, 27 calls for a new node, 34 for a changed port.
func TestCalls(t *testing.T) {
	type change struct {
		name          string
		do            func(*account)
		calls, writes int
		most          time.Duration
	}
	for _, test := range []struct {
		name    string
		options simulated.Options
		changes []change
	}{
		{"changes wait for each other", simulated.Options{Busy: simulated.BusyWaits}, []change{
			// Two lists, three looks whether it is made, for nobody knows yet how long
			// that takes; 13 objects.
			{"create", func(*account) {}, 18, 13, 13 * time.Second},
			// Its server has to be found; two members.
			{"node added", func(c *account) { c.addNode() }, 3, 2, 2 * time.Second},
			{"port changed", func(c *account) { c.service.Spec.Ports[0].Port = 8080 }, 3, 2, 2 * time.Second},
			{"nothing", func(*account) {}, 1, 0, 0},
			// Members are looked at before they are drained, and deleted 20 s later.
			// By then what was read a minute ago is read again.
			{"node removed", func(c *account) { c.nodes = c.nodes[1:] }, 12, 4, 30 * time.Second},
			{"delete", func(c *account) { c.gone = true }, 1, 1, time.Second},
			{"deleted", func(*account) {}, 1, 0, 0},
		}},
		{"changes are refused meanwhile", simulated.Options{Busy: simulated.BusyRefuses}, []change{
			// Once it is refused; from then on we wait, and twice not long enough: it
			// could have become faster. It takes so long that servers are listed twice.
			{"create", func(*account) {}, 22, 16, 14 * time.Second},
			{"node added", func(c *account) { c.addNode() }, 3, 2, 3 * time.Second},
			{"port changed", func(c *account) { c.service.Spec.Ports[0].Port = 8080 }, 3, 2, 3 * time.Second},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(t, test.options, 3)
				for _, change := range test.changes {
					<-time.After(15 * time.Second) // the list of servers is too old by then
					c.sim.ResetLog()
					change.do(c)
					took := c.settle()
					if calls, writes := c.calls(); calls != change.calls || writes != change.writes || took > change.most {
						t.Errorf("%s: %d calls, %d of them writes, in %s; want %d and %d in %s\n%s", change.name, calls, writes, took, change.calls, change.writes, change.most, c.requests())
					}
				}
			})
		})
	}
}

// One listing of each kind, and one of the members of each pool, for all
// Services together.
func TestIdleResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, simulated.Options{Creating: -1, Changing: -1}, 3)
		const n = 100
		var all []*corev1.Service
		for i := range n {
			s := other(fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i)))
			all = append(all, s)
			c.service = s
			c.settle()
		}
		<-time.After(10 * time.Minute)
		for _, restart := range []bool{false, true} {
			if restart {
				c.restart()
			}
			c.sim.ResetLog()
			for _, s := range all {
				if out, err := c.backend.Sync(t.Context(), wantOf(s, c.nodes, all)); err != nil || out.Again != 0 || !out.Plan.Empty() {
					t.Fatalf("%s: %v, %+v", s.Name, err, out)
				}
			}
			want := map[simulated.Call]int{}
			for _, kind := range []simulated.Kind{simulated.LoadBalancers, simulated.Pools, simulated.Listeners, simulated.HealthMonitors, simulated.Servers} {
				want[simulated.Call{Method: "GET", Kind: kind}] = 1
			}
			want[simulated.Call{Method: "GET", Kind: simulated.Members}] = 2 * n
			if got := c.sim.Counts(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%v, want %v", got, want)
			}
			<-time.After(10 * time.Minute)
		}
	})
}

// However members change, there is always one that gets connections.
func TestNeverWithoutMembers(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*account)
	}{
		{"all nodes replaced", func(c *account) {
			c.nodes = nil
			c.addNode()
			c.addNode()
		}},
		{"node port changed", func(c *account) {
			for i := range c.service.Spec.Ports {
				c.service.Spec.Ports[i].NodePort++
			}
		}},
		{"traffic policy changed", func(c *account) { local(c.service) }},
		{"node excluded", func(c *account) { c.nodes[0].Labels[corev1.LabelNodeExcludeBalancers] = "" }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(t, simulated.Options{Busy: simulated.BusyWaits}, 2)
				c.settle()
				<-time.After(time.Minute)
				test.do(c)
				c.after = func() {
					for _, p := range c.sim.Pools() {
						if !c.works(p.UUID) {
							t.Errorf("pool %s has no member that works:\n%s", p.Name, c.requests())
						}
					}
				}
				took := c.settle()
				t.Logf("settled after %s", took)
				want := len(c.service.Spec.Ports) * len(wantsNodes(c))
				if got := c.sim.Members(""); len(got) != want {
					t.Errorf("%d members, want %d: %v", len(got), want, got)
				}
			})
		})
	}
}

// works says whether a pool has a member that gets connections. Where the
// monitor itself is new, members have no status for a moment.
func (c *account) works(pool string) bool {
	fresh := slices.ContainsFunc(c.sim.HealthMonitors(), func(m simulated.HealthMonitor) bool {
		return m.Pool == pool && time.Since(m.Created) < 10*time.Second
	})
	return slices.ContainsFunc(c.sim.Members(pool), func(m simulated.Member) bool {
		return m.Enabled && (m.MonitorStatus == "up" || m.MonitorStatus == "no_monitor" || fresh)
	})
}

func wantsNodes(c *account) []*corev1.Node {
	var out []*corev1.Node
	for _, n := range c.nodes {
		if kubeapi.Node(n).Receives {
			out = append(out, n)
		}
	}
	return out
}
