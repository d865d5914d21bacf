package cloudscale

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/test/kit/process"
)

// The controller is killed at any moment of a create, an update and a delete, and
// again; whoever comes next finishes it. There is one load balancer at all times.
func TestKilledAtAnyMoment(t *testing.T) {
	w := newWorld(t, func(o *cloudscale.Options) { o.Creating, o.Changing = 200*time.Millisecond, 20*time.Millisecond })
	storm := func(what string, done func() error) {
		t.Helper()
		start := func() *process.Process {
			if n := len(w.LoadBalancers()); n > 1 {
				t.Fatalf("%s: %d load balancers", what, n)
			}
			return launch(t, w, theRig.API.Kubeconfig)
		}
		process.Storm(4, start, func() { <-time.After(time.Duration(300+rand.IntN(1200)) * time.Millisecond) })
		p := start()
		w.eventually(what, done)
		p.Kill()
	}
	served := func(ports ...string) func() error {
		return func() error {
			s, err := w.kube.CoreV1().Services("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := ensured(s); err != nil {
				return err
			}
			if err := w.has(ports...)(); err != nil {
				return err
			}
			return w.members(3)()
		}
	}
	w.apply(web)
	storm("created", served("tcp/443", "tcp/80"))
	first := w.LoadBalancers()[0].UUID
	w.apply(strings.Replace(strings.Replace(web, "port: 443", "port: 8443", 1), "{name: web}", fmt.Sprintf("{name: web, annotations: {%spool-algorithm: source_ip}}", prefix), 1))
	storm("updated", func() error {
		if err := served("tcp/80", "tcp/8443")(); err != nil {
			return err
		}
		if n := len(w.Pools()); n != 2 {
			return fmt.Errorf("%d pools", n)
		}
		return each(w.Pools(), `"algorithm":"source_ip"`)
	})
	if now := w.LoadBalancers()[0].UUID; now != first {
		t.Errorf("load balancer %s became %s", first, now)
	}
	w.delete("web")
	storm("deleted", w.gone("web"))
	if left := w.ids(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Of two controllers one works. When it is killed the other goes on; when the API
// server goes away for a while nothing changes in the cloud.
func TestTwoControllersAndARestart(t *testing.T) {
	w := newWorld(t, func(o *cloudscale.Options) { o.Creating, o.Changing = time.Second, 20*time.Millisecond })
	elect := []string{"--leader-elect", "--leader-elect-namespace", "kube-system"}
	a := launch(t, w, theRig.API.Kubeconfig, elect...)
	leads := func(p *process.Process) func() error {
		return func() error {
			if !strings.Contains(p.Log.String(), "Successfully acquired lease") {
				return fmt.Errorf("it does not lead")
			}
			return nil
		}
	}
	w.eventually("the first leads", leads(a))
	b := launch(t, w, theRig.API.Kubeconfig, elect...)
	w.apply(web)
	w.eventually("it has begun", func() error {
		if len(w.LoadBalancers()) == 0 {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	a.Kill()
	w.eventually("the second leads", leads(b))
	w.service("web", "is served", ensured)
	before := fmt.Sprint(w.ids())
	if n := len(w.LoadBalancers()); n != 1 {
		t.Fatalf("%d load balancers", n)
	}
	if err := theRig.API.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A leader that could not renew its lease ends; somebody starts it again.
	launch(t, w, theRig.API.Kubeconfig, elect...)
	if after := fmt.Sprint(w.ids()); after != before {
		t.Errorf("was %s, is %s", before, after)
	}
	w.annotate("web", "timeout-client-data-ms", "1001")
	w.eventually("it goes on", func() error { return each(w.Listeners(), `"timeout_client_data_ms":1001`) })
	var creates []string
	for _, done := range w.writes() {
		if done == "POST /v1/load-balancers" {
			creates = append(creates, done)
		}
	}
	if len(creates) != 1 {
		t.Errorf("%v", slices.Compact(w.writes()))
	}
}
