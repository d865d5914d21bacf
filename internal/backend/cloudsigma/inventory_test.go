package cloudsigma

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudsigma"
)

// Which addresses of an account Services may have.
func TestPools(t *testing.T) {
	play(t, simulated.Knobs{}, 1, 0, func(t *testing.T, w *world) {
		subscribe := func(addresses ...string) {
			for _, a := range addresses {
				w.sim.Subscribe(netip.MustParseAddr(a))
			}
		}
		subscribe("192.0.2.10", "192.0.2.11", "192.0.2.12", "192.0.2.13", "192.0.2.14", "192.0.2.15", "2001:db8:f::9")
		w.sim.AddDynamic(netip.MustParseAddr("203.0.113.77"))
		w.sim.AddTag("cluster:staging", "192.0.2.11", "203.0.113.78")
		w.sim.AddTag("service:shop-web", "192.0.2.12")           // of nobody's cluster: used by hand
		w.addServer("db", "static", "192.0.2.20")                // another server's own
		w.attach("worker-1", "192.0.2.13")                       // attached, but not by us
		w.attach("worker-1", "192.0.2.14")                       // attached by us
		w.sim.AddTag("cluster:prod", "192.0.2.14", "192.0.2.15") // claimed by us, and not yet used
		w.sim.AddTag("service:shop-web", "192.0.2.15")
		w.sim.AddTag("managed-by:cloudsigma-ccm", "192.0.2.14")
		w.backend.forget()
		show := func(services ...lb.Service) string {
			pools, err := w.backend.Pools(t.Context(), services)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, p := range pools {
				var spans []string
				for _, s := range p.Spans {
					spans = append(spans, lb.SpanString(s))
				}
				if out = append(out, p.Key.Name+": "+strings.Join(spans, " ")); p.ManualOnly != (p.Key.Name == "dynamic") {
					t.Errorf("pool %s is only used on request: %v", p.Key.Name, p.ManualOnly)
				}
			}
			return strings.Join(out, "; ")
		}
		if got, want := show(), "static: 192.0.2.10 192.0.2.14/31 2001:db8:f::9; dynamic: 203.0.113.77"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		// What a Service publishes is its own: the original may have left it without tags.
		if got, want := show(lb.Service{Ingress: []lb.Ingress{{IP: "192.0.2.13"}}}), "static: 192.0.2.10 192.0.2.13-192.0.2.15 2001:db8:f::9; dynamic: 203.0.113.77"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// A controller ended after it had claimed an address, before it could say so: the
// next one gives the Service the same.
func TestImport(t *testing.T) {
	play(t, simulated.Knobs{}, 1, 3, func(t *testing.T, w *world) {
		web := w.create("web", func(s *corev1.Service) { s.Finalizers = []string{lb.CleanupFinalizer} })
		w.create("other")
		for _, tag := range []string{"cluster:prod", webTag, "managed-by:cloudsigma-ccm"} {
			w.sim.AddTag(tag, "192.0.2.12")
		}
		w.restart()
		w.settle()
		if published(web) != "192.0.2.12" {
			t.Errorf("it has %s", published(web))
		}
		w.want("both", append(w.claimed("192.0.2.12", webTag, "worker-1"), w.claimed("192.0.2.10", "service:shop-other", "worker-1")...)...)
	})
}
