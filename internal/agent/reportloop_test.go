package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// status returns what the Agent object is to say.
func (r *running) status() v1alpha1.AgentStatus {
	r.reporter.mu.Lock()
	defer r.reporter.mu.Unlock()
	return *r.reporter.status.DeepCopy()
}

// silentFor returns the reason for which an address is reported as unannounced, or "".
func (r *running) silentFor(addr netip.Addr) string {
	for _, u := range r.status().Unannounced {
		if u.Address == addr.String() {
			return u.Reason
		}
	}
	return ""
}

// others are nodes with agents, enough that three are few.
func others(c *fakeCluster, n int) (names []string) {
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		names = append(names, name)
		c.put(nodeObject(name, fmt.Sprintf("192.0.2.%d", 100+i)), &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return names
}

// A death changes what three agents report, and nothing that others do.
func TestLoopReportsDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster()
		names := others(cluster, 12)
		r := start(t, cluster, append(names, "b"), nil)
		after(5 * time.Second)
		var reported []string
		for _, name := range names {
			before := r.status()
			meta := r.group.members[name]
			r.group.die(name)
			after(time.Second)
			if lost := r.status().Lost; len(lost) > 0 {
				same(t, "lost", lost, []string{name})
				reported = append(reported, name)
			} else if len(changesOf(&before, ptrTo(r.status()))) > 0 {
				t.Errorf("the death of %s is another agent's to report, and changed %v", name, changesOf(&before, ptrTo(r.status())))
			}
			r.group.change(func() {
				r.group.members[name] = meta
				delete(r.group.died, name)
			})
			after(time.Second)
			if lost := r.status().Lost; len(lost) > 0 {
				t.Errorf("%v are back", lost)
			}
		}
		var want []string
		for _, name := range names {
			alive := append(slices.DeleteFunc(slices.Clone(names), func(x string) bool { return x == name }), "a", "b")
			if chosen("a", name, alive, deathReporters) {
				want = append(want, name)
			}
		}
		same(t, "deaths that a reports", reported, want)
		if len(reported) == 0 || len(reported) == len(names) {
			t.Errorf("%d of %d deaths are a's to report", len(reported), len(names))
		}

		// A node that is removed from the cluster is not lost any more.
		if len(reported) > 0 {
			r.group.die(reported[0])
			after(time.Second)
			gone := nodeObject(reported[0], "192.0.2.100")
			r.cluster.delete(gone)
			r.changed(gone)
			after(time.Second)
			same(t, "lost without its Node", r.status().Lost, "[]")
		}
	})
}

func ptrTo[T any](x T) *T { return &x }

// Without an endpoint an address is reported after a while, and not any more when one
// serves. While all is well, nothing is.
func TestLoopReportsNoEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(time.Minute)
		r.has("taken", true)
		same(t, "all is well", r.status().Unannounced, "[]")
		slice := sliceOf("web", "web-1")
		r.cluster.put(slice)
		r.changed(slice)
		after(endpointGrace - time.Second)
		same(t, "pods may be replaced", r.silentFor(vip), "")
		began := time.Now().Add(time.Second - endpointGrace)
		after(2 * time.Second)
		same(t, "no endpoint", r.silentFor(vip), lb.NoServingEndpoint)
		u := r.status().Unannounced[0]
		same(t, "Services, since", fmt.Sprint(u.Services, u.Since.Sub(began).Abs() <= time.Second), "[shop/web] true")
		slice = sliceOf("web", "web-1", "b")
		r.cluster.put(slice)
		r.changed(slice)
		after(time.Second)
		r.has("serves again", true)
		same(t, "serves again", r.silentFor(vip), "")
	})
}

// Where no node can announce an address, the reason names each node's obstacle; the
// interface says what is wrong with it.
func TestLoopReportsNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		down := eth0("a")
		down.Up = false
		r.kernel.SetLinks(down)
		after(2 * nodeGrace)
		same(t, "no node", r.silentFor(vip), lb.NotAnnounced)
		for _, want := range []string{"a has no interface for it that is up", "b does not answer"} {
			if text := r.status().Unannounced[0].Message; !strings.Contains(text, want) {
				t.Errorf("%q does not say %q", text, want)
			}
		}
		same(t, "interfaces", r.status().Interfaces, "[{eth0 false [192.0.2.1/24] down [] []}]")
		r.kernel.SetLinks(eth0("a"))
		after(5 * time.Second)
		same(t, "up again", r.silentFor(vip), "")
	})
}

// The node that should announce an address reports whose MAC uses it, and that its
// kernel refuses it.
func TestLoopReportsWhyItDoesNotAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accepts atomic.Bool
		r := start(t, newCluster(), nil, func(p *parts) {
			p.kernel.(*link.Fake).Fail = func(verb, _ string, _ netip.Addr) error {
				if verb == "add" && !accepts.Load() {
					return errors.New("no buffer space available")
				}
				return nil
			}
		})
		after(10 * time.Second)
		same(t, "the kernel refuses", r.silentFor(vip), lb.NotAnnounced)
		accepts.Store(true)
		after(2 * refusalRetry)
		r.has("taken", true)
		same(t, "taken", r.silentFor(vip), "")
		r.announcer.use(vip, stranger)
		after(time.Second)
		same(t, "conflict", r.silentFor(vip), lb.AddressConflict)
		if text := r.status().Unannounced[0].Message; !strings.Contains(text, stranger.String()) || !strings.Contains(text, "eth0 of node a") {
			t.Errorf("%q", text)
		}
		since := r.status().Unannounced[0].Since
		after(time.Minute)
		same(t, "still", r.status().Unannounced[0].Since, since)
		r.announcer.use(vip, nil)
		after(2 * rivalRetry)
		r.has("free again", true)
		same(t, "free again", r.status().Unannounced, "[]")
	})
}

// An address of a node is nobody's, and that is reported.
func TestLoopReportsAddressOfNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newCluster(), nil, nil)
		after(5 * time.Second)
		b := nodeObject("b", "192.0.2.2")
		b.Status.Addresses = append(b.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: vip.String()})
		r.cluster.put(b)
		r.changed(b)
		after(time.Second)
		same(t, "a node's", r.silentFor(vip), lb.AddressIsNode)
		b = nodeObject("b", "192.0.2.2")
		r.cluster.put(b)
		r.changed(b)
		after(5 * time.Second)
		same(t, "not any more", r.silentFor(vip), "")
	})
}

// An agent that is restarted goes on with what the former one has reported.
func TestLoopInheritsReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster()
		cluster.put(sliceOf("web", "web-1"))
		since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		cluster.put(&v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1alpha1.AgentStatus{
			Unannounced: []v1alpha1.Unannounced{{Address: vip.String(), Services: []string{"shop/web"}, Reason: string(lb.NoServingEndpoint), Since: since}},
			Lost:        []string{"b"},
		}})
		r := start(t, cluster, nil, nil)
		for range 10 {
			after(100 * time.Millisecond)
			same(t, "unannounced", r.silentFor(vip), lb.NoServingEndpoint)
			same(t, "since", r.status().Unannounced[0].Since.UTC(), since.UTC())
			same(t, "lost", r.status().Lost, "[b]")
		}
		r.group.change(func() { r.group.members["b"] = newFakeGroup("b").members["b"] })
		after(time.Second)
		same(t, "it is back", r.status().Lost, "[]")
	})
}

// The report has what the controller must give to no Service: addresses of the node,
// routers and name servers. What a Service publishes is not the node's, even if another
// program put it on an interface, and a name server of the cluster is not either.
func TestLoopReportsNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := newCluster()
		cluster.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "dns"}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.10"}}})
		r := start(t, cluster, nil, func(p *parts) { p.version = "v1.2.3" })
		r.around.mu.Lock()
		r.around.gateways, r.around.nameServers = addrs("192.0.2.254"), addrs("10.96.0.10", "192.0.2.53")
		r.around.mu.Unlock()
		after(5 * time.Second)
		s := r.status()
		same(t, "status", fmt.Sprintf("%s %s %v %v %v", s.Version, s.KubeProxy, s.Gateways, s.NameServers, s.Interfaces), "v1.2.3 Absent [192.0.2.254] [192.0.2.53] [{eth0 true [192.0.2.1/24]  [IPv4 IPv6] []}]")
		l := eth0("a")
		l.Prefixes = append(l.Prefixes, netip.MustParsePrefix("192.0.2.77/32"))
		r.kernel.SetLinks(l)
		after(time.Second)
		same(t, "a second address", r.status().Interfaces[0].Addresses, "[192.0.2.1/24 192.0.2.77/32]")
		other := serviceOf("other", 1, "", 80, "192.0.2.77")
		other.Spec.LoadBalancerClass = ptrTo("example.com/other")
		r.cluster.put(other)
		r.changed(other)
		after(time.Second)
		same(t, "another load balancer's", r.status().Interfaces[0].Addresses, "[192.0.2.1/24]")
		r.cluster.delete(other)
		r.changed(other)
		after(time.Second)
		same(t, "the node's", r.status().Interfaces[0].Addresses, "[192.0.2.1/24 192.0.2.77/32]")
	})
}

// An agent that has lost all of several others may be the one that is cut off: it does
// not report them. Of two, the other one is reported.
func TestLoopAloneReportsFew(t *testing.T) {
	for name, c := range map[string]struct {
		others []string
		want   string
	}{"of two": {[]string{"b"}, "[b]"}, "of four": {[]string{"b", "n0", "n1"}, "[]"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cluster := newCluster()
				others(cluster, len(c.others)-1)
				r := start(t, cluster, c.others, nil)
				after(5 * time.Second)
				r.group.change(func() {
					for _, name := range c.others {
						delete(r.group.members, name)
						r.group.died[name] = time.Now()
					}
				})
				after(2 * time.Second)
				same(t, "lost", r.status().Lost, c.want)
			})
		})
	}
}
