package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

// latest is how long two Services may have one address.
const latest = 2 * time.Second

// TestLateWrite kills a controller while the API server has not yet done its write, and has
// it done after the next controller has given the address to another Service. Both
// Services have it then: the older one keeps it, whichever was served first, the other one
// gets another, and both are told.
func TestLateWrite(t *testing.T) {
	binary := tree.Binary(t, "fairlead")
	for name, late := range map[string]int{"of the older": 0, "of the younger": 1} {
		t.Run(name, func(t *testing.T) {
			theRig.Clean(t)
			pool := createPool(t, "late", "10.64.0.0/28")
			services := []*corev1.Service{newService("late-a"), newService("late-b")}
			for _, s := range services { // nobody serves them yet
				s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeClusterIP, nil
				createAll(t, s)
			}
			if a, b := services[0], services[1]; a.CreationTimestamp.Equal(&b.CreationTimestamp) && b.UID < a.UID {
				services[0], services[1] = b, a
			}
			first, second := services[late], services[1-late]
			ask := func(s *corev1.Service) {
				t.Helper()
				patch := fmt.Sprintf(`{"metadata":{"annotations":{"fairlead.io/pool":%q}},"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false}}`, pool.Name)
				if s == first {
					patch = `{"spec":{"type":"LoadBalancer","allocateLoadBalancerNodePorts":false}}`
				}
				if err := theRig.Client.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
					t.Fatal(err)
				}
			}
			l := keepLedger(t)

			g := newGateway(t)
			g.hold("/services/" + first.Name + "/status")
			defer g.release()
			ask(first)
			killed := g.launch(t, binary, "--log-level=warn")
			rig.Eventually(t, "the first has been given an address", func() error { return atLeast(g.waiting(), 1) })
			killed.Kill()

			// The next controller has no pool for the first, and gives its address away.
			edit(t, pool, `{"spec":{"autoAssign":false}}`)
			ask(second)
			g.launch(t, binary)
			rig.Eventually(t, "the second has an address", func() error { return hasAddress(second) })
			contested := addressesOf(second)[0]

			g.next()
			rig.Eventually(t, "the late write is done", func() error { return hasAddress(first) })
			g.release()
			edit(t, pool, `{"spec":{"autoAssign":true}}`)
			has := settled(t, "")
			l.close(t)
			if len(l.doubles) != 1 || l.longest > latest {
				t.Errorf("two holders: %v, for %s", l.doubles, l.longest)
			}
			t.Logf("%s had two holders for %s", contested, l.longest)
			older, younger := services[0], services[1]
			if has[older.Name] != contested || has[younger.Name] == contested {
				t.Errorf("the older has %s, the younger %s; contested was %s", has[older.Name], has[younger.Name], contested)
			}
			for s, code := range map[*corev1.Service]lb.Code{older: lb.AddressContested, younger: lb.AddressInUse} {
				rig.Eventually(t, fmt.Sprintf("%s is told %s", s.Name, code), func() error { return told(s, code) })
			}
		})
	}
}

func atLeast(n, want int) error {
	if n < want {
		return fmt.Errorf("%d of %d", n, want)
	}
	return nil
}

func hasAddress(s *corev1.Service) error {
	if err := theRig.Client.Get(context.Background(), client.ObjectKeyFromObject(s), s); err != nil {
		return err
	}
	if len(addressesOf(s)) == 0 {
		return errors.New("not yet")
	}
	return nil
}

func edit(t testing.TB, p *v1alpha1.Pool, patch string) {
	t.Helper()
	if err := theRig.Client.Patch(t.Context(), p, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}
