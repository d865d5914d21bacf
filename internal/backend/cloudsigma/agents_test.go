package cloudsigma

import (
	"testing"
	"time"

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
