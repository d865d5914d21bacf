package cloudsigma

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	dialect "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudsigma"
)

// Where the controller runs before the agents, as when both replace another controller,
// a published address stays on the node that it is attached to: for a minute.
func TestAgentsAreAwaited(t *testing.T) {
	for name, test := range map[string]struct {
		restart bool // of the controller, without the agent on worker-1
		comes   bool // after half a minute
		node    string
	}{
		"it comes":     {restart: true, comes: true, node: "worker-1"},
		"it does not":  {restart: true, node: "worker-2"},
		"it was there": {node: "worker-2"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, simulated.Knobs{}, 2, 2, func(t *testing.T, w *world) {
				web := w.create("web")
				w.settle()
				w.node("worker-1").Agent = false
				if test.restart {
					w.restart()
				}
				w.sim.ResetLog()
				if _, err := w.look(web); err != nil {
					t.Fatal(err)
				}
				if moved := w.sim.Writes() > 0; moved == test.restart {
					t.Errorf("moved at once: %v\n%s", moved, w.requests())
				}
				if test.comes {
					<-time.After(agentPatience / 2)
					w.node("worker-1").Agent = true
				}
				w.settle()
				w.want(name, w.claimed("192.0.2.10", webTag, test.node)...)
				if published(web) != "192.0.2.10" || placed(web) != "192.0.2.10: "+test.node {
					t.Errorf("%s on %s", published(web), placed(web))
				}
			})
		})
	}
}

// Where any node may have an address, one that the original has served stays on the node
// of its pod, until the agent there has it; then it is any node's.
func TestStaysOnTheNodeOfAnOldPod(t *testing.T) {
	for name, test := range map[string]struct {
		mode   string
		agent  bool // runs on that node at once; otherwise after half a minute
		node   string
		at     string // first
		at2    string // in the end
		writes bool
	}{
		"an agent runs there":    {"manual", true, "worker-2", "worker-2", lb.AnyNode, false},
		"an agent starts there":  {"manual", false, "worker-2", "worker-2", lb.AnyNode, false},
		"that node is gone":      {"manual", true, "worker-9", lb.AnyNode, lb.AnyNode, false},
		"there is no pod":        {"manual", true, "", lb.AnyNode, lb.AnyNode, false},
		"a NIC for each address": {"dhcp", true, "worker-2", "worker-2", "worker-2", true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, simulated.Knobs{}, 0, 1, func(t *testing.T, w *world) {
				for _, node := range []string{"worker-1", "worker-2", "worker-3"} {
					w.addNode(node, test.mode)
				}
				w.node("worker-2").Agent = test.agent
				for _, tag := range []string{"cluster:prod", webTag, dialect.ManagedTag} {
					w.sim.AddTag(tag, "192.0.2.10")
				}
				web := w.create("web", func(s *corev1.Service) {
					s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.10"}}
				})
				w.oldPods = map[string]string{"lb-ip-192-0-2-10": test.node}
				w.restart()
				w.sim.ResetLog()
				if _, err := w.look(web); err != nil {
					t.Fatal(err)
				}
				if got := placed(web); got != "192.0.2.10: "+test.at {
					t.Errorf("at first %s", got)
				}
				<-time.After(agentPatience / 2)
				w.node("worker-2").Agent = true
				if _, err := w.look(web); err != nil || placed(web) != "192.0.2.10: "+test.at {
					t.Errorf("with its agent %s, %v", placed(web), err)
				}
				w.settle()
				if got := placed(web); got != "192.0.2.10: "+test.at2 {
					t.Errorf("in the end %s", got)
				}
				if wrote := w.sim.Writes() > 0; wrote != test.writes || published(web) != "192.0.2.10" {
					t.Errorf("has %s; writes:\n%s", published(web), w.requests())
				}
			})
		})
	}
}
