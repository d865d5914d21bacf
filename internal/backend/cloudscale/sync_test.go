package cloudscale

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudscale"
)

// quick is a cloud that takes no time.
var quick = simulated.Options{Creating: -1, Changing: -1}

// in runs a test in a bubble with a cloud.
func in(t *testing.T, o simulated.Options, nodes int, test func(*testing.T, *cloud), edits ...edit) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCloud(t, o, nodes, edits...)) })
}

// as compares how the Service stands with a reason and words of its sentence.
func as(t *testing.T, got lb.Reason, code lb.Code, words string) {
	t.Helper()
	if got.Code != code || !strings.Contains(got.Text, words) {
		t.Errorf("%s, want %s: …%s…", got, code, words)
	}
}

// heard returns the text of what was told under a code.
func (c *cloud) heard(code lb.Code) string {
	for _, r := range c.told {
		if r.Code == code {
			return r.Text
		}
	}
	return ""
}

// What cannot be read is not absent: as long as a list fails, nothing is made and
// nothing counts as deleted.
func TestBlindness(t *testing.T) {
	for _, kind := range []simulated.Kind{simulated.LoadBalancers, simulated.Servers, simulated.FloatingIPs} {
		in(t, quick, 2, func(t *testing.T, c *cloud) {
			c.sim.Fail(simulated.Fault{Method: "GET", Kind: kind, Status: http.StatusInternalServerError, Times: -1})
			for range 5 {
				if out, err := c.look(); err == nil || c.sim.Writes() > 0 {
					t.Errorf("%s: %v, %+v, %d writes", kind, err, out, c.sim.Writes())
				}
				<-time.After(20 * time.Second)
			}
		}, annotated(compat.AnnotationFloatingIPs, `["192.0.2.9/32"]`))
	}
	for _, kind := range []simulated.Kind{simulated.Pools, simulated.Members, simulated.Listeners, simulated.HealthMonitors} {
		in(t, quick, 2, func(t *testing.T, c *cloud) {
			c.settle()
			c.restart()
			c.sim.ResetLog()
			c.sim.Fail(simulated.Fault{Method: "GET", Kind: kind, Status: http.StatusInternalServerError, Times: -1})
			c.service.Annotations[compat.AnnotationName] = "changed"
			if out, err := c.look(); err == nil || c.sim.Writes() > 0 {
				t.Errorf("%s: %v, %+v, %d writes", kind, err, out, c.sim.Writes())
			}
		})
	}
	in(t, quick, 2, func(t *testing.T, c *cloud) {
		c.settle()
		c.gone = true
		c.restart()
		c.sim.Fail(simulated.Fault{Method: "GET", Kind: simulated.LoadBalancers, Status: http.StatusInternalServerError, Times: -1})
		if out, err := c.look(); err == nil || out.Gone {
			t.Errorf("%v, %+v", err, out)
		}
	})
}

// What cloudscale's controller has made is taken over without a change but tags.
func TestTakeOver(t *testing.T) {
	in(t, quick, 2, func(t *testing.T, c *cloud) {
		c.madeByUpstream(t)
		before := c.state()
		c.sim.ResetLog()
		c.settle()
		if diff := cmp.Diff(before, c.state()); diff != "" {
			t.Error(diff)
		}
		if got := c.sim.Writes(); got != 1 {
			t.Errorf("%d writes:\n%s", got, c.requests())
		}
		if c.heard(lb.DriftRepaired) != "" || !strings.Contains(c.heard(lb.UpdatedLoadBalancer), "impact: none") {
			t.Errorf("told %v", c.told)
		}
		own := c.sim.LoadBalancers()[0]
		want := map[string]string{compat.AnnotationUUID: own.UUID, compat.AnnotationConfigVersion: "1", compat.AnnotationZone: "lpg1"}
		if diff := cmp.Diff(want, c.service.Annotations); diff != "" {
			t.Error(diff)
		}
		if len(c.ingress) != 2 || own.Tags["team"] != "shop" {
			t.Errorf("published %v, tags %v", c.ingress, own.Tags)
		}

		// On request, what upstream does not hear takes effect.
		c.service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		c.service.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
		c.settle()
		if diff := cmp.Diff(before, c.state()); diff != "" {
			t.Error(diff)
		}
		c.service.Annotations[compat.AnnotationConfigVersion] = "2"
		c.settle()
		if got := c.sim.Pools()[0]; got.Algorithm != "source_ip" || len(c.sim.Pools()) != 2 || len(c.sim.Listeners()) != 2 || len(c.sim.Listeners()[0].AllowedCIDRs) != 1 {
			t.Errorf("%v", c.state())
		}
	})
}

// madeByUpstream makes what cloudscale's controller makes, in its order.
func (c *cloud) madeByUpstream(t *testing.T) {
	t.Helper()
	api := c.backend.client
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	own, err := api.LoadBalancers.Create(t.Context(), cloudscale.NewLoadBalancer{Name: "k8s-service-deadbeef", Flavor: "lb-standard", Zone: "lpg1", Tags: cloudscale.Tags{"team": "shop"}})
	must(err)
	for _, p := range c.service.Spec.Ports {
		pool, err := api.Pools.Create(t.Context(), cloudscale.NewPool{Name: "tcp/" + p.Name, LoadBalancer: own.UUID, Algorithm: "round_robin", Protocol: "tcp"})
		must(err)
		for _, s := range c.sim.Servers() {
			a := s.Interfaces[1].Addresses[0]
			on := true
			_, err := api.Members(pool.UUID).Create(t.Context(), cloudscale.NewMember{Name: fmt.Sprintf("%s:%d", a.Address, p.NodePort), Enabled: &on,
				ProtocolPort: int(p.NodePort), MonitorPort: int(p.NodePort), Address: a.Address, Subnet: a.Subnet})
			must(err)
		}
		_, err = api.Listeners.Create(t.Context(), cloudscale.NewListener{Name: fmt.Sprintf("tcp/%d", p.Port), Pool: pool.UUID, Protocol: "tcp", ProtocolPort: int(p.Port),
			TimeoutClientDataMS: 50000, TimeoutMemberConnectMS: 5000, TimeoutMemberDataMS: 50000})
		must(err)
		_, err = api.HealthMonitors.Create(t.Context(), cloudscale.NewHealthMonitor{Pool: pool.UUID, Type: "tcp", DelayS: 2, TimeoutS: 1, UpThreshold: 2, DownThreshold: 3, HTTP: &cloudscale.HTTPCheck{}})
		must(err)
	}
	c.restart()
}

// Whatever a Service says when it goes, nothing is left of it.
func TestDeleteWhateverItSays(t *testing.T) {
	for name, spoil := range map[string]func(*cloud){
		"nothing": func(*cloud) {},
		"annotations that cannot be understood": func(c *cloud) {
			for _, a := range compat.Annotations {
				if a.Key != compat.AnnotationUUID {
					c.service.Annotations[a.Key] = "]"
				}
			}
			c.service.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolSCTP, Port: 1}}
		},
		"a floating IP that another one wants": func(c *cloud) {
			c.service.Annotations[compat.AnnotationFloatingIPs] = `["192.0.2.9/32"]`
			c.others = []*corev1.Service{other("other", "cafe", annotated(compat.AnnotationFloatingIPs, `["192.0.2.9/32"]`))}
		},
		"no nodes": func(c *cloud) { c.nodes = nil },
		"a class":  func(c *cloud) { class := "foo"; c.service.Spec.LoadBalancerClass = &class },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, quick, 2, func(t *testing.T, c *cloud) {
				c.settle()
				spoil(c)
				c.gone = true
				out, err := c.look()
				if err != nil || !out.Gone || len(c.state()) != 0 {
					t.Errorf("%v, %+v, left: %v", err, out, c.state())
				}
				as(t, out.Reason, lb.DeletedLoadBalancer, "")
			})
		})
	}
}

func TestDrift(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for _, test := range []struct {
			name string
			do   func(*cloud) error
			says string
		}{
			{"timeout", func(c *cloud) error {
				return c.sim.Edit(simulated.Listeners, c.sim.Listeners()[0].UUID, `{"timeout_client_data_ms": 7}`)
			}, "update listener tcp/80 of tcp/http: timeout_client_data_ms 7 → 50000"},
			{"pool deleted", func(c *cloud) error { return c.sim.Delete(simulated.Pools, c.sim.Pools()[0].UUID) }, "create pool tcp/http"},
			{"listener deleted", func(c *cloud) error { return c.sim.Delete(simulated.Listeners, c.sim.Listeners()[0].UUID) }, "create listener tcp/80"},
			{"monitor deleted", func(c *cloud) error { return c.sim.Delete(simulated.HealthMonitors, c.sim.HealthMonitors()[0].UUID) }, "create health monitor of tcp/http"},
			{"member disabled", func(c *cloud) error {
				return c.sim.Edit(simulated.Members, c.sim.Members("")[0].UUID, `{"enabled": false}`)
			}, "enabled false → true"},
			{"member deleted", func(c *cloud) error { return c.sim.Delete(simulated.Members, c.sim.Members("")[0].UUID) }, "create member 10.0.0.11:30080"},
			{"renamed", func(c *cloud) error {
				return c.sim.Edit(simulated.LoadBalancers, c.sim.LoadBalancers()[0].UUID, `{"name": "mine"}`)
			}, "name mine → k8s-service-deadbeef"},
			{"load balancer deleted", func(c *cloud) error { return c.sim.Delete(simulated.LoadBalancers, c.sim.LoadBalancers()[0].UUID) }, "create load balancer"},
		} {
			t.Run(fmt.Sprintf("%s, listeners stay %v", test.name, keep), func(t *testing.T) {
				in(t, simulated.Options{Creating: -1, Changing: -1, KeepListeners: keep}, 2, func(t *testing.T, c *cloud) {
					c.settle()
					want := c.state()
					c.told = nil
					if err := test.do(c); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, c.state()); diff == "" && test.name != "timeout" {
						t.Fatal("nothing was changed")
					}
					<-time.After(5 * time.Minute) // the next resync
					c.settle()
					if diff := cmp.Diff(want, c.state()); diff != "" {
						t.Error(diff)
					}
					if got := c.heard(lb.DriftRepaired); !strings.Contains(got, test.says) || len(c.told) != 1 {
						t.Errorf("told %v, want …%s…", c.told, test.says)
					}
				})
			})
		}
	}
}

func TestFloatingIPs(t *testing.T) {
	const four, six = "192.0.2.9/32", "2001:db8:f::9/128"
	add := func(c *cloud, region string, texts ...string) {
		for _, text := range texts {
			c.sim.AddFloatingIP(simulated.FloatingIP{Prefix: netip.MustParsePrefix(text), Region: region})
		}
	}
	wanted := func(texts ...string) edit {
		return annotated(compat.AnnotationFloatingIPs, fmt.Sprintf(`["%s"]`, strings.Join(texts, `", "`)))
	}
	t.Run("published", func(t *testing.T) {
		in(t, quick, 1, func(t *testing.T, c *cloud) {
			add(c, "", four, six)
			c.settle()
			if want := []string{"192.0.2.9", "2001:db8:f::9"}; !slices.Equal(c.ingress, want) {
				t.Errorf("published %v, want %v", c.ingress, want)
			}
			c.sim.ResetLog()
			c.settle()
			if all, _ := c.calls(); all != 0 {
				t.Errorf("again:\n%s", c.requests())
			}
		}, wanted(four, six))
	})
	t.Run("one family", func(t *testing.T) {
		in(t, quick, 1, func(t *testing.T, c *cloud) {
			add(c, "lpg", four)
			c.settle()
			if len(c.ingress) != 2 || c.ingress[0] != "192.0.2.9" || !strings.HasPrefix(c.ingress[1], "2001:db8:1:") {
				t.Errorf("published %v", c.ingress)
			}
			// Taken off the list it stays where it is, and is published no more.
			delete(c.service.Annotations, compat.AnnotationFloatingIPs)
			c.settle()
			if len(c.ingress) != 2 || c.ingress[0] == "192.0.2.9" || !slices.Contains(c.state(), "floating IP 192.0.2.9/32 k8s-service-deadbeef") {
				t.Errorf("published %v, %v", c.ingress, c.state())
			}
		}, wanted(four))
	})
	t.Run("not published by old rules", func(t *testing.T) {
		in(t, quick, 1, func(t *testing.T, c *cloud) {
			add(c, "lpg", four)
			c.settle()
			if slices.Contains(c.ingress, "192.0.2.9") || !slices.Contains(c.state(), "floating IP 192.0.2.9/32 k8s-service-deadbeef") {
				t.Errorf("published %v, %v", c.ingress, c.state())
			}
		}, wanted(four), annotated(compat.AnnotationConfigVersion, "1"))
	})
	for _, test := range []struct {
		name  string
		edits []edit
		do    func(*cloud)
		says  string
	}{
		{"wanted twice", nil, func(c *cloud) {
			add(c, "lpg", four)
			c.others = []*corev1.Service{other("old", "cafe", wanted(four)), other("broken", "f00", annotated(compat.AnnotationFloatingIPs, "]"))}
		}, "floating IP 192.0.2.9/32: it is also wanted by Service shop/old"},
		{"not there", nil, func(*cloud) {}, "the project has no such floating IP"},
		{"of another region", nil, func(c *cloud) { add(c, "rma", four) }, "it is of region rma, and the load balancer is in zone lpg1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in(t, quick, 2, func(t *testing.T, c *cloud) {
				test.do(c)
				c.settle()
				out, err := c.look()
				if err != nil || out.Again != 0 {
					t.Errorf("%v, again after %s", err, out.Again)
				}
				as(t, out.Reason, lb.FloatingAddressRefused, test.says)
				// All the rest is done.
				if len(c.sim.Members("")) != 4 || len(c.sim.Listeners()) != 2 || len(c.ingress) != 2 {
					t.Errorf("%v, published %v", c.state(), c.ingress)
				}
				if f := c.sim.FloatingIPs(); len(f) > 0 && f[0].LoadBalancer != "" {
					t.Errorf("%v", f)
				}
			}, append(test.edits, wanted(four))...)
		})
	}
	t.Run("of one that is being deleted", func(t *testing.T) {
		in(t, quick, 1, func(t *testing.T, c *cloud) {
			add(c, "lpg", four)
			leaving := other("old", "cafe", wanted(four))
			leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			c.others = []*corev1.Service{leaving}
			c.settle()
			if c.ingress[0] != "192.0.2.9" {
				t.Errorf("published %v", c.ingress)
			}
		}, wanted(four))
	})
}

func TestTokens(t *testing.T) {
	for status, code := range map[int]lb.Code{
		http.StatusUnauthorized: lb.TokenInvalid, http.StatusForbidden: lb.TokenReadOnly,
		http.StatusServiceUnavailable: lb.CloudUnavailable, http.StatusTooManyRequests: lb.CloudUnavailable, http.StatusBadRequest: lb.SyncLoadBalancerFailed,
	} {
		in(t, quick, 1, func(t *testing.T, c *cloud) {
			c.sim.Fail(simulated.Fault{Method: "POST", Status: status, Times: -1, RetryAfter: time.Minute, Body: map[string]string{"flavor": "is not a valid choice."}})
			out, err := c.look()
			if err == nil {
				t.Error("no error")
			}
			as(t, out.Reason, code, "POST /v1/load-balancers")
			if again := code == lb.CloudUnavailable; again != (out.Again == time.Minute) {
				t.Errorf("%s: again after %s", code, out.Again)
			}
			if strings.Contains(out.Reason.Text, c.sim.Token()) {
				t.Error("the token is told")
			}
		})
	}
}

// A worker is never held while the cloud takes its time.
func TestNeverWaits(t *testing.T) {
	in(t, simulated.Options{Creating: 3 * time.Minute, Changing: -1}, 2, func(t *testing.T, c *cloud) {
		looks := 0
		for began := time.Now(); ; looks++ {
			at := time.Now()
			out, err := c.look()
			if took := time.Since(at); took != 0 || err != nil {
				t.Fatalf("took %s, %v", took, err)
			}
			if out.Again == 0 {
				if took := time.Since(began); took > 3*time.Minute+lookAgainMost {
					t.Errorf("done after %s", took)
				}
				break
			}
			as(t, out.Reason, lb.CloudBusy, "k8s-service-deadbeef")
			if c.service.Annotations[compat.AnnotationUUID] == "" || len(c.ingress) > 0 {
				t.Errorf("annotations %v, published %v", c.service.Annotations, c.ingress)
			}
			<-time.After(out.Again)
		}
		if looks > 45 {
			t.Errorf("%d looks", looks)
		}
	})
}

// One port that the cloud does not accept does not keep the others from being
// served; and nothing is taken away as long as something is missing.
func TestOnePortFails(t *testing.T) {
	in(t, quick, 1, func(t *testing.T, c *cloud) {
		c.settle()
		c.service.Spec.Ports = []corev1.ServicePort{port("a", 1, 30001), port("b", 2, 30002)}
		end := c.sim.Fail(simulated.Fault{Method: "POST", Kind: simulated.Members, Status: 400, Body: map[string]string{"address": "no"}, Times: 1})
		out, err := c.look()
		if err == nil || !slices.Contains(c.state(), "listener k8s-service-deadbeef tcp/b tcp/2 tcp/2") || !slices.Contains(c.state(), "listener k8s-service-deadbeef tcp/http tcp/80 tcp/80") ||
			slices.Contains(c.state(), "listener k8s-service-deadbeef tcp/a tcp/1 tcp/1") {
			t.Errorf("%v, %v", err, c.state())
		}
		as(t, out.Reason, lb.SyncLoadBalancerFailed, "create member 10.0.0.11:30001: POST")
		end()
		c.settle()
		if len(c.sim.Listeners()) != 2 || len(c.sim.Pools()) != 2 {
			t.Errorf("%v", c.state())
		}
	})
}

// What cannot be understood makes nothing, and changes nothing but members.
func TestInvalid(t *testing.T) {
	broken := annotated(compat.AnnotationMonitorDelay, "x")
	in(t, quick, 1, func(t *testing.T, c *cloud) {
		out, err := c.look()
		as(t, out.Reason, lb.InvalidRequest, "Annotation "+compat.AnnotationMonitorDelay)
		if err != nil || c.sim.Writes() != 0 || out.Again != 0 {
			t.Errorf("%v, %d writes, again after %s", err, c.sim.Writes(), out.Again)
		}
		delete(c.service.Annotations, compat.AnnotationMonitorDelay)
		c.settle()
		broken(c.service)
		c.service.Annotations[compat.AnnotationName] = "other"
		<-time.After(time.Minute)
		c.addNode()
		c.settle()
		if len(c.sim.Members("")) != 4 || c.sim.LoadBalancers()[0].Name != "k8s-service-deadbeef" {
			t.Errorf("%v", c.state())
		}
	}, broken)
}

func TestNodesAreTold(t *testing.T) {
	for _, test := range []struct {
		name  string
		edits []edit
		do    func(*cloud)
		code  lb.Code
		words string
		left  int // members
	}{
		{"no node has the labels", []edit{annotated(compat.AnnotationNodeSelector, "tier=edge")}, func(*cloud) {}, lb.NoValidNodes, compat.AnnotationNodeSelector + ": tier=edge", 0},
		{"no node in the subnets", []edit{annotated(compat.AnnotationAllowedSubnets, `["`+subnet2+`"]`)}, func(*cloud) {}, lb.NoValidNodes, compat.AnnotationAllowedSubnets, 0},
		{"no node at all", nil, func(c *cloud) { c.nodes = nil }, lb.UnAvailableLoadBalancer, "no available nodes", 0},
		{"one is unknown", nil, func(c *cloud) { c.nodes[0].Spec.ProviderID = "aws:///i-0" }, lb.NodesSkipped, "node worker-1 has no server", 2},
		{"all are unknown", nil, func(c *cloud) {
			for _, n := range c.nodes {
				n.Spec.ProviderID = "aws:///i-0"
			}
		}, lb.NodesSkipped, "node worker-1 has no server", 4},
		{"a word that is not known", []edit{annotated("k8s.cloudscale.ch/loadbalancer-x", "y")}, func(*cloud) {}, lb.UnknownAnnotation, "k8s.cloudscale.ch/loadbalancer-x", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			in(t, quick, 2, func(t *testing.T, c *cloud) {
				c.settle()
				for _, e := range test.edits {
					e(c.service)
				}
				test.do(c)
				c.told = nil
				c.settle()
				if got := c.heard(test.code); !strings.Contains(got, test.words) {
					t.Errorf("told %v, want %s: …%s…", c.told, test.code, test.words)
				}
				if got := len(c.sim.Members("")); got != test.left {
					t.Errorf("%d members, want %d", got, test.left)
				}
			})
		})
	}
}

// Labels of nodes count at every look.
func TestNodeLabels(t *testing.T) {
	in(t, quick, 2, func(t *testing.T, c *cloud) {
		c.nodes[0].Labels["tier"] = "edge"
		c.settle()
		if got := len(c.sim.Members("")); got != 2 {
			t.Errorf("%d members, want 2", got)
		}
		c.nodes[0].Labels["tier"], c.nodes[1].Labels["tier"] = "", "edge"
		c.settle()
		for _, m := range c.sim.Members("") {
			if m.Address.String() != "10.0.0.12" {
				t.Errorf("member %s", m)
			}
		}
	}, annotated(compat.AnnotationNodeSelector, "tier=edge"))
}

// A token of another project knows none of the nodes, and makes nothing there.
func TestUnknownNodes(t *testing.T) {
	in(t, quick, 2, func(t *testing.T, c *cloud) {
		for i, n := range c.nodes {
			n.Spec.ProviderID = cloudscale.ProviderID(uuidOf(i))
		}
		out, err := c.look()
		if err != nil || c.sim.Writes() > 0 {
			t.Errorf("%v, %d writes", err, c.sim.Writes())
		}
		as(t, out.Reason, lb.NodesUnknown, "node worker-1 has no server with its providerID")
	}, annotated(compat.AnnotationZone, "lpg1"))
}

// A Service that is served stays so while its load balancer is being changed.
func TestServedWhileChanging(t *testing.T) {
	in(t, simulated.Options{Changing: 10 * time.Second}, 1, func(t *testing.T, c *cloud) {
		c.settle()
		<-time.After(2 * time.Minute)
		c.service.Spec.Ports[0].Port = 8080
		busy := 0
		for {
			out, err := c.look()
			if err != nil {
				t.Fatal(err)
			}
			as(t, out.Reason, lb.EnsuredLoadBalancer, c.ingress[0])
			if out.Again == 0 {
				break
			}
			busy++
			<-time.After(out.Again)
		}
		if busy == 0 {
			t.Error("it never was busy")
		}
	})
}

func TestPublished(t *testing.T) {
	for _, test := range []struct {
		name string
		edit edit
		want func(*cloud) []corev1.LoadBalancerIngress
	}{
		{"addresses", func(*corev1.Service) {}, func(*cloud) []corev1.LoadBalancerIngress {
			proxy := corev1.LoadBalancerIPModeProxy
			return []corev1.LoadBalancerIngress{{IP: "203.0.113.4", IPMode: &proxy}, {IP: "2001:db8:1::4", IPMode: &proxy}}
		}},
		{"mode", annotated(compat.AnnotationIPMode, "VIP"), func(*cloud) []corev1.LoadBalancerIngress {
			vip := corev1.LoadBalancerIPModeVIP
			return []corev1.LoadBalancerIngress{{IP: "203.0.113.4", IPMode: &vip}, {IP: "2001:db8:1::4", IPMode: &vip}}
		}},
		{"host name", annotated(compat.AnnotationForceHostname, "example.org"), func(*cloud) []corev1.LoadBalancerIngress {
			return []corev1.LoadBalancerIngress{{Hostname: "example.org"}}
		}},
	} {
		in(t, quick, 2, func(t *testing.T, c *cloud) {
			c.settle()
			out, err := c.look()
			if diff := cmp.Diff(test.want(c), out.Ingress); err != nil || diff != "" {
				t.Errorf("%s: %v %s", test.name, err, diff)
			}
		}, test.edit)
	}
	in(t, quick, 1, func(t *testing.T, c *cloud) {
		c.service.Annotations[compat.AnnotationVIPAddresses] = fmt.Sprintf(`[{"subnet": %q, "address": "10.0.0.77"}]`, c.subnet)
		c.settle()
		if !slices.Equal(c.ingress, []string{"10.0.0.77"}) {
			t.Errorf("private: %v", c.ingress)
		}
	})
}

func TestUDP(t *testing.T) {
	in(t, quick, 2, func(t *testing.T, c *cloud) {
		c.settle()
		want := []string{
			"listener k8s-service-deadbeef tcp/tcp tcp/53 tcp/53", "listener k8s-service-deadbeef udp/game udp/9000 udp/9000", "listener k8s-service-deadbeef udp/udp udp/53 udp/53",
			"monitor k8s-service-deadbeef tcp/tcp tcp", "monitor k8s-service-deadbeef udp/game udp-connect", "monitor k8s-service-deadbeef udp/udp tcp",
			"pool k8s-service-deadbeef tcp/tcp round_robin tcp", "pool k8s-service-deadbeef udp/game round_robin udp", "pool k8s-service-deadbeef udp/udp round_robin udp",
		}
		for _, line := range want {
			if !slices.Contains(c.state(), line) {
				t.Errorf("there is no %s: %v", line, c.state())
			}
		}
	}, ports(udpPort("udp", 53, 30053), port("tcp", 53, 30053), udpPort("game", 9000, 30900)))
}

// A refused change leaves the running load balancer alone.
func TestChangeRefused(t *testing.T) {
	for key, value := range map[string]string{compat.AnnotationFlavor: "lb-large", compat.AnnotationZone: "rma1", compat.AnnotationVIPAddresses: `[{"subnet": "` + subnet1 + `"}]`} {
		in(t, quick, 2, func(t *testing.T, c *cloud) {
			c.settle()
			before := c.state()
			c.service.Annotations[key] = value
			<-time.After(time.Minute)
			c.addNode()
			c.settle()
			out, err := c.look()
			if err != nil || len(out.Ingress) != 2 {
				t.Errorf("%v, published %v", err, out.Ingress)
			}
			as(t, out.Reason, lb.ChangeRefused, "cannot become")
			if got := c.state(); len(got) != len(before)+2 { // the members of the new node
				t.Errorf("%v", got)
			}
		})
	}
}

func TestOrphans(t *testing.T) {
	in(t, quick, 1, func(t *testing.T, c *cloud) {
		c.settle()
		c.service = other("second", "cafe")
		c.settle()
		if _, err := c.backend.client.LoadBalancers.Create(t.Context(), cloudscale.NewLoadBalancer{Name: "somebody else's", Flavor: "lb-standard", Tags: cloudscale.Tags{tagCluster: "other", tagUID: "x"}}); err != nil {
			t.Fatal(err)
		}
		orphans, err := c.backend.Orphans(t.Context(), func(uid types.UID) bool { return uid == "cafe" })
		if err != nil || len(orphans) != 1 || orphans[0].Service != "shop/web" || orphans[0].UID != "deadbeef" {
			t.Fatalf("%v, %+v", err, orphans)
		}
		as(t, orphans[0].Reason(), lb.LoadBalancerOrphaned, "was made for Service shop/web")
		if len(c.sim.LoadBalancers()) != 3 {
			t.Error("somebody was deleted")
		}
		if _, err := c.backend.Apply(t.Context(), Removal(orphans)); err != nil || len(c.sim.LoadBalancers()) != 2 {
			t.Errorf("%v, %v", err, c.state())
		}
		c.backend.cluster = ""
		if got, err := c.backend.Orphans(t.Context(), func(types.UID) bool { return false }); err != nil || got != nil {
			t.Errorf("without a name: %v, %v", got, err)
		}
	})
}

// A Service that was copied with its annotations does not touch the other's load
// balancer, not even when it is deleted.
func TestCopiedService(t *testing.T) {
	in(t, quick, 1, func(t *testing.T, c *cloud) {
		c.settle()
		before, first := c.state(), c.service
		c.others = []*corev1.Service{first}
		c.service = other("copy", "cafe")
		c.service.Annotations[compat.AnnotationUUID] = first.Annotations[compat.AnnotationUUID]
		out, err := c.look()
		as(t, out.Reason, lb.LoadBalancerTaken, "Service shop/web")
		if err != nil || out.Annotations != nil || out.Ingress != nil {
			t.Errorf("%v, %+v", err, out)
		}
		c.gone = true
		if out, err = c.look(); err != nil || !out.Gone {
			t.Errorf("%v, %+v", err, out)
		}
		if diff := cmp.Diff(before, c.state()); diff != "" {
			t.Error(diff)
		}
		// Without the annotation it gets one of its own.
		c.gone = false
		delete(c.service.Annotations, compat.AnnotationUUID)
		c.settle()
		if len(c.sim.LoadBalancers()) != 2 {
			t.Errorf("%v", c.state())
		}
	})
}
