// Package cloud runs the controller against a real API server and a simulated
// cloudscale.ch: from the Service that somebody writes to the load balancer that
// there is, and back.
package cloud

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	backend "fairlead.io/internal/backend/cloudscale"
	cloudclient "fairlead.io/internal/cloudscale"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/test/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true}, &theRig))
}

const token = "sandboxtokensandboxtokensandbox1"

// world is a cloud with three servers, which are the nodes of a cluster.
type world struct {
	*cloudscale.Simulator
	t      *testing.T
	url    string
	subnet string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{Simulator: cloudscale.New(cloudscale.Options{Token: token, Changing: -1}), t: t}
	t.Cleanup(w.Close)
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.url = server.URL
	network := w.AddNetwork(cloudscale.Network{Name: "lan", Zone: "rma1"})
	w.subnet = w.AddSubnet(cloudscale.Subnet{Network: network.UUID, CIDR: netip.MustParsePrefix("10.1.0.0/16")}).UUID
	for i := range 3 {
		w.addNode(fmt.Sprintf("node-%d", i+1))
	}
	t.Cleanup(func() { clean(t) })
	return w
}

// clean removes what a test has left, also Services that wait for a controller.
func clean(t *testing.T) {
	ctx := context.Background()
	services, err := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range services.Items {
		s := &services.Items[i]
		if s.Finalizers = nil; s.Name != "kubernetes" {
			if _, err := theRig.Kube.CoreV1().Services(s.Namespace).Update(ctx, s, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	theRig.Clean(t)
	if err := theRig.Kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

func (w *world) addNode(name string) {
	w.t.Helper()
	number := name[strings.LastIndex(name, "-")+1:]
	server := w.AddNode(name, "rma1", w.subnet, netip.MustParseAddr("10.1.0."+number))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "cloudscale://" + server.UUID}}
	if _, err := theRig.Kube.CoreV1().Nodes().Create(w.t.Context(), node, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// start runs a controller.
func (w *world) start(change ...func(*controller.Cloud)) (stop func()) {
	w.t.Helper()
	secret, err := cloudclient.NewToken(token)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := cloudclient.New(cloudclient.Options{Token: secret, URL: w.url, HTTP: &http.Transport{}})
	if err != nil {
		w.t.Fatal(err)
	}
	servers := cloudclient.NewListing(func(ctx context.Context) ([]cloudclient.Server, error) { return c.Servers.List(ctx, nil) })
	cloud := controller.Cloud{Backend: backend.New(backend.Options{Client: c, Servers: servers, Cluster: "test"})}
	for _, f := range change {
		f(&cloud)
	}
	return theRig.Start(w.t, func(o *controller.Options) {
		o.Config = &config.Configuration{Classes: []config.Class{{Backend: config.Cloudscale}}}
		o.Cloud = &cloud
	})
}

// apply creates or changes a Service.
func (w *world) apply(text string) *corev1.Service {
	w.t.Helper()
	var s corev1.Service
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		w.t.Fatal(err)
	}
	s.APIVersion, s.Kind, s.Namespace = "v1", "Service", metav1.NamespaceDefault
	if err := theRig.Client.Patch(w.t.Context(), &s, client.Apply, client.FieldOwner("a person"), client.ForceOwnership); err != nil {
		w.t.Fatal(err)
	}
	return &s
}

// service waits until the Service is as it should be.
func (w *world) service(name, what string, want func(*corev1.Service) error) *corev1.Service {
	w.t.Helper()
	var s corev1.Service
	rig.Eventually(w.t, name+" "+what, func() error {
		if err := theRig.Client.Get(w.t.Context(), types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, &s); err != nil {
			return err
		}
		if err := want(&s); err != nil {
			return fmt.Errorf("%w (%v)", err, s.Status)
		}
		return nil
	})
	return &s
}

func ensured(s *corev1.Service) error {
	for _, c := range s.Status.Conditions {
		if c.Type == controller.ConditionReady && c.Status == metav1.ConditionTrue && len(s.Status.LoadBalancer.Ingress) > 0 {
			return nil
		}
	}
	return fmt.Errorf("not ready")
}

// eventually waits for something in the cloud.
func (w *world) eventually(what string, f func() error) {
	w.t.Helper()
	rig.Eventually(w.t, what, f)
}

func (w *world) listeners() []string {
	var out []string
	for _, l := range w.Listeners() {
		out = append(out, l.Name)
	}
	slices.Sort(out)
	return out
}
