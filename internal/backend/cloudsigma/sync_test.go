package cloudsigma

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudsigma"
)

const webTag = "service:shop-web"

// play runs a test in a world of its own.
func play(t *testing.T, k simulated.Knobs, nodes, addresses int, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newWorld(t, k, nodes, addresses)) })
}

func TestLife(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 2, func(t *testing.T, w *world) {
		web := w.create("web")
		w.settle()
		w.want("created", w.claimed("192.0.2.10", webTag, "worker-1")...)
		if published(web) != "192.0.2.10" || placed(web) != "192.0.2.10: worker-1" || says(web) != lb.Ready || !slices.Contains(web.Finalizers, lb.CleanupFinalizer) {
			t.Errorf("%s on %s, %s, %v", published(web), placed(web), says(web), web.Finalizers)
		}
		if text := w.toldOf(AddressAttached); text != "Attached address 192.0.2.10 to node worker-1." {
			t.Errorf("told %q", text)
		}
		w.sim.ResetLog()
		w.settle()
		w.restart()
		w.settle()
		if w.sim.Writes() != 0 {
			t.Errorf("written although all is well:\n%s", w.requests())
		}
		w.delete(web)
		w.settle()
		w.want("deleted")
		if len(w.services) != 0 {
			t.Errorf("%s waits, %v", web.Name, web.Finalizers)
		}
	})
}

// An address is moved when its node cannot carry it any more, whoever says so, and
// stays when it can.
func TestMove(t *testing.T) {
	for name, test := range map[string]struct {
		do    func(w *world)
		stays bool
		why   string
	}{
		"not Ready":       {do: func(w *world) { w.node("worker-1").Ready = false }, why: "it is not Ready"},
		"lost by agents":  {do: func(w *world) { w.node("worker-1").Lost = true }, why: "its agent stopped answering"},
		"excluded":        {do: func(w *world) { w.node("worker-1").Receives = false }, why: "excluded"},
		"Node gone":       {do: func(w *world) { w.nodes = w.nodes[1:] }, why: "it is no node of this cluster"},
		"server stopped":  {do: func(w *world) { _ = w.sim.SetStatus(w.servers["worker-1"], "stopped"); w.backend.forget() }, why: "its server is stopped"},
		"server paused":   {do: func(w *world) { _ = w.sim.SetStatus(w.servers["worker-1"], "paused"); w.backend.forget() }, why: "its server is paused"},
		"server gone":     {do: func(w *world) { _ = w.sim.Delete(simulated.Servers, w.servers["worker-1"]); w.backend.forget() }},
		"another is idle": {do: func(w *world) { w.addNode("worker-0", "dhcp") }, stays: true},
		"cordoned":        {do: func(w *world) { w.node("worker-1").Cordoned = true }, stays: true},
		"nobody can": {do: func(w *world) {
			for i := range w.nodes {
				w.nodes[i].Ready = false
			}
		}, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, simulated.Knobs{}, 2, 2, func(t *testing.T, w *world) {
				web := w.create("web")
				w.settle()
				test.do(w)
				w.settle()
				node := "worker-2"
				if test.stays {
					node = "worker-1"
				}
				w.want(name, w.claimed("192.0.2.10", webTag, node)...)
				if published(web) != "192.0.2.10" || placed(web) != "192.0.2.10: "+node {
					t.Errorf("%s on %s", published(web), placed(web))
				}
				if text := w.toldOf(AddressMoved); test.why != "" && !strings.Contains(text, test.why) {
					t.Errorf("told %q, want %q in it", text, test.why)
				}
				if name == "nobody can" && says(web) != NoCarrier {
					t.Errorf("says %s", says(web))
				}
				// The old node is back, and has nothing.
				for i := range w.nodes {
					w.nodes[i].Ready, w.nodes[i].Lost, w.nodes[i].Receives = true, false, true
				}
				w.settle()
				w.want("back", w.claimed("192.0.2.10", webTag, node)...)
				if says(web) != lb.Ready {
					t.Errorf("says %s", says(web))
				}
			})
		})
	}
}

// Local keeps the address where pods serve.
func TestLocal(t *testing.T) {
	play(t, simulated.Knobs{}, 3, 1, func(t *testing.T, w *world) {
		web := w.create("web", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
		w.settle()
		if published(web) != "" || says(web) != NoCarrier {
			t.Errorf("without a pod: %s, %s", published(web), says(web))
		}
		for _, node := range []string{"worker-3", "worker-2"} {
			w.ends["web"] = []lb.Endpoint{{Node: node, Serving: true}}
			w.settle()
			w.want(node, w.claimed("192.0.2.10", webTag, node)...)
		}
		w.ends["web"] = nil
		w.settle()
		w.want("no pod any more: it stays", w.claimed("192.0.2.10", webTag, "worker-2")...)
		if published(web) != "192.0.2.10" || says(web) != NoCarrier {
			t.Errorf("%s, %s", published(web), says(web))
		}
	})
}

// Where the nodes' own cards may have any subscribed address, none is added, and
// the agents choose.
func TestManual(t *testing.T) {
	play(t, simulated.Knobs{}, 0, 2, func(t *testing.T, w *world) {
		w.addNode("worker-1", "manual")
		w.addNode("worker-2", "manual")
		web := w.create("web")
		w.settle()
		w.want("created", w.claimed("192.0.2.10", webTag, "")...)
		if published(web) != "192.0.2.10" || placed(web) != "192.0.2.10: any node" {
			t.Errorf("%s on %s", published(web), placed(web))
		}
		w.sim.ResetLog()
		w.node("worker-1").Ready = false
		w.settle()
		if w.sim.Writes() != 0 {
			t.Error(w.requests())
		}
		w.node("worker-1").Ready = true
		w.addNode("worker-3", "dhcp")
		w.backend.forget()
		w.settle()
		if placed(web) != "192.0.2.10: worker-1, worker-2" {
			t.Errorf("beside a node that is not manual: %s", placed(web))
		}
		w.delete(web)
		w.settle()
		w.want("deleted")
	})
}

// An address that moves from a node with a card for it to one that needs none is
// detached all the same.
func TestMoveToManual(t *testing.T) {
	play(t, simulated.Knobs{}, 1, 1, func(t *testing.T, w *world) {
		web := w.create("web")
		w.settle()
		w.addNode("worker-2", "manual")
		w.backend.forget()
		w.settle()
		w.want("it stays", w.claimed("192.0.2.10", webTag, "worker-1")...)
		w.node("worker-1").Ready = false
		w.settle()
		w.want("moved", w.claimed("192.0.2.10", webTag, "")...)
		if placed(web) != "192.0.2.10: worker-2" {
			t.Error(placed(web))
		}
	})
}

// Addresses are spread; control-plane and cordoned nodes are the last.
func TestSpread(t *testing.T) {
	play(t, simulated.Knobs{}, 4, 6, func(t *testing.T, w *world) {
		w.node("worker-1").Labels[controlPlane] = ""
		w.node("worker-2").Cordoned = true
		on := map[string]int{}
		for _, name := range []string{"a", "b", "c", "d"} {
			s := w.create(name)
			w.settle()
			on[strings.TrimPrefix(placed(s), published(s)+": ")]++
		}
		if on["worker-3"] != 2 || on["worker-4"] != 2 {
			t.Errorf("%v", on)
		}
		for _, s := range slices.Clone(w.services) {
			if strings.HasSuffix(placed(s), "worker-4") {
				w.delete(s)
			}
		}
		w.settle()
		e := w.create("e", annotated("fairlead.io/addresses", "192.0.2.15"))
		w.settle()
		if !strings.HasSuffix(placed(e), "worker-4") {
			t.Errorf("%s, although worker-4 has none", placed(e))
		}
	})
}

// CloudSigma accepts a change of a running server and does not make it: nothing is
// published, the claim stays, and it is tried again.
func TestAttachIgnored(t *testing.T) {
	play(t, simulated.Knobs{Running: "ignore"}, 2, 1, func(t *testing.T, w *world) {
		web := w.create("web")
		out, err := w.look(web)
		if err != nil || out.Reason.Code != AttachIgnored || out.Again != firstRetry || published(web) != "" {
			t.Fatalf("%v, %+v", err, out)
		}
		w.want("ignored", w.claimed("192.0.2.10", webTag, "")...)
		for range 10 {
			out, _ = w.look(web)
		}
		if out.Again != maxRetry || says(web) != AttachIgnored {
			t.Errorf("again after %s, says %s", out.Again, says(web))
		}
		if n := len(w.backend.chosen); n != 1 || w.backend.chosen[netip.MustParseAddr("192.0.2.10")] != "worker-1" {
			t.Errorf("another node was tried: %v", w.backend.chosen)
		}
		w.sim.Turn(func(k *simulated.Knobs) { k.Running = "store" })
		w.settle()
		w.want("made", w.claimed("192.0.2.10", webTag, "worker-1")...)
		if published(web) != "192.0.2.10" || says(web) != lb.Ready {
			t.Errorf("%s, %s", published(web), says(web))
		}
	})
}

// A Service may have several addresses of a family.
func TestSeveralAddresses(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 3, func(t *testing.T, w *world) {
		web := w.create("web", annotated("fairlead.io/addresses", "192.0.2.12, 192.0.2.10"))
		w.settle()
		both := append(w.claimed("192.0.2.12", webTag, "worker-1"), w.claimed("192.0.2.10", webTag, "worker-2")...)
		w.want("both", both...)
		if published(web) != "192.0.2.12 192.0.2.10" || placed(web) != "192.0.2.10: worker-2; 192.0.2.12: worker-1" || says(web) != lb.Ready {
			t.Errorf("%s on %s, %s", published(web), placed(web), says(web))
		}
		w.restart()
		w.settle()
		w.want("after a restart", both...)
		web.Annotations["fairlead.io/addresses"] = "192.0.2.10"
		w.settle()
		w.want("one less", w.claimed("192.0.2.10", webTag, "worker-2")...)
		w.delete(web)
		w.settle()
		w.want("deleted")
	})
}
