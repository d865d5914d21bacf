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

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudscale"
)

// quick is a cloud that takes no time.
var quick = simulated.Options{Creating: -1, Changing: -1}

// in runs a test in a bubble with a cloud.
func in(t *testing.T, o simulated.Options, nodes int, test func(*testing.T, *account), edits ...edit) {
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
func (c *account) heard(code lb.Code) string {
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
		in(t, quick, 2, func(t *testing.T, c *account) {
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
		in(t, quick, 2, func(t *testing.T, c *account) {
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
	in(t, quick, 2, func(t *testing.T, c *account) {
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
	in(t, quick, 2, func(t *testing.T, c *account) {
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
func (c *account) madeByUpstream(t *testing.T) {
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
	for name, spoil := range map[string]func(*account){
		"nothing": func(*account) {},
		"annotations that cannot be understood": func(c *account) {
			for _, a := range compat.Annotations {
				if a.Key != compat.AnnotationUUID {
					c.service.Annotations[a.Key] = "]"
				}
			}
			c.service.Spec.Ports = []corev1.ServicePort{{Protocol: corev1.ProtocolSCTP, Port: 1}}
		},
		"a floating IP that another one wants": func(c *account) {
			c.service.Annotations[compat.AnnotationFloatingIPs] = `["192.0.2.9/32"]`
			c.others = []*corev1.Service{other("other", "cafe", annotated(compat.AnnotationFloatingIPs, `["192.0.2.9/32"]`))}
		},
		"no nodes": func(c *account) { c.nodes = nil },
		"a class":  func(c *account) { class := "foo"; c.service.Spec.LoadBalancerClass = &class },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, quick, 2, func(t *testing.T, c *account) {
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
			do   func(*account) error
			says string
		}{
			{"timeout", func(c *account) error {
				return c.sim.Edit(simulated.Listeners, c.sim.Listeners()[0].UUID, `{"timeout_client_data_ms": 7}`)
			}, "update listener tcp/80 of tcp/http: timeout_client_data_ms 7 → 50000"},
			{"pool deleted", func(c *account) error { return c.sim.Delete(simulated.Pools, c.sim.Pools()[0].UUID) }, "create pool tcp/http"},
			{"listener deleted", func(c *account) error { return c.sim.Delete(simulated.Listeners, c.sim.Listeners()[0].UUID) }, "create listener tcp/80"},
			{"monitor deleted", func(c *account) error { return c.sim.Delete(simulated.HealthMonitors, c.sim.HealthMonitors()[0].UUID) }, "create health monitor of tcp/http"},
			{"member disabled", func(c *account) error {
				return c.sim.Edit(simulated.Members, c.sim.Members("")[0].UUID, `{"enabled": false}`)
			}, "enabled false → true"},
			{"member deleted", func(c *account) error { return c.sim.Delete(simulated.Members, c.sim.Members("")[0].UUID) }, "create member 10.0.0.11:30080"},
			{"renamed", func(c *account) error {
				return c.sim.Edit(simulated.LoadBalancers, c.sim.LoadBalancers()[0].UUID, `{"name": "mine"}`)
			}, "name mine → k8s-service-deadbeef"},
			{"load balancer deleted", func(c *account) error { return c.sim.Delete(simulated.LoadBalancers, c.sim.LoadBalancers()[0].UUID) }, "create load balancer"},
		} {
			t.Run(fmt.Sprintf("%s, listeners stay %v", test.name, keep), func(t *testing.T) {
				in(t, simulated.Options{Creating: -1, Changing: -1, KeepListeners: keep}, 2, func(t *testing.T, c *account) {
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
	add := func(c *account, region string, texts ...string) {
		for _, text := range texts {
			c.sim.AddFloatingIP(simulated.FloatingIP{Prefix: netip.MustParsePrefix(text), Region: region})
		}
	}
	wanted := func(texts ...string) edit {
		return annotated(compat.AnnotationFloatingIPs, fmt.Sprintf(`["%s"]`, strings.Join(texts, `", "`)))
	}
	t.Run("published", func(t *testing.T) {
		in(t, quick, 1, func(t *testing.T, c *account) {
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
		in(t, quick, 1, func(t *testing.T, c *account) {
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
		in(t, quick, 1, func(t *testing.T, c *account) {
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
		do    func(*account)
		says  string
	}{
		{"wanted twice", nil, func(c *account) {
			add(c, "lpg", four)
			c.others = []*corev1.Service{other("old", "cafe", wanted(four)), other("broken", "f00", annotated(compat.AnnotationFloatingIPs, "]"))}
		}, "floating IP 192.0.2.9/32: Service shop/old requests it as well"},
		{"not there", nil, func(*account) {}, "the project has no such floating IP"},
		{"of another region", nil, func(c *account) { add(c, "rma", four) }, "it belongs to region rma, but the load balancer is in zone lpg1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in(t, quick, 2, func(t *testing.T, c *account) {
				test.do(c)
				c.settle()
				out, err := c.look()
				if err != nil || out.Again != 0 {
					t.Errorf("%v, again after %s", err, out.Again)
				}
				as(t, out.Reason, FloatingAddressRefused, test.says)
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
		in(t, quick, 1, func(t *testing.T, c *account) {
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
