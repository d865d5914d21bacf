// Package cloudsigma runs the controller against a real API server and a simulated
// CloudSigma: from the Service that somebody writes to the address that a node has,
// and back.
package cloudsigma

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/v1alpha1"
	backend "fairlead.io/internal/backend/cloudsigma"
	"fairlead.io/internal/cloud"
	client "fairlead.io/internal/cloudsigma"
	format "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudsigma"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
	"fairlead.io/test/kit/tree"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard()) // controllers have a log of their own
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true}, &theRig))
}

// world is an account whose servers are the nodes of a cluster, each with an agent.
type world struct {
	*cloudsigma.Simulator
	t       *testing.T
	rig     *rig.Rig
	kube    kubernetes.Interface
	url     string
	binary  string            // the real one, if it is built
	servers map[string]string // UUIDs by node
}

// newWorld has three nodes, and addresses from 192.0.2.10 on.
func newWorld(t *testing.T, addresses int, k cloudsigma.Knobs) *world {
	t.Helper()
	w := &world{Simulator: cloudsigma.New(cloudsigma.Options{Knobs: k}), t: t, rig: theRig, kube: theRig.Kube, servers: map[string]string{}}
	t.Cleanup(w.Close)
	server := httptest.NewServer(w)
	t.Cleanup(server.Close)
	w.url = server.URL
	sweep(t)
	t.Cleanup(func() { sweep(t) })
	for i := range addresses {
		w.Subscribe(netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}))
	}
	for i := range 3 {
		w.addNode(fmt.Sprintf("node-%d", i+1), "dhcp")
	}
	return w
}

// beside is a second cluster in the account: its API server and servers are its own.
func (w *world) beside(nodes ...string) *world {
	w.t.Helper()
	api, err := sandbox.StartAPI(w.t.Context(), sandbox.Options{NoControllers: true})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := api.Stop(); err != nil {
			w.t.Error(err)
		}
	})
	r, err := rig.New(w.t.Context(), api)
	if err != nil {
		w.t.Fatal(err)
	}
	second := *w
	second.rig, second.kube, second.servers = r, r.Kube, map[string]string{}
	for _, name := range nodes {
		second.addNode(name, "dhcp")
	}
	return &second
}

func sweep(t *testing.T) {
	theRig.Clean(t)
	removePods(t)
	ctx := context.Background()
	for _, err := range []error{
		theRig.Kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		theRig.Kube.CoreV1().Events(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		theRig.Client.DeleteAllOf(ctx, &v1alpha1.Agent{}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

// addNode makes a server, the Node that it is, and its agent.
func (w *world) addNode(name, mode string, change ...func(*corev1.Node)) {
	w.t.Helper()
	ctx := w.t.Context()
	s, err := w.AddServer(cloudsigma.NewServer{Name: name, NICs: []cloudsigma.NewNIC{{Mode: mode, Addr4: "*"}}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.servers[name] = s.UUID
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "cloudsigma://" + s.UUID}}
	for _, f := range change {
		f(node)
	}
	if _, err := w.kube.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.ready(name, true)
	if err := w.rig.Client.Create(ctx, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		w.t.Fatal(err)
	}
	w.lost(name)
}

// ready sets whether a kubelet is heard of.
func (w *world) ready(node string, ready bool) {
	w.t.Helper()
	status := corev1.ConditionTrue
	if !ready {
		status = corev1.ConditionUnknown
	}
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, status)
	if _, err := w.kube.CoreV1().Nodes().Patch(w.t.Context(), node, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		w.t.Fatal(err)
	}
}

// lost has the agent of a node report which others it has lost.
func (w *world) lost(node string, others ...string) {
	w.t.Helper()
	rig.Eventually(w.t, "agent of "+node+" reports", func() error {
		var a v1alpha1.Agent
		if err := w.rig.Client.Get(w.t.Context(), types.NamespacedName{Name: node}, &a); err != nil {
			return err
		}
		a.Status.Lost = others
		a.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}}
		return w.rig.Client.Status().Update(w.t.Context(), &a)
	})
}

// options of a client of the account.
func (w *world) options(secret string) client.Options {
	w.t.Helper()
	token, err := cloud.NewToken(secret)
	if err != nil {
		w.t.Fatal(err)
	}
	return client.Options{Region: "zrh", Endpoint: w.url, Token: token, HTTP: &http.Transport{DisableKeepAlives: true}}
}

// start runs a controller of cluster prod in this process.
func (w *world) start(change ...func(*controller.Backend)) (stop func()) {
	w.t.Helper()
	return w.startAs(w.Token(), "prod", "", change...)
}

func (w *world) startAs(secret, cluster, class string, change ...func(*controller.Backend)) (stop func()) {
	w.t.Helper()
	api, err := client.New(w.options(secret))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.rig.Start(w.t, func(o *controller.Options) {
		o.Config = &config.Configuration{ClusterName: cluster, Classes: []config.Class{{Name: class, Backend: config.CloudSigma}}}
		b := controller.Backend{Backend: backend.New(backend.Options{Client: api, Cluster: cluster, Unclassed: class == "", Log: o.Log}), Plans: true, Workers: 100, Resync: time.Hour}
		for _, f := range change {
			f(&b)
		}
		o.Backends = map[config.Backend]controller.Backend{config.CloudSigma: b}
		o.Dialects = append(o.Dialects, format.Dialect{})
	})
}

// launch runs the real program as CloudSigma's Deployment does.
func (w *world) launch(args ...string) *process.Process {
	w.t.Helper()
	if w.binary == "" {
		w.binary = tree.Binary(w.t, "fairlead")
	}
	cmd := exec.Command(w.binary, append([]string{"controller", "--tenant-kubeconfig", w.rig.API.Kubeconfig, "--cluster-name", "prod", "--region", "zrh"}, args...)...)
	cmd.Env = []string{"CLOUDSIGMA_TOKEN=" + w.Token(), "CLOUDSIGMA_API_ENDPOINT=" + w.url + "/api/2.0"}
	return process.Start(w.t, cmd)
}

// create makes a Service in namespace default, or in that of its name.
func (w *world) create(name string, edits ...func(*corev1.Service)) *corev1.Service {
	w.t.Helper()
	key := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}
	if strings.Contains(name, "/") {
		key = kubeapi.ParseKey(name)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: key.Namespace}}
		if _, err := w.kube.CoreV1().Namespaces().Create(w.t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			w.t.Fatal(err)
		}
	}
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, e := range edits {
		e(s)
	}
	made, err := w.kube.CoreV1().Services(key.Namespace).Create(w.t.Context(), s, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations[key] = value }
}

func (w *world) patch(name, patch string) {
	w.t.Helper()
	if _, err := w.kube.CoreV1().Services(metav1.NamespaceDefault).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(s *corev1.Service) {
	w.t.Helper()
	if err := w.kube.CoreV1().Services(s.Namespace).Delete(w.t.Context(), s.Name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	rig.Eventually(w.t, s.Name+" is gone", func() error {
		if _, err := w.kube.CoreV1().Services(s.Namespace).Get(w.t.Context(), s.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there, %w", err)
		}
		return nil
	})
}

// service waits until a Service is as it should be.
func (w *world) service(s *corev1.Service, what string, want ...func(*corev1.Service) error) *corev1.Service {
	w.t.Helper()
	var now *corev1.Service
	rig.Eventually(w.t, s.Name+" "+what, func() (err error) {
		if now, err = w.kube.CoreV1().Services(s.Namespace).Get(w.t.Context(), s.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, f := range want {
			if err := f(now); err != nil {
				return fmt.Errorf("%w (%v)", err, now.Status)
			}
		}
		return nil
	})
	return now
}

// on: it has that address, which that node carries.
func on(address, node string) func(*corev1.Service) error {
	return func(s *corev1.Service) error {
		v := kubeapi.Service(s)
		if len(v.Ingress) != 1 || v.Ingress[0].IP != address {
			return fmt.Errorf("it has %v, want %s", v.Ingress, address)
		}
		if got := v.Carriers.String(); got != address+": "+node {
			return fmt.Errorf("it is on %q, want %s", got, node)
		}
		return nil
	}
}

// says: the condition has that reason and all these words.
func says(reason string, words ...string) func(*corev1.Service) error {
	return func(s *corev1.Service) error {
		v := kubeapi.Service(s)
		if v.Says == nil || string(v.Says.Code) != reason {
			return fmt.Errorf("it does not say %s", reason)
		}
		for _, word := range words {
			if !strings.Contains(v.Says.Text, word) {
				return fmt.Errorf("%q is not in %q", word, v.Says.Text)
			}
		}
		return nil
	}
}

// told waits for an event with all these words.
func (w *world) told(s *corev1.Service, reason string, words ...string) {
	w.t.Helper()
	rig.Eventually(w.t, "event "+reason+" on "+s.Name, func() error {
		list, err := w.kube.CoreV1().Events(s.Namespace).List(w.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + s.Name})
		if err != nil {
			return err
		}
		var all []string
	next:
		for _, e := range list.Items {
			all = append(all, e.Reason+": "+e.Message)
			if e.Reason != reason {
				continue
			}
			for _, word := range words {
				if !strings.Contains(e.Message, word) {
					continue next
				}
			}
			return nil
		}
		return fmt.Errorf("%q is in none of %q", words, all)
	})
}

// state is what there is in the cloud, without IDs.
func (w *world) state() []string {
	var out []string
	for _, s := range w.Servers() {
		for _, a := range s.Statics() {
			out = append(out, fmt.Sprintf("NIC %s %s", s.Name, a))
		}
	}
	for _, t := range w.Tags() {
		for _, r := range t.Resources {
			out = append(out, fmt.Sprintf("tag %s %s", t.Name, r))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// has waits until there is exactly that in the cloud.
func (w *world) has(what string, lines ...string) {
	w.t.Helper()
	slices.Sort(lines)
	rig.Eventually(w.t, what, func() error {
		if got := w.state(); !slices.Equal(got, lines) {
			return fmt.Errorf("the cloud has\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(lines, "\n\t"))
		}
		return nil
	})
}

// claimed are the lines of has for an address of a Service of cluster prod.
func claimed(address, tag, node string) []string {
	return claimedBy("prod", address, tag, node)
}

func claimedBy(cluster, address, tag, node string) []string {
	out := []string{"tag cluster:" + cluster + " " + address, "tag service:" + tag + " " + address, "tag managed-by:cloudsigma-ccm " + address}
	if node != "" {
		out = append(out, "NIC "+node+" "+address)
	}
	return out
}
