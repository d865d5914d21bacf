package cloudscale

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudscale"
)

func TestTokens(t *testing.T) {
	for status, code := range map[int]lb.Code{
		http.StatusUnauthorized: lb.TokenInvalid, http.StatusForbidden: lb.TokenReadOnly,
		http.StatusServiceUnavailable: lb.CloudUnavailable, http.StatusTooManyRequests: lb.CloudUnavailable, http.StatusBadRequest: lb.SyncLoadBalancerFailed,
	} {
		in(t, quick, 1, func(t *testing.T, c *account) {
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
	in(t, simulated.Options{Creating: 3 * time.Minute, Changing: -1}, 2, func(t *testing.T, c *account) {
		looks := 0
		for began := time.Now(); ; looks++ {
			at := time.Now()
			out, err := c.look()
			if took := time.Since(at); took != 0 || err != nil {
				t.Fatalf("took %s, %v", took, err)
			}
			if out.Again == 0 {
				if took := time.Since(began); took > 3*time.Minute+maxLook {
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
	in(t, quick, 1, func(t *testing.T, c *account) {
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
	in(t, quick, 1, func(t *testing.T, c *account) {
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
		do    func(*account)
		code  lb.Code
		words string
		left  int // members
	}{
		{"no node has the labels", []edit{annotated(compat.AnnotationNodeSelector, "tier=edge")}, func(*account) {}, lb.NoValidNodes, compat.AnnotationNodeSelector + ": tier=edge", 0},
		{"no node in the subnets", []edit{annotated(compat.AnnotationAllowedSubnets, `["`+subnet2+`"]`)}, func(*account) {}, lb.NoValidNodes, compat.AnnotationAllowedSubnets, 0},
		{"no node at all", nil, func(c *account) { c.nodes = nil }, lb.UnAvailableLoadBalancer, "no available nodes", 0},
		{"one is unknown", nil, func(c *account) { c.nodes[0].Spec.ProviderID = "aws:///i-0" }, lb.NodesSkipped, "node worker-1 has no server", 2},
		{"all are unknown", nil, func(c *account) {
			for _, n := range c.nodes {
				n.Spec.ProviderID = "aws:///i-0"
			}
		}, lb.NodesSkipped, "node worker-1 has no server", 4},
		{"a word that is not known", []edit{annotated("k8s.cloudscale.ch/loadbalancer-x", "y")}, func(*account) {}, lb.UnknownAnnotation, "k8s.cloudscale.ch/loadbalancer-x", 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			in(t, quick, 2, func(t *testing.T, c *account) {
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
	in(t, quick, 2, func(t *testing.T, c *account) {
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
	in(t, quick, 2, func(t *testing.T, c *account) {
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
	in(t, simulated.Options{Changing: 10 * time.Second}, 1, func(t *testing.T, c *account) {
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
		want func(*account) []corev1.LoadBalancerIngress
	}{
		{"addresses", func(*corev1.Service) {}, func(*account) []corev1.LoadBalancerIngress {
			proxy := corev1.LoadBalancerIPModeProxy
			return []corev1.LoadBalancerIngress{{IP: "203.0.113.4", IPMode: &proxy}, {IP: "2001:db8:1::4", IPMode: &proxy}}
		}},
		{"mode", annotated(compat.AnnotationIPMode, "VIP"), func(*account) []corev1.LoadBalancerIngress {
			vip := corev1.LoadBalancerIPModeVIP
			return []corev1.LoadBalancerIngress{{IP: "203.0.113.4", IPMode: &vip}, {IP: "2001:db8:1::4", IPMode: &vip}}
		}},
		{"host name", annotated(compat.AnnotationForceHostname, "example.org"), func(*account) []corev1.LoadBalancerIngress {
			return []corev1.LoadBalancerIngress{{Hostname: "example.org"}}
		}},
	} {
		in(t, quick, 2, func(t *testing.T, c *account) {
			c.settle()
			out, err := c.look()
			if diff := cmp.Diff(test.want(c), kubeapi.Ingress(out.Ingress)); err != nil || diff != "" {
				t.Errorf("%s: %v %s", test.name, err, diff)
			}
		}, test.edit)
	}
	in(t, quick, 1, func(t *testing.T, c *account) {
		c.service.Annotations[compat.AnnotationVIPAddresses] = fmt.Sprintf(`[{"subnet": %q, "address": "10.0.0.77"}]`, c.subnet)
		c.settle()
		if !slices.Equal(c.ingress, []string{"10.0.0.77"}) {
			t.Errorf("private: %v", c.ingress)
		}
	})
}

func TestUDP(t *testing.T) {
	in(t, quick, 2, func(t *testing.T, c *account) {
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
		in(t, quick, 2, func(t *testing.T, c *account) {
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
	in(t, quick, 1, func(t *testing.T, c *account) {
		c.settle()
		c.service = other("second", "cafe")
		c.settle()
		if _, err := c.backend.client.LoadBalancers.Create(t.Context(), cloudscale.NewLoadBalancer{Name: "somebody else's", Flavor: "lb-standard", Tags: cloudscale.Tags{tagCluster: "other", tagUID: "x"}}); err != nil {
			t.Fatal(err)
		}
		orphans, err := c.backend.Orphans(t.Context(), func(_ types.NamespacedName, uid types.UID) bool { return uid == "cafe" })
		if err != nil || len(orphans) != 1 || orphans[0].Service.String() != "shop/web" || orphans[0].UID != "deadbeef" {
			t.Fatalf("%v, %+v", err, orphans)
		}
		as(t, orphans[0].Reason, lb.LoadBalancerOrphaned, "was created for Service shop/web")
		if len(c.sim.LoadBalancers()) != 3 {
			t.Error("somebody was deleted")
		}
		if _, err := c.backend.Remove(t.Context(), orphans); err != nil || len(c.sim.LoadBalancers()) != 2 {
			t.Errorf("%v, %v", err, c.state())
		}
		c.backend.cluster = ""
		if got, err := c.backend.Orphans(t.Context(), func(types.NamespacedName, types.UID) bool { return false }); err != nil || got != nil {
			t.Errorf("without a name: %v, %v", got, err)
		}
	})
}

// Another cluster's load balancer is not touched, although a Service names it, unless
// an administrator says so.
func TestAnotherClusters(t *testing.T) {
	for _, key := range []string{compat.AnnotationName, compat.AnnotationUUID} {
		in(t, quick, 1, func(t *testing.T, c *account) {
			theirs, err := c.backend.client.LoadBalancers.Create(t.Context(), cloudscale.NewLoadBalancer{Name: "theirs", Flavor: "lb-standard", Zone: "lpg1", Tags: cloudscale.Tags{tagCluster: "other", tagUID: "x"}})
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Minute)
			before := c.state()
			c.service.Annotations[key] = map[string]string{compat.AnnotationName: "theirs", compat.AnnotationUUID: theirs.UUID}[key]
			out, err := c.look()
			as(t, out.Reason, LoadBalancerTaken, `belongs to cluster "other"`)
			if err != nil || out.Ingress != nil {
				t.Errorf("%v, %+v", err, out)
			}
			c.gone = true
			if out, err = c.look(); err != nil || !out.Gone {
				t.Errorf("%v, %+v", err, out)
			}
			if diff := cmp.Diff(before, c.state()); diff != "" {
				t.Error(diff)
			}
			c.gone, c.backend.adoptFrom = false, []string{"other"}
			c.settle()
			all := c.sim.LoadBalancers()
			if len(all) != 1 || all[0].UUID != theirs.UUID || all[0].Tags[tagCluster] != "prod" || all[0].Tags[tagUID] != "deadbeef" {
				t.Errorf("not taken over: %+v", all)
			}
		})
	}
}

// A Service that was copied with its annotations does not touch the other's load
// balancer, not even when it is deleted.
func TestCopiedService(t *testing.T) {
	in(t, quick, 1, func(t *testing.T, c *account) {
		c.settle()
		before, first := c.state(), c.service
		c.others = []*corev1.Service{first}
		c.service = other("copy", "cafe")
		c.service.Annotations[compat.AnnotationUUID] = first.Annotations[compat.AnnotationUUID]
		out, err := c.look()
		as(t, out.Reason, LoadBalancerTaken, "Service shop/web")
		if err != nil || out.Marks.Annotations != nil || out.Ingress != nil {
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

// Somebody else may have made the load balancer since the list was read.
func TestAnotherProcess(t *testing.T) {
	in(t, quick, 1, func(t *testing.T, c *account) {
		mine := c.backend
		c.service, c.gone = other("first", "cafe"), true
		if out, err := c.look(); err != nil || !out.Gone { // mine has a list now
			t.Fatal(err)
		}
		<-time.After(time.Second)
		c.service, c.gone = service(), false
		c.restart()
		c.settle()
		c.backend, c.service = mine, service()
		c.settle()
		if got := c.sim.LoadBalancers(); len(got) != 1 {
			t.Errorf("%v", c.state())
		}
	})
}

// What the cloud never does is not asked for every second.
func TestPatience(t *testing.T) {
	in(t, quick, 1, func(t *testing.T, c *account) {
		c.settle()
		c.gone = true
		c.sim.Fail(simulated.Fault{Method: "DELETE", Status: http.StatusBadRequest, Body: map[string]string{"detail": "No."}, Times: 20})
		c.sim.ResetLog()
		took := c.settle()
		if all, _ := c.calls(); took < 5*time.Minute || len(c.state()) > 0 || all > 40 {
			t.Errorf("took %s and %d calls, left %v", took, all, c.state())
		}
	})
}

// Many Services at once share what is read, and nothing else.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, simulated.Options{Busy: simulated.BusyWaits}, 3)
		var all []*corev1.Service
		for i := range 20 {
			all = append(all, other(fmt.Sprintf("web-%d", i), types.UID(fmt.Sprintf("uid-%d", i))))
		}
		var running sync.WaitGroup
		for _, s := range all {
			running.Go(func() {
				own := *c
				own.service, own.others = s, nil
				own.settle()
				if len(own.ingress) != 2 {
					t.Errorf("%s: published %v", s.Name, own.ingress)
				}
			})
		}
		running.Wait()
		if lbs, members, listeners := len(c.sim.LoadBalancers()), len(c.sim.Members("")), len(c.sim.Listeners()); lbs != 20 || members != 120 || listeners != 40 {
			t.Errorf("%d load balancers, %d members, %d listeners", lbs, members, listeners)
		}
	})
}
