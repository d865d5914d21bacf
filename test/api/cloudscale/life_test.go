package cloudscale

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/lb"
	"fairlead.io/sandbox/cloudscale"
)

const web = `
metadata: {name: web}
spec:
  type: LoadBalancer
  ports:
  - {name: http, port: 80}
  - {name: https, port: 443}
`

// members: every pool has so many.
func (w *world) members(want int) func() error {
	return func() error {
		for _, p := range w.Pools() {
			if n := len(w.Members(p.UUID)); n != want {
				return fmt.Errorf("pool %s has %d members, want %d", p.Name, n, want)
			}
		}
		return nil
	}
}

// A Service that becomes another type gives its load balancer back, also if that
// was not even made yet, and whatever its class was.
func TestTypeChange(t *testing.T) {
	for name, class := range map[string]string{"no class": "", "a class": "\n  loadBalancerClass: cs"} {
		for _, early := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, early %v", name, early), func(t *testing.T) {
				w := newWorld(t, func(o *cloudscale.Options) {
					if early {
						o.Creating = 2 * time.Second
					}
				})
				w.start()
				w.apply(strings.Replace(web, "\n  ports", class+"\n  ports", 1))
				if early {
					w.eventually("a load balancer is being made", func() error {
						if len(w.LoadBalancers()) == 0 {
							return fmt.Errorf("none")
						}
						return nil
					})
				} else {
					w.service("web", "has a load balancer", ensured)
				}
				w.apply(strings.Replace(web, "LoadBalancer", "ClusterIP", 1))
				w.service("web", "is clean", clean)
				if n := len(w.LoadBalancers()); n > 0 {
					t.Errorf("%d load balancers left", n)
				}
			})
		}
	}
}

// Services of other classes are not touched, whatever they have.
func TestOtherClass(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.apply(strings.Replace(strings.Replace(web, "web", "other", 1), "\n  ports", "\n  loadBalancerClass: somebody/else\n  ports", 1))
	w.patch("other", `{"metadata":{"finalizers":["service.kubernetes.io/load-balancer-cleanup"]}}`)
	w.apply(web)
	w.service("web", "has a load balancer", ensured)
	w.delete("web")
	w.eventually("all gone", w.gone("web"))
	s := w.service("other", "is as it was", func(*corev1.Service) error { return nil })
	if !slices.Contains(s.Finalizers, lb.CleanupFinalizer) || len(s.Annotations)+len(s.Status.Conditions) > 0 || len(w.events("other")) > 0 {
		t.Errorf("%v, %v, %v, %v", s.Finalizers, s.Annotations, s.Status, w.events("other"))
	}
}
