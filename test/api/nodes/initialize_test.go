package nodes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/cloud"
	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/test/kit/rig"
)

// initialized waits until the Node has what its server is.
func initialized(t *testing.T, name string, server cloudscale.Server) {
	t.Helper()
	public, private := server.Interfaces[0].Addresses, server.Interfaces[1].Addresses
	wantAddresses := fmt.Sprintf("Hostname %s, ExternalIP %s, ExternalIP %s, InternalIP %s", server.Name, public[0].Address, public[1].Address, private[0].Address)
	wantLabels := map[string]string{
		"node.kubernetes.io/instance-type": "flex-4-2", "beta.kubernetes.io/instance-type": "flex-4-2",
		"topology.kubernetes.io/region": "rma", "failure-domain.beta.kubernetes.io/region": "rma",
		"topology.kubernetes.io/zone": "rma1", "failure-domain.beta.kubernetes.io/zone": "rma1",
	}
	rig.Eventually(t, "node "+name+" is initialized", func() error {
		n, err := get(name)
		if err != nil {
			return err
		}
		if hasTaint(n, uninitialized.Key) {
			return fmt.Errorf("it has the taint")
		}
		if want := "cloudscale://" + server.UUID; n.Spec.ProviderID != want {
			return fmt.Errorf("providerID %q, want %q", n.Spec.ProviderID, want)
		}
		for k, want := range wantLabels {
			if n.Labels[k] != want {
				return fmt.Errorf("labels %v, want %v", n.Labels, wantLabels)
			}
		}
		if got := addresses(n); got != wantAddresses {
			return fmt.Errorf("addresses %s, want %s", got, wantAddresses)
		}
		return nil
	})
}

// Many new nodes cost one list, and are untouched by those that cannot be had.
func TestNewNodes(t *testing.T) {
	w := newWorld(t)
	servers := map[string]cloudscale.Server{}
	for i := range 20 {
		name := fmt.Sprintf("worker-%d", i)
		servers[name] = w.AddServer(name, fmt.Sprintf("10.1.1.%d", i+10))
		register(t, name)
	}
	w.AddServer("twin", "10.1.2.1")
	w.AddServer("twin", "10.1.2.2")
	register(t, "twin")
	register(t, "nobody")
	register(t, "elsewhere", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///eu-central-2a/i-0abc" })
	w.ResetLog()

	began := time.Now()
	stop := w.start(t)
	for name, server := range servers {
		initialized(t, name, server)
	}
	told(t, "worker-0", "Synced")
	told(t, "twin", "NodeAmbiguous", `2 servers are named "twin"`)
	told(t, "nobody", "NodeNotFound", `no server named "nobody"`)
	told(t, "elsewhere", "NodeForeign", "aws:///eu-central-2a/i-0abc")
	stop()
	// The list is read again every ten seconds at most by those who look; the
	// three that are not found look at one that is a second old.
	lists, gets := w.asked()
	if most := 2 + int(time.Since(began)/time.Second); lists > most || gets != 0 {
		t.Errorf("%d lists and %d gets in %s", lists, gets, time.Since(began))
	}
	for _, name := range []string{"twin", "nobody", "elsewhere"} {
		if n, err := get(name); err != nil || !hasTaint(n, uninitialized.Key) {
			t.Errorf("node %s: %v, %v", name, n.Spec.Taints, err)
		}
	}
}

// Where all nodes are in the cloud, one list is enough for all of them.
func TestOneList(t *testing.T) {
	w := newWorld(t)
	for i := range 30 {
		name := fmt.Sprintf("worker-%d", i)
		w.AddServer(name, fmt.Sprintf("10.1.1.%d", i+10))
		register(t, name)
	}
	w.ResetLog()
	began := time.Now()
	stop := w.start(t)
	for i := range 30 {
		rig.Eventually(t, "all nodes are initialized", func() error {
			n, err := get(fmt.Sprintf("worker-%d", i))
			if err == nil && hasTaint(n, uninitialized.Key) {
				err = fmt.Errorf("%s is not", n.Name)
			}
			return err
		})
	}
	stop()
	lists, gets := w.asked()
	if most := 1 + int(time.Since(began)/(10*time.Second)); lists > most || gets != 0 {
		t.Errorf("%d lists and %d gets for 30 nodes in %s", lists, gets, time.Since(began))
	}
}

// The taint goes when everything that pods are scheduled by is there.
func TestTaintGoesLast(t *testing.T) {
	w := newWorld(t)
	server := w.AddServer("worker-1", "10.1.1.1")
	node := register(t, "worker-1")
	events, err := theRig.Client.Watch(t.Context(), &corev1.NodeList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: node.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	w.start(t)
	for e := range events.ResultChan() {
		n, ok := e.Object.(*corev1.Node)
		if !ok || e.Type != watch.Modified {
			continue
		}
		if hasTaint(n, uninitialized.Key) {
			continue
		}
		got := []string{n.Spec.ProviderID, n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelTopologyRegion], n.Labels[corev1.LabelInstanceTypeStable]}
		if diff := cmp.Diff([]string{"cloudscale://" + server.UUID, "rma1", "rma", "flex-4-2"}, got); diff != "" {
			t.Errorf("without the taint, but also without: %s", diff)
		}
		return
	}
}

// The way that cloudscale's manual shows for clusters that exist: the node works
// already, and is tainted by hand for a moment.
func TestExistingCluster(t *testing.T) {
	w := newWorld(t)
	server := w.AddServer("worker-1", "10.1.1.1")
	register(t, "worker-1", func(n *corev1.Node) { n.Spec.Taints = nil })
	report(t, "worker-1", corev1.ConditionTrue)
	w.start(t)
	rig.Eventually(t, "it has addresses", func() error {
		n, err := get("worker-1")
		if err == nil && len(n.Status.Addresses) == 0 {
			err = fmt.Errorf("none")
		}
		return err
	})
	n, err := get("worker-1")
	if err != nil || n.Spec.ProviderID != "" || len(n.Labels) != 0 {
		t.Fatalf("labels %v and providerID %q before it was tainted: %v", n.Labels, n.Spec.ProviderID, err)
	}
	taint := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"value":"true","effect":"NoSchedule"}]}}`, uninitialized.Key)
	if _, err := theRig.Kube.CoreV1().Nodes().Patch(t.Context(), "worker-1", "application/strategic-merge-patch+json", []byte(taint), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	initialized(t, "worker-1", server)
}

// A node that registers while the controllers run finds its server, however old
// the list is.
func TestNewServerOfNewNode(t *testing.T) {
	w := newWorld(t)
	first := w.AddServer("worker-1", "10.1.1.1")
	register(t, "worker-1")
	w.start(t)
	initialized(t, "worker-1", first)
	took := cloud.LookAge                             // after which the list is read again in any case
	for i := 2; i < 7 && took >= cloud.LookAge; i++ { // a busy machine may be late
		name := fmt.Sprintf("worker-%d", i)
		next := w.AddServer(name, fmt.Sprintf("10.1.1.%d", i))
		register(t, name)
		began := time.Now()
		initialized(t, name, next)
		took = time.Since(began)
	}
	if took >= cloud.LookAge {
		t.Errorf("took %s", took)
	}
}

// While the cloud does not answer, a node waits; then it goes on by itself.
func TestCloudIsAway(t *testing.T) {
	w := newWorld(t)
	server := w.AddServer("worker-1", "10.1.1.1")
	end := w.Fail(cloudscale.Fault{Status: 503, Times: -1})
	register(t, "worker-1")
	w.start(t)
	rig.Eventually(t, "the cloud was asked", func() error {
		if lists, _ := w.asked(); lists < 4 {
			return fmt.Errorf("%d times", lists)
		}
		return nil
	})
	if n, err := get("worker-1"); err != nil || !hasTaint(n, uninitialized.Key) {
		t.Errorf("node %v, %v", n, err)
	}
	end()
	initialized(t, "worker-1", server)
}

func TestNodeIPUnknownToTheCloud(t *testing.T) {
	w := newWorld(t)
	server := w.AddServer("worker-1", "10.1.1.1")
	public := server.Interfaces[0].Addresses
	register(t, "worker-1", func(n *corev1.Node) {
		n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: "10.9.9.9"}
	})
	w.start(t)
	told(t, "worker-1", "NodeAddressUnknown", "10.9.9.9", strings.Join([]string{public[0].Address.String(), public[1].Address.String(), "10.1.1.1"}, ", "), "stays uninitialized")
	if n, err := get("worker-1"); err != nil || !hasTaint(n, uninitialized.Key) {
		t.Errorf("node %v, %v", n, err)
	}
	// The kubelet is restarted with an address that the cloud knows.
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"10.1.1.1"}}}`, cloudproviderapi.AnnotationAlphaProvidedIPAddr)
	if _, err := theRig.Kube.CoreV1().Nodes().Patch(t.Context(), "worker-1", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the node is initialized", func() error {
		n, err := get("worker-1")
		if err == nil && (hasTaint(n, uninitialized.Key) || !strings.HasPrefix(addresses(n), "InternalIP 10.1.1.1, ")) {
			err = fmt.Errorf("taints %v, addresses %s", n.Spec.Taints, addresses(n))
		}
		return err
	})
}
