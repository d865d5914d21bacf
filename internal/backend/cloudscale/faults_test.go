package cloudscale

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	compat "fairlead.io/internal/compat/cloudscale"
	simulated "fairlead.io/sandbox/cloudscale"
)

// faults is what may happen to any call.
var faults = map[string]simulated.Fault{
	"refused":              {Status: http.StatusBadRequest, Body: map[string]string{"name": "This is not a valid name."}},
	"busy":                 {Status: http.StatusBadRequest, Body: map[string]string{"detail": "The load balancer is being changed. Please try again."}},
	"unauthorized":         {Status: http.StatusUnauthorized},
	"read-only":            {Status: http.StatusForbidden},
	"not found":            {Status: http.StatusNotFound},
	"conflict":             {Status: http.StatusConflict},
	"too many":             {Status: http.StatusTooManyRequests, RetryAfter: 7 * time.Second},
	"server error":         {Status: http.StatusInternalServerError},
	"bad gateway":          {Status: http.StatusBadGateway},
	"maintenance":          {Status: http.StatusServiceUnavailable, Times: 3},
	"cut":                  {Cut: true, Times: 3},
	"answer lost":          {Lose: true},
	"answer too late":      {Lose: true, Latency: time.Minute},
	"done too late":        {Latency: 25 * time.Second},
	"done far too late":    {Latency: 100 * time.Second},
	"changing for a while": {Changing: 20 * time.Second},
}

// scenario is something that happens to a Service. It starts from a Service that
// is served, unless it is the first.
type scenario struct {
	name  string
	first bool
	do    func(*account)
}

var scenarios = []scenario{
	{"create", true, func(*account) {}},
	{"update", false, func(c *account) {
		// A port less, one more, one with another number, a new node, one that is gone.
		c.service.Spec.Ports = []corev1.ServicePort{port("http", 8080, 30080), port("admin", 9000, 30900)}
		c.service.Annotations[compat.AnnotationTimeoutClientData] = "1000"
		c.nodes = c.nodes[1:]
		c.addNode()
	}},
	{"pools made anew", false, func(c *account) { c.service.Annotations[compat.AnnotationPoolProtocol] = "proxyv2" }},
	{"delete", false, func(c *account) { c.gone = true }},
}

// play runs a scenario in a cloud of its own and returns what came of it. A fault
// happens to the call with that number.
func play(t *testing.T, s scenario, o simulated.Options, f *simulated.Fault, call int, restarts bool) (state []string, ingress []string, made map[simulated.Kind]int, calls int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, o, 2)
		if !s.first {
			c.settle()
			<-time.After(2 * time.Minute)
		}
		c.restarts = restarts
		s.do(c)
		c.sim.ResetLog()
		if f != nil {
			fault := *f
			fault.Skip = call
			c.sim.Fail(fault)
		}
		c.settle()
		calls = len(c.sim.Log())
		// Whatever was done too late is seen at the next resync.
		<-time.After(5 * time.Minute)
		c.settle()
		state, ingress, made = c.state(), c.ingress, map[simulated.Kind]int{}
		for _, r := range c.sim.Log() {
			if r.Method == http.MethodPost && r.Status == http.StatusCreated {
				made[r.Kind]++
			}
		}
		if n := len(c.sim.LoadBalancers()); n > 1 {
			t.Errorf("%d load balancers:\n%s", n, c.requests())
		}
		if t.Failed() {
			t.Logf("fault %v at call %d\n%s", f, call, c.requests())
		}
	})
	return state, ingress, made, calls
}

// Every call of everything that happens fails in every way; afterwards all is as
// if nothing had.
func TestEveryFaultOfEveryCall(t *testing.T) {
	for _, s := range scenarios {
		for _, o := range []simulated.Options{{Busy: simulated.BusyWaits}, {Busy: simulated.BusyRefuses, KeepListeners: true}} {
			t.Run(fmt.Sprintf("%s, changes %s", s.name, o.Busy), func(t *testing.T) {
				want, ingress, made, calls := play(t, s, o, nil, 0, false)
				if s.name != "delete" && len(ingress) != 2 {
					t.Errorf("published: %v", ingress)
				}
				for name, f := range faults {
					if o.KeepListeners && !f.Lose && f.Latency == 0 && f.Status != http.StatusBadRequest {
						continue // it is the same as in the other cloud
					}
					for call := range calls {
						for _, restarts := range []bool{false, true} {
							if restarts && !f.Lose && f.Status != http.StatusInternalServerError {
								continue
							}
							got, gotIngress, gotMade, _ := play(t, s, o, &f, call, restarts)
							if diff := cmp.Diff(want, got); diff != "" {
								t.Errorf("%s, call %d, restarts %v: %s", name, call, restarts, diff)
							}
							if diff := cmp.Diff(ingress, gotIngress); diff != "" {
								t.Errorf("%s, call %d, restarts %v: published %s", name, call, restarts, diff)
							}
							// Nothing is made twice, unless it was done after everybody had given up.
							if diff := cmp.Diff(made, gotMade); diff != "" && f.Latency == 0 {
								t.Errorf("%s, call %d, restarts %v: made %s", name, call, restarts, diff)
							}
							if t.Failed() {
								return
							}
						}
					}
				}
			})
		}
	}
}
