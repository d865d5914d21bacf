package cloudsigma

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/sandbox/cloudsigma"
)

// The life of a Service: it gets an address, keeps it through edits, restarts and
// the end of the controller, and leaves nothing behind.
func TestLife(t *testing.T) {
	w := newWorld(t, 2, cloudsigma.Knobs{})
	stop := w.start()
	web := w.create("web")
	served := w.service(web, "is served", on("192.0.2.10", "node-1"), says("Ready", "192.0.2.10"))
	if !slices.Contains(served.Finalizers, lb.CleanupFinalizer) {
		t.Errorf("finalizers %v", served.Finalizers)
	}
	w.told(web, "AddressAttached", "192.0.2.10", "node-1")
	w.has("claimed and attached", claimed("192.0.2.10", "default-web", "node-1")...)
	w.ResetLog()
	w.patch("web", `{"spec":{"ports":[{"port":80,"name":"http"},{"port":53,"name":"dns","protocol":"UDP"}]},"metadata":{"labels":{"a":"b"},"annotations":{"cloudsigma.com/ip-pool":"dynamic"}}}`)
	stop()
	w.has("the end of the controller changes nothing", claimed("192.0.2.10", "default-web", "node-1")...)
	w.start()
	second := w.create("second")
	w.service(second, "has the next address, on the next node", on("192.0.2.11", "node-2"))
	w.service(web, "has its own still", on("192.0.2.10", "node-1"))
	for _, r := range w.Log() {
		if r.Method != http.MethodGet && strings.Contains(r.Body, "192.0.2.10") && !strings.Contains(r.Body, "192.0.2.11") {
			t.Errorf("%s %s %s", r.Method, r.Path, r.Body)
		}
	}
	w.delete(web)
	w.has("one is gone", claimed("192.0.2.11", "default-second", "node-2")...)
	w.delete(second)
	w.has("all is gone")
}

// A Service that becomes another type gives its address back.
func TestTypeChange(t *testing.T) {
	for name, class := range map[string]string{"no class": "", "a class": "sigma"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, cloudsigma.Knobs{})
			w.startAs(w.Token(), "prod", class)
			web := w.create("web", func(s *corev1.Service) {
				if class != "" {
					s.Spec.LoadBalancerClass = &class
				}
			})
			w.service(web, "is served", on("192.0.2.10", "node-1"))
			w.patch("web", `{"spec":{"type":"ClusterIP","loadBalancerClass":null}}`)
			w.service(web, "is clean", func(s *corev1.Service) error {
				if len(s.Finalizers)+len(s.Status.Conditions)+len(s.Status.LoadBalancer.Ingress)+len(s.Annotations) > 0 {
					return errLeft
				}
				return nil
			})
			w.has("all is gone")
		})
	}
}

var errLeft = errString("something is left on it")

type errString string

func (e errString) Error() string { return string(e) }

// Services wait for an address, say so, and get it when one comes.
func TestExhausted(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	w.start()
	one := w.create("one")
	w.service(one, "is served", on("192.0.2.10", "node-1"))
	two := w.create("two")
	w.service(two, "waits", says("PoolExhausted", "static"))
	w.told(two, "PoolExhausted")
	w.delete(one)
	w.service(two, "has what the other gave back", on("192.0.2.10", "node-1"))
	three := w.create("three")
	w.service(three, "waits", says("PoolExhausted", "static"))
	w.Subscribe(netip.MustParseAddr("192.0.2.77"))
	w.service(three, "has what was bought", on("192.0.2.77", "node-2"))
}

// What is asked for in vain is told, and disturbs nobody.
func TestBadInput(t *testing.T) {
	w := newWorld(t, 3, cloudsigma.Knobs{})
	w.AddTag("cluster:staging", "192.0.2.12")
	w.start()
	unknown := w.create("unknown", annotated("cloudsigma.com/ip-pool", "moon"))
	w.service(unknown, "is served", on("192.0.2.10", "node-1"))
	w.told(unknown, "UnknownAddressPool", `"moon"`)
	asks := func(ip string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
	}
	w.service(w.create("theirs", asks("192.0.2.12")), "says whose it is", says("AddressTaken", "192.0.2.12", `"staging"`))
	w.service(w.create("nobodys", asks("198.51.100.1")), "says whose it is", says("AddressTaken", "does not have it"))
	w.service(w.create("held", asks("192.0.2.10")), "says whose it is", says("AddressInUse", "default/unknown"))
	w.service(w.create("node", asks("203.0.113.2")), "says whose it is", says("AddressTaken", `server "node-1"`))
	w.service(w.create("none", annotated("fairlead.io/addresses", "192.0.2.300")), "says what is wrong", says("InvalidRequest", "192.0.2.300"))
	w.service(w.create("pool", annotated("cloudsigma.com/ip-pool", "dynamic"), asks("192.0.2.11")), "says what is wrong", says("AddressNotInPool", "dynamic"))
	w.service(w.create("dynamic", annotated("cloudsigma.com/ip-pool", "dynamic")), "waits", says("FamilyUnavailable"))
	w.service(w.create("fine"), "is served", on("192.0.2.11", "node-2"))
	w.has("nobody else has anything", slices.Concat(claimed("192.0.2.10", "default-unknown", "node-1"), claimed("192.0.2.11", "default-fine", "node-2"), []string{"tag cluster:staging 192.0.2.12"})...)
}

// Credentials that are wrong, or may not do something, are told on the Service.
func TestCredentials(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	w.start()
	web := w.create("web")
	w.service(web, "is served", on("192.0.2.10", "node-1"))
	for status, reason := range map[int]string{401: "CredentialsInvalid", 403: "AccessDenied"} {
		end := w.Fail(cloudsigma.Fault{Kind: cloudsigma.Servers, Times: -1, Status: status})
		node := strings.TrimPrefix(kubeapi.Service(w.service(web, "is somewhere")).Carriers.String(), "192.0.2.10: ")
		w.ready(node, false)
		w.service(web, "says so, and keeps its address", says(reason), func(s *corev1.Service) error {
			if len(s.Status.LoadBalancer.Ingress) != 1 {
				return errString("it lost its address")
			}
			return nil
		})
		end()
		w.service(web, "is served again", says("Ready"))
		w.ready(node, true)
	}
}

// Nodes that are none of this cloud, or that it cannot tell apart, are passed over.
func TestForeignNodes(t *testing.T) {
	w := newWorld(t, 2, cloudsigma.Knobs{})
	foreign := func(n *corev1.Node) { n.Spec.ProviderID = "cloudscale://6a4a2d0c-0000-4000-8000-000000000001" }
	w.addNode("a-foreign", "dhcp", foreign)
	w.addNode("a-control", "dhcp", func(n *corev1.Node) {
		n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
	})
	w.addNode("a-excluded", "dhcp", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""} })
	w.addNode("a-cordoned", "dhcp", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	w.addNode("b-by-name", "dhcp", func(n *corev1.Node) { n.Spec.ProviderID = "" })
	w.start()
	w.service(w.create("one"), "is on the first that may", on("192.0.2.10", "b-by-name"))
	w.service(w.create("two"), "is on the next", on("192.0.2.11", "node-1"))
}

// Failover: whoever says that a node is dead, the address moves, and nothing moves
// back.
func TestFailover(t *testing.T) {
	for name, dies := range map[string]func(w *world){
		"agents say so":        func(w *world) { w.lost("node-2", "node-1"); w.lost("node-3", "node-1") },
		"its Node says so":     func(w *world) { w.ready("node-1", false) },
		"the cloud says so":    func(w *world) { _ = w.SetStatus(w.servers["node-1"], "stopped") },
		"its server is gone":   func(w *world) { _ = w.Delete(cloudsigma.Servers, w.servers["node-1"]) },
		"its Node is gone":     func(w *world) { _ = w.kube.CoreV1().Nodes().Delete(w.t.Context(), "node-1", metav1.DeleteOptions{}) },
		"it is to be excluded": func(w *world) { w.exclude("node-1") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, cloudsigma.Knobs{})
			w.start()
			web := w.create("web")
			w.service(web, "is served", on("192.0.2.10", "node-1"))
			dies(w)
			w.service(web, "moved", on("192.0.2.10", "node-2"), says("Ready"))
			w.has("moved", claimed("192.0.2.10", "default-web", "node-2")...)
			if name != "its server is gone" {
				w.told(web, "AddressMoved", "192.0.2.10", "node-2")
			}
		})
	}
}

func (w *world) exclude(node string) {
	w.t.Helper()
	n, err := w.kube.CoreV1().Nodes().Get(w.t.Context(), node, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: "true"}
	if _, err := w.kube.CoreV1().Nodes().Update(w.t.Context(), n, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// Policy Local: the address is where a pod serves.
func TestLocal(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	w.start()
	web := w.create("web", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
	w.service(web, "has nobody to serve it", says("NoCarrier", "no pod of the Service serves there"))
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.7"}, NodeName: ptr.To("node-3")}}}
	slice, err := w.kube.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.service(web, "is where the pod is", on("192.0.2.10", "node-3"))
	slice.Endpoints[0].NodeName = ptr.To("node-2")
	if _, err = w.kube.DiscoveryV1().EndpointSlices("default").Update(t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.service(web, "follows the pod", on("192.0.2.10", "node-2"))
}

// More than a page of everything; what is no address is passed over.
func TestManyOfEverything(t *testing.T) {
	w := newWorld(t, 30, cloudsigma.Knobs{MaxPage: 20})
	for i := range 25 {
		w.AddTag("cluster:staging", netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}).String())
	}
	w.start()
	w.service(w.create("web"), "has the first that is free", on("192.0.2.35", "node-1"))
}

// CloudSigma ignores changes of running servers: nothing is published.
func TestAttachIgnored(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{Running: "ignore"})
	w.start()
	web := w.create("web")
	s := w.service(web, "says so", says("AttachIgnored", "node-1", "manual"))
	if len(s.Status.LoadBalancer.Ingress) != 0 {
		t.Errorf("published %v", s.Status.LoadBalancer.Ingress)
	}
	w.told(web, "AttachIgnored")
	w.Turn(func(k *cloudsigma.Knobs) { k.Running = "store" })
	w.service(web, "is served", on("192.0.2.10", "node-1"))
}

// Nodes whose own card is manual need none for an address; agents choose.
func TestManual(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		if err := w.kube.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.addNode("manual-1", "manual")
	w.addNode("manual-2", "manual")
	w.start()
	web := w.create("web")
	w.service(web, "is on any node", on("192.0.2.10", "any node"))
	w.has("no NIC", claimed("192.0.2.10", "default-web", "")...)
}

// A dry run tells, and does nothing.
func TestDryRun(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	w.start()
	web := w.create("web", annotated("fairlead.io/dry-run", "true"))
	w.told(web, "ChangesPlanned", "create NIC 192.0.2.10: of server node-1", "impact: none")
	w.has("nothing was done")
	w.patch("web", `{"metadata":{"annotations":{"fairlead.io/dry-run":null}}}`)
	w.service(web, "is served", on("192.0.2.10", "node-1"))
}

// What others change is repaired at the next resync.
func TestDrift(t *testing.T) {
	w := newWorld(t, 1, cloudsigma.Knobs{})
	stop := w.start()
	web := w.create("web")
	w.service(web, "is served", on("192.0.2.10", "node-1"))
	stop()
	for _, tag := range w.Tags() {
		_ = w.Delete(cloudsigma.Tags, tag.UUID)
	}
	w.start()
	w.has("repaired", claimed("192.0.2.10", "default-web", "node-1")...)
}
