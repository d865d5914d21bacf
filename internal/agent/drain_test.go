package agent

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/agent/write"
	"fairlead.io/internal/lb"
)

// Why a node is the last choice, and for how long it goes on.
func TestOverdue(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		drains []drain
		over   bool
		next   time.Time
	}{
		"nothing":      {drains: []drain{{}, {}}},
		"a moment ago": {drains: []drain{{ago(1), 5 * time.Second}}, next: now.Add(4 * time.Second)},
		"long enough":  {drains: []drain{{ago(5), 5 * time.Second}}, over: true},
		"both":         {drains: []drain{{ago(5), 5 * time.Second}, {ago(1), 2 * time.Second}}, over: true, next: now.Add(time.Second)},
		"the earlier":  {drains: []drain{{ago(0), 30 * time.Second}, {ago(1), 2 * time.Second}}, next: now.Add(time.Second)},
	} {
		if over, next := overdue(now, c.drains...); over != c.over || !next.Equal(c.next) {
			t.Errorf("%s: %t, next at %v", name, over, next)
		}
	}
}

// A node that is about to go has routers prefer others, then withdraws, then ends its sessions;
// all begins again if it stays.
func TestRoutesOfADepartingNode(t *testing.T) {
	plain := "tor " + vip.String() + "/32"
	for name, depart := range map[string]func(*fakeCluster, *running){
		"out of service": func(c *fakeCluster, r *running) {
			n := nodeObject("a", "192.0.2.1")
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
			c.put(n)
			r.changed(n)
		},
		"shutting down": func(c *fakeCluster, r *running) {
			n := nodeObject("a", "192.0.2.1")
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "node is shutting down"}}
			c.put(n)
			r.changed(n)
		},
		"deleted": func(c *fakeCluster, r *running) {
			n := nodeObject("a", "192.0.2.1")
			c.delete(n)
			r.changed(n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newCluster()
				r, routers := startRouted(t, cluster)
				expectRoutes(t, routers, plain)
				depart(cluster, r)
				after(time.Second)
				expectRoutes(t, routers, plain+" draining")
				after(drainTime - time.Second + renewPeriod)
				expectRoutes(t, routers, "")
				if len(routers.sessions()) != 1 {
					t.Error("sessions ended before routers could forget the node")
				}
				after(withdrawTime + renewPeriod)
				if got := routers.sessions(); len(got) > 0 {
					t.Errorf("there still are sessions: %v", got)
				}
				stays := nodeObject("a", "192.0.2.1")
				cluster.put(stays)
				r.changed(stays)
				after(time.Second)
				expectRoutes(t, routers, plain)
				if len(routers.sessions()) != 1 {
					t.Error("no sessions, although the node stays")
				}
			})
		})
	}
}

// The last node that has a route keeps it, whatever is about to happen to it.
func TestLastNodeKeepsItsRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster()
		r, routers := startRouted(t, cluster)
		both := func(change func(*corev1.Node)) {
			for i, name := range []string{"a", "b"} {
				n := nodeObject(name, []string{"192.0.2.1", "192.0.2.2"}[i])
				change(n)
				cluster.put(n)
				r.changed(n)
			}
		}
		both(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}} })
		after(time.Minute)
		expectRoutes(t, routers, "tor "+vip.String()+"/32 draining")
		if len(routers.sessions()) != 1 {
			t.Error("the session ended")
		}
	})
}

// A kube-proxy that is no longer healthy here has the node drained, and withdrawn if another
// node has a healthy one; if none has, nobody withdraws.
func TestRoutesWithoutKubeProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, routers := startRouted(t, newCluster())
		plain := "tor " + vip.String() + "/32"
		r.proxyIs(proxyUnhealthy)
		after(time.Second)
		expectRoutes(t, routers, plain+" draining")
		after(proxyDrain)
		expectRoutes(t, routers, "")
		r.group.change(func() {
			m := r.group.members["b"]
			m.Eligible, m.LastResort = false, true
			r.group.members["b"] = m
		})
		after(time.Second)
		expectRoutes(t, routers, plain+" draining")
		after(time.Minute)
		expectRoutes(t, routers, plain+" draining")
		r.proxyIs(proxyHealthy)
		after(time.Second)
		expectRoutes(t, routers, plain)
	})
}

// proxyIs changes what is known of kube-proxy on this node.
func (r *running) proxyIs(state proxyState) {
	r.proxy.mu.Lock()
	r.proxy.record = proxyRecord{state: state, was: true}
	r.proxy.mu.Unlock()
	write.Wake(r.poke)
}

// onlyOn selects nodes by their names.
func onlyOn(names ...string) []labels.Selector {
	var out []labels.Selector
	for _, name := range names {
		out = append(out, labels.SelectorFromSet(labels.Set{corev1.LabelHostname: name}))
	}
	return out
}

// A node leaves an address only to nodes that announce it to the same routers.
func TestRoutesAreLeftToNodesOfTheSameRouter(t *testing.T) {
	plain := "one " + vip.String() + "/32 draining"
	router := netip.MustParseAddr("192.0.2.254")
	toAll := []lb.Route{plainRoute()}
	for name, c := range map[string]struct {
		routes []lb.Route
		peers  []lb.Peer
		want   string
	}{
		"only this node has the peer":    {toAll, []lb.Peer{{Name: "one", NodeSelectors: onlyOn("a")}}, plain},
		"both nodes have it":             {toAll, []lb.Peer{{Name: "one", NodeSelectors: onlyOn("a", "b")}}, ""},
		"the other has another router":   {toAll, []lb.Peer{{Name: "one", NodeSelectors: onlyOn("a")}, {Name: "two", NodeSelectors: onlyOn("b")}}, plain},
		"one router, a peer per node":    {toAll, []lb.Peer{{Name: "one", Address: router, NodeSelectors: onlyOn("a")}, {Name: "two", Address: router, NodeSelectors: onlyOn("b")}}, ""},
		"one of two routers has another": {toAll, []lb.Peer{{Name: "one"}, {Name: "two", NodeSelectors: onlyOn("a")}}, plain + ", two " + vip.String() + "/32 draining"},
		"routes of the other name another peer": {[]lb.Route{
			plainRoute(func(r *lb.Route) { r.Peers, r.NodeSelectors = []string{"one"}, onlyOn("a") }),
			plainRoute(func(r *lb.Route) { r.Peers, r.NodeSelectors = []string{"two"}, onlyOn("b") }),
		}, []lb.Peer{{Name: "one"}, {Name: "two"}}, plain},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newCluster()
				for i, name := range []string{"a", "b"} {
					n := nodeObject(name, []string{"192.0.2.1", "192.0.2.2"}[i])
					n.Labels = map[string]string{corev1.LabelHostname: name}
					cluster.put(n)
				}
				r, routers := startRouted(t, cluster)
				r.poolsAre(routedPools(c.routes, c.peers...))
				r.proxyIs(proxyUnhealthy)
				after(time.Minute)
				expectRoutes(t, routers, c.want)
				r.proxyIs(proxyHealthy)
				after(time.Second)
				n := nodeObject("a", "192.0.2.1")
				n.Labels = map[string]string{corev1.LabelHostname: "a"}
				n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
				cluster.put(n)
				r.changed(n)
				after(time.Minute)
				expectRoutes(t, routers, c.want)
			})
		})
	}
}

// Of nodes whose agents are not heard nobody knows whether their kube-proxy is healthy: a node
// leaves nothing to them because its own is not.
func TestRoutesWithoutKubeProxyAndGossip(t *testing.T) {
	draining := "tor " + vip.String() + "/32 draining"
	t.Run("no gossip", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cluster := newCluster()
			r, routers := startRouted(t, cluster)
			synctest.Wait()
			r.agent.group, r.membersDirty = nil, true
			r.proxyIs(proxyUnhealthy)
			after(time.Minute)
			expectRoutes(t, routers, draining)
			// What the API server says of nodes still counts for one that is about to go.
			n := nodeObject("a", "192.0.2.1")
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService}}
			cluster.put(n)
			r.changed(n)
			after(time.Minute)
			expectRoutes(t, routers, "")
		})
	})
	t.Run("alone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, routers := startRouted(t, newCluster())
			r.group.die("b")
			after(10 * time.Second)
			r.proxyIs(proxyUnhealthy)
			after(time.Minute)
			synctest.Wait()
			if !r.presumed["b"] {
				t.Error("node b is not presumed to be alive")
			}
			expectRoutes(t, routers, draining)
		})
	})
}

// With policy Local, routers leave a node before its last pod has ended.
func TestRoutesFollowPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster()
		web := serviceOf("web", 1, "", 80, vip.String())
		web.Spec.Type, web.Spec.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
		cluster.put(web)
		r, routers := startRouted(t, cluster)
		plain := "tor " + vip.String() + "/32"
		pods := func(ending string, on ...string) {
			slice := sliceOf("web", "web-1", on...)
			for i := range slice.Endpoints {
				if e := &slice.Endpoints[i]; *e.NodeName == ending {
					e.Conditions = discoveryv1.EndpointConditions{Ready: ptr.To(false), Serving: ptr.To(true), Terminating: ptr.To(true)}
				}
			}
			cluster.put(slice)
			r.changed(slice)
			after(time.Second)
		}
		pods("", "a")
		expectRoutes(t, routers, plain)
		pods("a", "a") // there is nowhere to go
		expectRoutes(t, routers, plain)
		pods("a", "a", "b")
		expectRoutes(t, routers, plain+" draining")
		after(moveDrain)
		expectRoutes(t, routers, "")
		pods("", "a", "b")
		expectRoutes(t, routers, plain)
		pods("a", "a", "b")
		expectRoutes(t, routers, plain+" draining")
		pods("", "b")
		expectRoutes(t, routers, "")
	})
}

// A new Service is announced when kube-proxy here has its rules.
func TestRoutesWaitForRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, rules, routers := newCluster(), &fakeRules{}, &fakeRouters{}
		r := start(t, cluster, []string{"b"}, func(p *parts) { p.routers, p.forwards = routers, rules.read })
		gone := sliceOf("web", "web-1")
		here := slices.Clone(cluster.objects)[slices.IndexFunc(cluster.objects, func(o client.Object) bool { return kindOf(o) == "EndpointSlice" })]
		r.poolsAre(routedPools([]lb.Route{plainRoute()}, lb.Peer{Name: "tor"}))
		rules.set(vip, true)
		after(time.Second)
		expectRoutes(t, routers, "tor "+vip.String()+"/32")
		cluster.put(gone)
		r.changed(gone)
		rules.set(vip, false)
		after(time.Second)
		expectRoutes(t, routers, "")
		cluster.put(here)
		r.changed(here)
		after(time.Second)
		expectRoutes(t, routers, "")
		rules.set(vip, true)
		after(time.Second)
		expectRoutes(t, routers, "tor "+vip.String()+"/32")
		rules.set(vip, false)
		after(time.Minute)
		expectRoutes(t, routers, "tor "+vip.String()+"/32")
	})
}
