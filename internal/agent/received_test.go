package agent

import (
	"bytes"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/config"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// placed is a cluster whose Service has no endpoint, and an address that the controller
// has placed on node a.
func placed() *fakeCluster {
	c := &fakeCluster{}
	c.put(nodeObject("a", "192.0.2.1"), nodeObject("b", "192.0.2.2"), placedOn("a"))
	return c
}

func placedOn(node string) *corev1.Service {
	web := serviceOf("web", 1, "", 80, vip.String())
	web.Spec.Type = corev1.ServiceTypeLoadBalancer
	web.Status.Conditions = []metav1.Condition{{Type: kubeapi.ConditionPlaced, Status: metav1.ConditionTrue, Message: vip.String() + ": " + node}}
	return web
}

// placing changes the parts of an agent whose Services are of a class with placed
// addresses. Its default route leads out of wan0, and another interface has the
// address's network.
func placing(p *parts, out *bytes.Buffer, cfg config.CloudSigmaOptions) {
	o := sources.Options{Log: p.log, Config: &config.Configuration{Classes: []config.Class{{Backend: config.CloudSigma}}, CloudSigma: cfg}}
	p.sources = sources.New(o, p.cluster)
	p.log = slog.New(slog.NewTextHandler(out, nil))
	wan := eth0("a")
	wan.Name, wan.Index, wan.Prefixes, wan.Default = "wan0", 3, []netip.Prefix{netip.MustParsePrefix("198.51.100.1/24")}, [2]bool{true, false}
	p.kernel = link.NewFake(eth0("a"), wan)
}

// Without an endpoint, and whatever the node's networks, an address that is placed is
// on the primary interface, or on the one that is configured; packets for it are
// counted, and the first one is logged.
func TestPlacedIsCarried(t *testing.T) {
	for iface, cfg := range map[string]config.CloudSigmaOptions{"wan0": {}, "eth0": {Interface: "eth0"}} {
		t.Run(iface, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				var registry *prometheus.Registry
				r := start(t, placed(), []string{"b"}, func(p *parts) {
					placing(p, &out, cfg)
					registry = p.registry.(*prometheus.Registry)
				})
				after(10 * time.Second)
				if got := r.kernel.Ours(); len(got) != 1 || got[0] != (link.Address{Interface: iface, Addr: vip}) {
					t.Fatalf("in the kernel: %v", got)
				}
				if !r.tables.Answers(iface, vip) || !r.announcer.announces(vip, iface) {
					t.Error("not announced")
				}
				if slices.Contains(r.events(), string(lb.OffSubnet)) {
					t.Error("the user is warned of another subnet")
				}
				if strings.Contains(out.String(), "first packet") {
					t.Error("a packet before the first")
				}
				r.tables.Receive(vip, lb.Port{Protocol: "TCP", Number: 80})
				after(2 * countPeriod)
				r.tables.Receive(vip, lb.Port{Protocol: "TCP", Number: 80})
				after(2 * countPeriod)
				if n := strings.Count(out.String(), "first packet"); n != 1 {
					t.Errorf("logged %d times:\n%s", n, out.String())
				}
				families, err := registry.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range families {
					if f.GetName() == "fairlead_agent_received_packets_total" {
						if got := f.GetMetric()[0].GetCounter().GetValue(); got != 2 || len(f.GetMetric()[0].GetLabel()) != 3 {
							t.Errorf("metric %v", f)
						}
						return
					}
				}
				t.Error("no metric")
			})
		})
	}
}

// An alias that another program has left is served as it is, and becomes ours when it
// is removed.
func TestOccupiedIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		alias := eth0("a")
		alias.Prefixes = append(alias.Prefixes, netip.PrefixFrom(vip, 32))
		r := start(t, placed(), []string{"b"}, func(p *parts) {
			placing(p, &out, config.CloudSigmaOptions{Interface: "eth0"})
			p.kernel = link.NewFake(alias)
		})
		after(time.Minute)
		if !r.tables.Answers("eth0", vip) || !r.announcer.announces(vip, "eth0") || len(r.kernel.Ours()) > 0 {
			t.Errorf("not served as it is:\n%s", out.String())
		}
		if n := strings.Count(out.String(), "serving it as it is"); n != 1 || strings.Contains(out.String(), "removed the address") {
			t.Errorf("logged %d times:\n%s", n, out.String())
		}
		r.kernel.SetLinks(eth0("a"))
		after(time.Second)
		r.has("the alias is gone", true)
	})
}

// While the controller moves an address that it has placed, no node can announce it for
// a moment. Users hear of it only if that lasts.
func TestPlacedMoves(t *testing.T) {
	for name, moves := range map[string]bool{"moves": true, "stays": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				third := "c" // a reports, of the two that are left
				for !chosen("a", vip.String(), []string{"a", third}, 1) {
					third += "c"
				}
				cluster := placed()
				cluster.put(nodeObject(third, "192.0.2.3"), placedOn("b"))
				var out bytes.Buffer
				r := start(t, cluster, []string{"b", third}, func(p *parts) { placing(p, &out, config.CloudSigmaOptions{Interface: "eth0"}) })
				after(10 * time.Second)
				r.group.die("b")
				after(placedGrace - 2*time.Second)
				if slices.Contains(r.events(), string(lb.NotAnnounced)) || r.silentFor(vip) != "" {
					t.Error("the user is warned while the address moves")
				}
				if moves {
					web := placedOn("a")
					r.cluster.put(web)
					r.changed(web)
				}
				after(2 * placedGrace)
				r.has("it is here", moves)
				if told := slices.Contains(r.events(), string(lb.NotAnnounced)); told == moves {
					t.Errorf("the user is warned: %t\n%s", told, out.String())
				}
			})
		})
	}
}
