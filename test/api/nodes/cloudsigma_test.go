package nodes

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	internal "fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/nodes"
	sim "fairlead.io/sandbox/cloudsigma"
	"fairlead.io/test/kit/rig"
)

// clusterAPI is the taint that Cluster API gives new Nodes.
var clusterAPI = corev1.Taint{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}

// waits says whether a Node still has one of the two taints. It may have others.
func waits(n *corev1.Node) bool { return hasTaint(n, uninitialized.Key) || hasTaint(n, clusterAPI.Key) }

// startSigma runs the node controllers in a simulated CloudSigma.
func startSigma(t *testing.T, change ...func(*nodes.Options)) (*sim.Simulator, *cloudsigma.Client) {
	t.Helper()
	w := newWorld(t)
	s := sim.New(sim.Options{})
	t.Cleanup(s.Close)
	secret, err := internal.NewSecret("password", s.Token(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cloudsigma.New(cloudsigma.Options{Region: "zrh", Basic: &internal.Basic{User: "user@example.com", Password: secret}, HTTP: s.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	w.start(t, append([]func(*nodes.Options){func(o *nodes.Options) {
		o.Cloud, o.StatusPeriod = nodes.NewCloudSigma(c, "zrh"), time.Second
	}}, change...)...)
	return s, c
}

func sigmaServer(t *testing.T, s *sim.Simulator, name string, cards ...sim.NewNIC) string {
	t.Helper()
	server, err := s.AddServer(sim.NewServer{Name: name, NICs: cards})
	if err != nil {
		t.Fatal(err)
	}
	return server.UUID
}

func awaitNode(t *testing.T, what, name string, check func(*corev1.Node) error) {
	t.Helper()
	rig.Eventually(t, what, func() error {
		n, err := get(name)
		if err != nil {
			return err
		}
		return check(n)
	})
}

func wantAddresses(want string) func(*corev1.Node) error {
	return func(n *corev1.Node) error {
		if got := addresses(n); got != want {
			return fmt.Errorf("addresses %s, want %s", got, want)
		}
		return nil
	}
}

func TestCloudSigmaNodes(t *testing.T) {
	s, c := startSigma(t)
	id := sigmaServer(t, s, "worker-1", sim.NewNIC{Mode: "dhcp", Addr4: "203.0.113.5"})
	sigmaServer(t, s, "worker-2", sim.NewNIC{VLAN: "v"}, sim.NewNIC{Mode: "manual", Addr4: "*"})
	register(t, "worker-1", func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, clusterAPI) })
	register(t, "worker-2", func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{clusterAPI}
		n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "10.1.1.2"}
	})
	register(t, "nobody", func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, clusterAPI) })

	labels := map[string]string{
		"node.kubernetes.io/instance-type": "cpu-2000-mem-2048", "topology.kubernetes.io/region": "zrh", "topology.kubernetes.io/zone": "zrh",
	}
	awaitNode(t, "worker-1 is initialized", "worker-1", func(n *corev1.Node) error {
		if waits(n) || n.Spec.ProviderID != "cloudsigma://"+id {
			return fmt.Errorf("taints %v, providerID %s", n.Spec.Taints, n.Spec.ProviderID)
		}
		for k, want := range labels {
			if n.Labels[k] != want {
				return fmt.Errorf("labels %v", n.Labels)
			}
		}
		return nil
	})
	awaitNode(t, "worker-1 has its address", "worker-1", wantAddresses("Hostname worker-1, ExternalIP 203.0.113.5"))
	awaitNode(t, "worker-2 has no taint", "worker-2", func(n *corev1.Node) error {
		if waits(n) {
			return fmt.Errorf("taints %v", n.Spec.Taints)
		}
		return nil
	})
	awaitNode(t, "worker-2 keeps the kubelet's address", "worker-2", wantAddresses("InternalIP 10.1.1.2, Hostname worker-2"))

	// The address of a Service comes, with the guest having it, and goes.
	address := netip.MustParseAddr("192.0.2.7")
	s.Subscribe(address)
	if _, err := c.Tags.Change(t.Context(), cloudsigma.TagChange{Name: "service:default-web", Add: []string{address.String()}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Servers.Change(t.Context(), id, func(s *cloudsigma.Server) error { s.Attach(address); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Reboot(id); err != nil {
		t.Fatal(err)
	}
	other := netip.MustParseAddr("203.0.113.6")
	second := sim.NewNIC{Mode: "dhcp", Addr4: other.String()}
	sigmaServer(t, s, "worker-3", second)
	register(t, "worker-3")
	awaitNode(t, "worker-3 has its address", "worker-3", wantAddresses("Hostname worker-3, ExternalIP 203.0.113.6")) // so a later round was made
	if n, err := get("worker-1"); err != nil || addresses(n) != "Hostname worker-1, ExternalIP 203.0.113.5" {
		t.Errorf("%v, %v", n.Status.Addresses, err)
	}
	told(t, "nobody", "NodeNotFound", "CloudSigma has no server")
	if n, err := get("nobody"); err != nil || !hasTaint(n, uninitialized.Key) || !hasTaint(n, clusterAPI.Key) {
		t.Errorf("%v, %v", n.Spec.Taints, err)
	}
}

// A Node goes with its server, is tainted when that is stopped, and stays when the
// account may not see it.
func TestCloudSigmaLifecycle(t *testing.T) {
	s, _ := startSigma(t)
	other := s.AddUser("other@example.com", "x")
	foreign, err := s.AddServer(sim.NewServer{Name: "foreign", Owner: other.UUID})
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{"foreign": foreign.UUID}
	for _, name := range []string{"stops", "gone"} {
		ids[name] = sigmaServer(t, s, name, sim.NewNIC{Mode: "dhcp", Addr4: "*"})
	}
	for name, id := range ids {
		register(t, name, func(n *corev1.Node) { n.Spec.ProviderID, n.Spec.Taints = "cloudsigma://"+id, nil })
		report(t, name, corev1.ConditionUnknown)
	}
	if err := s.SetStatus(ids["stops"], "paused"); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(sim.Servers, ids["gone"]); err != nil {
		t.Fatal(err)
	}
	s.ResetLog()
	awaitNode(t, "the paused one is tainted", "stops", func(n *corev1.Node) error {
		if !hasTaint(n, cloudproviderapi.TaintNodeShutdown) {
			return fmt.Errorf("taints %v", n.Spec.Taints)
		}
		return nil
	})
	rig.Eventually(t, "the Node of the deleted server is deleted", func() error {
		if n, err := get("gone"); err == nil {
			return fmt.Errorf("%v", n.Spec)
		}
		return nil
	})
	rig.Eventually(t, "the forbidden one was asked for some times", func() error {
		n := 0
		for _, r := range s.Log() {
			if r.Status == 403 {
				n++
			}
		}
		if n < 5 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	if _, err := get("foreign"); err != nil {
		t.Error(err)
	}
	if err := s.SetStatus(ids["stops"], "running"); err != nil {
		t.Fatal(err)
	}
	report(t, "stops", corev1.ConditionTrue)
	awaitNode(t, "the taint goes", "stops", func(n *corev1.Node) error {
		if hasTaint(n, cloudproviderapi.TaintNodeShutdown) {
			return fmt.Errorf("taints %v", n.Spec.Taints)
		}
		return nil
	})
}
