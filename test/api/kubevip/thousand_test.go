package kubevip

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/controller"
	"fairlead.io/test/kit/rig"
)

// agent is how the controller calls itself here.
const agent = "fairlead-controller/test"

func named(o *controller.Options) { o.REST.UserAgent = agent }

// written counts what the controller wrote, as the API server saw it, refused
// writes included: for each Service, and of events.
func written(t *testing.T) (services map[string]int, events, all int) {
	t.Helper()
	counts, err := theRig.API.WriteCounts()
	if err != nil {
		t.Fatal(err)
	}
	services = map[string]int{}
	for w, n := range counts {
		if w.UserAgent != agent {
			continue
		}
		all += n
		switch w.Resource {
		case "services":
			services[w.Name] += n
		case "events":
			events += n
		}
	}
	return services, events, all
}

const thousand = 1000

func createThousand(t *testing.T, prefix string) {
	t.Helper()
	names := make(chan string)
	var makers sync.WaitGroup
	for range 16 {
		makers.Go(func() {
			for name := range names {
				if _, err := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault).Create(t.Context(), newService(name), metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range thousand {
		names <- fmt.Sprintf("%s-%d", prefix, i)
	}
	close(names)
	makers.Wait()
}

// all waits until every Service is so.
func all(t *testing.T, what string, is func(*corev1.Service) bool) (out []corev1.Service) {
	t.Helper()
	rig.Eventually(t, what, func() error {
		list, err := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		out, n := list.Items, 0
		for i := range out {
			if out[i].Spec.Type == corev1.ServiceTypeLoadBalancer && is(&out[i]) {
				n++
			}
		}
		if n != thousand {
			return fmt.Errorf("%d of %d", n, thousand)
		}
		return nil
	})
	return out
}

// silence waits until the controller has written so many events, and then for a
// while in which it must write nothing.
func silence(t *testing.T, want int) {
	t.Helper()
	rig.Eventually(t, fmt.Sprintf("%d events", want), func() error {
		if _, n, _ := written(t); n < want {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	_, _, before := written(t)
	<-time.After(3 * time.Second) // nothing happens: there is nothing to wait for
	if _, n, after := written(t); after != before || n != want {
		t.Errorf("%d events and %d writes, then %d without a reason", n, before, after)
	}
}

// A thousand Services that come at once, or wait for a pool and get it, are written
// once each by the API server's own count, and have each an address of its own.
func TestAThousandAtOnce(t *testing.T) {
	clean(t)
	start(t, provided, named, func(o *controller.Options) { o.Workers = 16 })
	_, eventsBefore, _ := written(t)
	createThousand(t, "waits")
	all(t, "all are told why they wait", says("NoPool: "))
	silence(t, eventsBefore+thousand)
	before, _, _ := written(t)

	create(t, configMap(map[string]string{"cidr-global": "10.64.0.0/20"}))
	distinct(t)
	silence(t, eventsBefore+2*thousand)
	after, _, _ := written(t)
	for name, n := range after {
		if strings.HasPrefix(name, "waits-") && (before[name] != 1 || n != 2) {
			t.Fatalf("%s was written %d times while it waited, and %d times since", name, before[name], n-before[name])
		}
	}
}

// The same with the pool there before.
func TestAThousandNewOnes(t *testing.T) {
	clean(t)
	create(t, configMap(map[string]string{"cidr-global": "10.80.0.0/20"}))
	createThousand(t, "new")
	start(t, provided, named, func(o *controller.Options) { o.Workers = 16 })
	distinct(t)
	writes, _, _ := written(t)
	for name, n := range writes {
		if strings.HasPrefix(name, "new-") && n != 1 {
			t.Fatalf("%s was written %d times", name, n)
		}
	}
}

// distinct waits until all have an address, each another.
func distinct(t *testing.T) {
	t.Helper()
	holders := map[string]string{}
	for _, s := range all(t, "all have an address", func(s *corev1.Service) bool { return s.Spec.LoadBalancerIP != "" }) {
		a := s.Annotations[addresses]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		if holders[a] != "" || a != s.Spec.LoadBalancerIP || s.Annotations[reason] != "" || len(s.Status.Conditions) > 0 {
			t.Fatalf("%s has %q, as has %q; annotations %v, status %v", s.Name, a, holders[a], s.Annotations, s.Status)
		}
		holders[a] = s.Name
	}
}
