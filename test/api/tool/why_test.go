package tool

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/agent/agentsim"
	"fairlead.io/test/kit/rig"
)

func TestNothingInstalled(t *testing.T) {
	w := newWorld(t)
	w.service("web", nil)
	expect(t, "status", 1, `
Controller  0 of 0 ready, no leader
Agents      0 of 0 ready
Pools       none
Services    announce: 0 ok, 1 waiting
✗ controller: No pod of the controller exists: Fairlead is not installed, or its Deployment has no replicas.
  → kubectl get deployments,daemonsets -A -l app.kubernetes.io/name=fairlead
✗ service shop/web: NoPool: No available IPs: there is no pool of addresses. Create a Pool (kubectl explain pool.spec), an IPAddressPool or a key such as cidr-global in the ConfigMap of kube-vip's cloud provider.
  → kubectl fairlead why shop/web
`)
}

func TestWhy(t *testing.T) {
	w := newWorld(t)
	w.install("n1", "n2", "n3")
	w.pool("edge", "192.0.2.7", "192.0.2.8")
	w.service("web", nil, "n1", "n2")
	w.announced("web")
	by, err := w.announcer("web")
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "status", 0, `
Controller  1 of 1 ready, leader fairlead-controller-x7k
Agents      3 of 3 ready
Pools       edge: 1 of 2 used, 1 free
Services    announce: 1 ok
✓ No problem found.
`)
	expect(t, "why shop/web", 0, `
shop/web  192.0.2.7  OK
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.7 from pool "edge" (1 of 2 used, 1 free)
✓ endpoints: pods serve on n1 and n2
✓ announced: 192.0.2.7 by node `+by+` on eth0, for TIME
`)

	t.Run("no event is needed", func(t *testing.T) {
		if err := theRig.Client.DeleteAllOf(t.Context(), &eventsv1.Event{}, client.InNamespace("shop")); err != nil {
			t.Fatal(err)
		}
		if got, code := run(t, "why", "web", "-n", "shop"); code != 0 {
			t.Errorf("exit %d:\n%s", code, got)
		}
	})

	t.Run("an address", func(t *testing.T) {
		if got, _ := run(t, "why", "192.0.2.7"); !strings.HasPrefix(got, "shop/web  192.0.2.7  OK") {
			t.Error(got)
		}
		expect(t, "why 192.0.2.8", 1, `
192.0.2.8
✗ Service: No Service has this address.
✓ pool: Pool "edge" contains it.
`)
		expect(t, "why 192.0.2.201", 1, `
192.0.2.201
✗ Service: No Service has this address.
✗ owner: AddressIsNode: It is an address of node n1: no Service may have it.
✗ pool: AddressNotInPool: No pool contains it.
→ kubectl fairlead ip
`)
	})

	t.Run("a full pool", func(t *testing.T) {
		w.service("second", nil, "n1")
		w.announced("second")
		w.service("third", nil, "n1")
		expect(t, "why shop/third", 1, `
shop/third  WAITING
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✗ address: PoolExhausted: No available IPs: no IPv4 address is free in pool "edge" (2 of 2 used). Add addresses, or delete a Service.
→ kubectl fairlead ip --by-namespace
→ Add addresses to a pool, or delete a Service. This Service then gets an address at once.
`)
		expect(t, "ip --by-namespace", 0, `
POOL   NAMESPACE   USED   QUOTA
edge   shop        2      -
`)
	})

	t.Run("another class", func(t *testing.T) {
		w.service("foreign", func(s *corev1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/lb") })
		expect(t, "why shop/foreign", 1, `
shop/foreign  NOT SERVED
✗ class: The configuration does not serve class "example.com/lb". It serves Services without a class and "fairlead.io/fairlead".
→ Add the class to the configuration (pod fairlead-system/fairlead-controller-x7k), or create the Service again: its class is immutable.
`)
	})

	t.Run("another type, and none", func(t *testing.T) {
		create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "inner"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}})
		expect(t, "why shop/inner", 1, `
shop/inner  NOT SERVED
✗ type: The type is ClusterIP, not LoadBalancer.
→ kubectl patch service -n shop inner -p '{"spec":{"type":"LoadBalancer"}}'
`)
		expect(t, "why shop/ghost", 1, `
shop/ghost  MISSING
✗ Service: There is no Service shop/ghost.
→ kubectl get services -A
`)
	})

	t.Run("a cable is cut, other nodes are excluded or have no pod", func(t *testing.T) {
		w.service("local", func(s *corev1.Service) {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}, "n1", "n2")
		for _, name := range []string{"third", "second"} {
			if err := theRig.Client.Delete(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		w.announced("local")
		label(t, "n2", map[string]any{corev1.LabelNodeExcludeBalancers: ""})
		down := agentsim.Eth0(w.addrs["n1"])
		down.Up = false
		w.kernels["n1"].SetLinks(down)
		expect(t, "why shop/local", 1, `
shop/local  192.0.2.8  UNREACHABLE
✓ class: Services without a class: served by backend announce
✓ controller: leader fairlead-controller-x7k
✓ address: 192.0.2.8 from pool "edge" (2 of 2 used, 0 free)
✓ endpoints: pods serve on n1 and n2
✗ announced: NotAnnounced: Address 192.0.2.8 is not announced. No node can announce it: n2 has the label node.kubernetes.io/exclude-from-external-load-balancers; n1 has no interface for it that is up; n3 has no serving endpoint, which externalTrafficPolicy: Local asks for. Fix that, or change how the pool is advertised.
    n1 has no interface for it that is up (eth0: down)
    n2 has the label node.kubernetes.io/exclude-from-external-load-balancers
    n3 has no serving endpoint, which externalTrafficPolicy: Local asks for
→ kubectl label node n2 node.kubernetes.io/exclude-from-external-load-balancers-
→ kubectl patch service -n shop local -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'
`)
		label(t, "n2", map[string]any{corev1.LabelNodeExcludeBalancers: nil})
		w.kernels["n1"].SetLinks(agentsim.Eth0(w.addrs["n1"]))
		w.announced("local")
	})

	t.Run("a new Service without endpoints", func(t *testing.T) {
		w.pool("lab", "192.0.2.24/32")
		w.service("idle", func(s *corev1.Service) { s.Annotations = map[string]string{"fairlead.io/pool": "lab"} })
		rig.Eventually(t, "it has an address, and why does not contradict itself", func() error {
			got, code := run(t, "why", "shop/idle")
			if code != 1 || !strings.HasPrefix(got, "shop/idle  192.0.2.24  UNREACHABLE\n") || !strings.Contains(got, "✗ endpoints: NoServingEndpoint: ") {
				return fmt.Errorf("exit %d:\n%s", code, got)
			}
			return nil
		})
		rig.Eventually(t, "the agents report it", func() error {
			if got, code := run(t, "ip"); code != 1 || !strings.Contains(got, "nobody: NoServingEndpoint") {
				return fmt.Errorf("exit %d:\n%s", code, got)
			}
			return nil
		})
		// What is not shown does not decide.
		expect(t, "ip --free", 0, `
POOL   FREE
edge   -
lab    -
`)
		if got, code := run(t, "ip", "--free", "-o", "json"); code != 0 || strings.Contains(got, "NoServingEndpoint") {
			t.Errorf("exit %d:\n%s", code, got)
		}
	})

	t.Run("no endpoint", func(t *testing.T) {
		if err := theRig.Client.DeleteAllOf(t.Context(), &discoveryv1.EndpointSlice{}, client.InNamespace("shop"), client.MatchingLabels{discoveryv1.LabelServiceName: "local"}); err != nil {
			t.Fatal(err)
		}
		got, code := run(t, "why", "shop/local")
		if want := "✗ endpoints: NoServingEndpoint: No pod of the Service serves.\n"; code != 1 || !strings.Contains(got, want) || !strings.Contains(got, "→ kubectl get pods -n shop -l app=local\n") {
			t.Errorf("exit %d:\n%s", code, got)
		}
	})
}

// label changes labels of a node; nil removes one.
func label(t *testing.T, node string, labels map[string]any) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := theRig.Client.Patch(context.Background(), n, mergePatch(t, map[string]any{"metadata": map[string]any{"labels": labels}})); err != nil {
		t.Fatal(err)
	}
}

func TestNoCluster(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none")
	if got, code := runWith(t, missing, "status"); code != 2 || !strings.HasPrefix(got, "fairlead: unknown: no cluster to ask: ") {
		t.Errorf("exit %d: %s", code, got)
	}
	if err := os.WriteFile(missing, []byte(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, code := runWith(t, missing, "status"); code != 2 || !strings.HasPrefix(got, "fairlead: unknown: ") {
		t.Errorf("exit %d: %s", code, got)
	}
}
