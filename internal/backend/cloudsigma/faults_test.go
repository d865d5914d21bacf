package cloudsigma

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudsigma"
)

// faults is what may happen to any call.
var faults = map[string]simulated.Fault{
	"refused":         {Status: http.StatusBadRequest},
	"unauthorized":    {Status: http.StatusUnauthorized},
	"forbidden":       {Status: http.StatusForbidden},
	"not found":       {Status: http.StatusNotFound},
	"too many":        {Status: http.StatusTooManyRequests, RetryAfter: 7 * time.Second},
	"server error":    {Status: http.StatusInternalServerError},
	"bad gateway":     {Status: http.StatusBadGateway, Body: "<html><h1>502</h1></html>"},
	"concurrency":     {Status: http.StatusServiceUnavailable, Body: []map[string]string{{"error_type": "concurrency", "error_message": "Try again."}}},
	"maintenance":     {Status: http.StatusServiceUnavailable, Times: 3},
	"cut":             {Cut: true, Times: 3},
	"answer lost":     {Lose: true},
	"answer too late": {Lose: true, Latency: time.Minute},
	"done too late":   {Latency: 33 * time.Second}, // between the client's timeout and its next look
}

// scenario is something that happens to a Service. It starts from one that is served,
// beside another one, unless it is the first.
type scenario struct {
	name  string
	first bool
	do    func(w *world, s *corev1.Service)
	want  func(w *world) []string
}

var scenarios = []scenario{
	{"create", true, func(*world, *corev1.Service) {}, func(w *world) []string { return w.claimed("192.0.2.11", webTag, "worker-2") }},
	{"move", false, func(w *world, _ *corev1.Service) { w.node("worker-2").Ready = false }, func(w *world) []string { return w.claimed("192.0.2.11", webTag, "worker-3") }},
	{"another address", false, func(_ *world, s *corev1.Service) { s.Annotations["fairlead.io/addresses"] = "192.0.2.13" }, func(w *world) []string { return w.claimed("192.0.2.13", webTag, "worker-3") }},
	{"delete", false, func(w *world, s *corev1.Service) { w.delete(s) }, func(*world) []string { return nil }},
}

// run plays a scenario in a cloud of its own; disturb is called before it.
func (s scenario) run(t *testing.T, disturb func(w *world)) (calls int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, simulated.Knobs{}, 3, 4)
		other := w.create("other")
		w.settle()
		var web *corev1.Service
		if !s.first {
			web = w.create("web")
			w.settle()
			<-time.After(2 * time.Minute)
		}
		w.sim.ResetLog()
		if s.first {
			web = w.create("web")
		}
		s.do(w, web)
		if disturb != nil {
			disturb(w)
		}
		w.settle()
		calls = len(w.sim.Log())
		// Whatever was done too late is seen at the next resync.
		<-time.After(5 * time.Minute)
		w.settle()
		w.want(s.name, slices.Concat(s.want(w), w.claimed("192.0.2.10", "service:shop-other", "worker-1"))...)
		if published(other) != "192.0.2.10" || placed(other) != "192.0.2.10: worker-1" {
			t.Errorf("another Service has %s on %s", published(other), placed(other))
		}
		for _, tag := range w.sim.Tags() {
			if n := len(slices.DeleteFunc(w.sim.Tags(), func(o simulated.Tag) bool { return o.Name != tag.Name })); n > 1 {
				t.Errorf("%d tags %s\n%s", n, tag.Name, w.requests())
			}
		}
	})
	return calls
}

// Every call of everything that happens fails in every way; afterwards all is as if
// nothing had.
func TestEveryFaultOfEveryCall(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			calls := s.run(t, nil)
			for name, f := range faults {
				for call := range calls {
					for _, restarts := range []bool{false, true} {
						if restarts && !f.Lose && f.Status != http.StatusInternalServerError {
							continue
						}
						s.run(t, func(w *world) {
							fault := f
							fault.Skip = call
							w.sim.Fail(fault)
							w.restarts = restarts
						})
						if t.Failed() {
							t.Fatalf("%s at call %d of %d, restarts %v", name, call, calls, restarts)
						}
					}
				}
			}
		})
	}
}

// Tags that the cloud makes after it was looked again whether they are there are made
// twice; the second ones go.
func TestTagsMadeTwice(t *testing.T) {
	scenarios[0].run(t, func(w *world) {
		w.sim.Fail(simulated.Fault{Kind: simulated.Tags, Method: http.MethodPost, Latency: 40 * time.Second})
	})
}

// The process ends between any two calls, and a new one begins.
func TestCrashBetweenAnyTwoCalls(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			calls := s.run(t, nil)
			for call := range calls + 1 {
				s.run(t, func(w *world) {
					end := w.sim.Fail(simulated.Fault{Skip: call, Times: -1, Cut: true})
					for _, one := range slices.Clone(w.services) {
						before := one.DeepCopy()
						if _, err := w.look(one); err != nil {
							*one = *before // it had no time to write
						}
					}
					end()
					w.restart()
				})
				if t.Failed() {
					t.Fatalf("ended after call %d of %d", call, calls)
				}
			}
		})
	}
}

// How many calls it takes, with the lists of the resync.
func TestCalls(t *testing.T) {
	got := map[string]string{}
	for _, s := range scenarios {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, simulated.Knobs{}, 3, 4)
			w.create("other")
			w.settle()
			web := w.create("web")
			if s.first {
				w.services = w.services[:1]
			} else {
				w.settle()
			}
			<-time.After(10 * time.Second) // what was read before is too old for a write
			w.sim.ResetLog()
			if s.first {
				w.services = append(w.services, web)
			}
			s.do(w, web)
			w.settle()
			got[s.name] = fmt.Sprintf("%d, %d of them writes", len(w.sim.Log()), w.sim.Writes())
		})
	}
	want := map[string]string{"create": "8, 4 of them writes", "move": "4, 2 of them writes", "delete": "8, 4 of them writes", "another address": "16, 8 of them writes"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Many Services at once: their changes of tags and of servers are merged, and they are
// spread over the nodes.
func TestManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 60
		w := newWorld(t, simulated.Knobs{}, 3, n)
		w.sim.Fail(simulated.Fault{Times: -1, Latency: 100 * time.Millisecond})
		var all sync.WaitGroup
		var wants []lb.Want
		for i := range n {
			s := kubeapi.Service(w.create(fmt.Sprint("web-", i), func(s *corev1.Service) { s.Finalizers = []string{lb.CleanupFinalizer} }))
			want := lb.Want{Service: *s, Nodes: slices.Clone(w.nodes), Request: w.request(s)}
			want.Verdict, _ = w.ledger.Settle(want.Request, nil)
			wants = append(wants, want)
		}
		peers := w.values()
		w.sim.ResetLog()
		began := time.Now()
		outcomes := make([]lb.Outcome, n)
		for i := range wants {
			wants[i].Peers = peers
			all.Go(func() {
				var err error
				if outcomes[i], err = w.backend.Sync(t.Context(), wants[i]); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		on := map[string]int{}
		for i, out := range outcomes {
			address := wants[i].Verdict.Addresses[0]
			if len(out.Ingress) != 1 || out.Ingress[0].IP != address.String() || len(out.Carriers[address]) != 1 {
				t.Fatalf("%s: %+v", wants[i].Service.Key, out)
			}
			on[out.Carriers[address][0]]++
		}
		if on["worker-1"] != n/3 || on["worker-2"] != n/3 || on["worker-3"] != n/3 {
			t.Errorf("spread %v", on)
		}
		if got := len(w.sim.Tagged("cluster:prod")); got != n {
			t.Errorf("%d claimed", got)
		}
		if calls, took := len(w.sim.Log()), time.Since(began); calls > 2*n || took > 5*time.Second {
			t.Errorf("%d calls in %s", calls, took)
		} else {
			t.Logf("%d calls in %s", calls, took)
		}
	})
}

// A resync of many Services, to which nothing has happened, is one list of each kind.
func TestIdleResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		w := newWorld(t, simulated.Knobs{}, 3, n)
		for i := range n {
			w.create(fmt.Sprint("web-", i))
		}
		w.settle()
		<-time.After(5 * time.Minute)
		w.sim.ResetLog()
		for _, s := range w.services {
			if _, err := w.look(s); err != nil {
				t.Fatal(err)
			}
		}
		want := map[simulated.Call]int{}
		for _, kind := range []simulated.Kind{simulated.IPs, simulated.Tags, simulated.Servers} {
			want[simulated.Call{Method: http.MethodGet, Kind: kind}] = 1
		}
		if diff := cmp.Diff(want, w.sim.Counts()); diff != "" {
			t.Error(diff)
		}
	})
}
