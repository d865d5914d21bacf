package cloudscale

import (
	"maps"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	compat "fairlead.io/internal/compat/cloudscale"
	simulated "fairlead.io/sandbox/cloudscale"
)

// A process begins to make a load balancer and dies. The cloud makes it while the next
// process leads already, or much later. There is one in the end, which nobody has to
// clean up; nothing is made twice if the cloud is not slower than a lost answer.
func TestCreateUnderAChangeOfLeader(t *testing.T) {
	for name, test := range map[string]struct {
		latency time.Duration
		deleted bool // the Service, meanwhile
		made    int
	}{
		"soon":                  {10 * time.Second, false, 1},
		"much later":            {100 * time.Second, false, 2},
		"of a Service that was": {10 * time.Second, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(t, simulated.Options{}, 2, unkept)
				out, err := c.backend.Sync(t.Context(), c.want())
				if err != nil || !out.Keep {
					t.Fatalf("%+v, %v", out, err)
				}
				maps.Copy(c.service.Annotations, out.Marks.Annotations)
				c.service.Finalizers = out.Marks.Finalizers
				c.sim.Fail(simulated.Fault{Method: http.MethodPost, Kind: simulated.LoadBalancers, Latency: test.latency})
				dying := c.backend
				go func() { _, _ = dying.Sync(t.Context(), c.want()) }()
				synctest.Wait()
				c.restart()
				c.gone = test.deleted
				c.settle()
				<-time.After(5 * time.Minute) // until all are looked at again
				c.settle()
				made := 0
				for _, r := range c.sim.Log() {
					if r.Method == http.MethodPost && r.Kind == simulated.LoadBalancers && r.Status == http.StatusCreated {
						made++
					}
				}
				want := 1
				if test.deleted {
					want = 0
				}
				if n := len(c.sim.LoadBalancers()); n != want || made != test.made {
					t.Errorf("%d load balancers, %d were made; want %d, %d:\n%s", n, made, want, test.made, c.requests())
				}
				if _, left := c.service.Annotations[compat.AnnotationCreating]; left && !test.deleted {
					t.Error("it is still said that one is being made")
				}
			})
		})
	}
}
