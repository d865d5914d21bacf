// Package cloudscale runs the controller against a real API server and a simulated
// cloudscale.ch: from the Service that somebody writes to the load balancer that
// there is, and back.
package cloudscale

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/sandbox"
	"fairlead.io/sandbox/cloudscale"
	"fairlead.io/test/kit/cloud"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true, Audit: true}, &theRig))
}

const (
	token  = cloud.Token
	prefix = "k8s.cloudscale.ch/loadbalancer-"
)

// world is a cloud with servers, which are the nodes of a cluster.
type world struct {
	*cloud.Cloud
	t      *testing.T
	kube   kubernetes.Interface
	binary string // the real one, if it is built
}

// newWorld has three nodes. Nothing takes time in its cloud unless options say so.
func newWorld(t *testing.T, change ...func(*cloudscale.Options)) *world {
	t.Helper()
	w := &world{Cloud: cloud.New(t, change...), t: t, kube: theRig.Kube}
	sweep(t)
	t.Cleanup(func() { sweep(t) })
	for i := range 3 {
		w.addNode(fmt.Sprintf("node-%d", i+1))
	}
	return w
}

// sweep removes what a test has left, also Services that wait for a controller.
func sweep(t *testing.T) {
	ctx := context.Background()
	services, err := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range services.Items {
		if s := &services.Items[i]; len(s.Finalizers) > 0 {
			if _, err := theRig.Kube.CoreV1().Services(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	}
	theRig.Clean(t)
	for _, err := range []error{
		theRig.Kube.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		theRig.Kube.CoreV1().Events(metav1.NamespaceDefault).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
}

func (w *world) addNode(name string, change ...func(*corev1.Node)) {
	w.t.Helper()
	w.Cloud.AddNode(w.t, w.kube, name, change...)
}

func (w *world) patchNode(name, patch string) {
	w.t.Helper()
	if _, err := w.kube.CoreV1().Nodes().Patch(w.t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// start runs a controller.
func (w *world) start(change ...func(*controller.Backend)) (stop func()) {
	w.t.Helper()
	return w.startAs(token, change...)
}

func (w *world) startAs(token string, change ...func(*controller.Backend)) (stop func()) {
	w.t.Helper()
	return theRig.Start(w.t, w.Serve(w.t, token, change...), func(o *controller.Options) {
		o.Config = &config.Configuration{Classes: []config.Class{{Backend: config.Cloudscale}, {Name: "cs", Backend: config.Cloudscale}}}
	})
}

// apply creates or changes a Service.
func (w *world) apply(text string) *corev1.Service {
	w.t.Helper()
	var s corev1.Service
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		w.t.Fatal(err)
	}
	data, err := yaml.YAMLToJSON([]byte("apiVersion: v1\nkind: Service\n" + text))
	if err != nil {
		w.t.Fatal(err)
	}
	force := true
	made, err := w.kube.CoreV1().Services(metav1.NamespaceDefault).Patch(w.t.Context(), s.Name, types.ApplyPatchType, data, metav1.PatchOptions{FieldManager: "a person", Force: &force})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// annotate changes annotations of a Service: those of load balancers without
// their prefix, "" removes one.
func (w *world) annotate(name string, pairs ...string) {
	w.t.Helper()
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		key, value := pairs[i], fmt.Sprintf("%q", pairs[i+1])
		if !strings.Contains(key, "/") {
			key = prefix + key
		}
		if pairs[i+1] == "" {
			value = "null"
		}
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%q:%s", key, value)
	}
	w.patch(name, `{"metadata":{"annotations":{`+b.String()+`}}}`)
}

func (w *world) patch(name, patch string) {
	w.t.Helper()
	if _, err := w.kube.CoreV1().Services(metav1.NamespaceDefault).Patch(w.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := w.kube.CoreV1().Services(metav1.NamespaceDefault).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// service waits until the Service is as it should be.
func (w *world) service(name, what string, want func(*corev1.Service) error) *corev1.Service {
	w.t.Helper()
	var s *corev1.Service
	rig.Eventually(w.t, name+" "+what, func() (err error) {
		if s, err = w.kube.CoreV1().Services(metav1.NamespaceDefault).Get(w.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if err := want(s); err != nil {
			return fmt.Errorf("%w (%v)", err, s.Status)
		}
		return nil
	})
	return s
}

// ensured: it is served.
func ensured(s *corev1.Service) error {
	if err := says("EnsuredLoadBalancer")(s); err != nil {
		return err
	}
	if len(s.Status.LoadBalancer.Ingress) == 0 {
		return fmt.Errorf("no addresses")
	}
	return nil
}

// says: the condition has that reason and all these words.
func says(reason string, words ...string) func(*corev1.Service) error {
	return func(s *corev1.Service) error {
		for _, c := range s.Status.Conditions {
			if c.Type != kubeapi.ConditionReady || c.Reason != reason {
				continue
			}
			for _, word := range words {
				if !strings.Contains(c.Message, word) {
					return fmt.Errorf("%s is not in %q", word, c.Message)
				}
			}
			return nil
		}
		return fmt.Errorf("does not say %s", reason)
	}
}

// published are the addresses or names in a Service's status.
func published(s *corev1.Service) (out []string) {
	for _, i := range s.Status.LoadBalancer.Ingress {
		out = append(out, i.IP+i.Hostname)
	}
	return out
}

// publishes exactly these addresses or names.
func publishes(want ...string) func(*corev1.Service) error {
	return func(s *corev1.Service) error {
		got := published(s)
		if !slices.Equal(got, want) {
			return fmt.Errorf("publishes %v, want %v", got, want)
		}
		return nil
	}
}

// clean: nothing of ours is left on the Service but the zone, which a person may
// have set.
func clean(s *corev1.Service) error {
	notes := 0
	for key := range s.Annotations {
		if strings.HasPrefix(key, prefix) && key != prefix+"zone" {
			notes++
		}
	}
	if len(s.Finalizers)+notes+len(s.Status.Conditions)+len(s.Status.LoadBalancer.Ingress) > 0 {
		return fmt.Errorf("finalizers %v, annotations %v", s.Finalizers, s.Annotations)
	}
	return nil
}

// gone: neither the Service nor any load balancer is left.
func (w *world) gone(name string) func() error {
	return func() error {
		if _, err := w.kube.CoreV1().Services(metav1.NamespaceDefault).Get(w.t.Context(), name, metav1.GetOptions{}); err == nil {
			return errors.New("the Service is still there")
		} else if !apierrors.IsNotFound(err) {
			return err
		}
		if n := len(w.LoadBalancers()); n > 0 {
			return fmt.Errorf("%d load balancers left", n)
		}
		return nil
	}
}

// eventually waits for something in the cloud.
func (w *world) eventually(what string, f func() error) {
	w.t.Helper()
	rig.Eventually(w.t, what, f)
}

// has: there are exactly these listeners.
func (w *world) has(listeners ...string) func() error {
	return func() error {
		var got []string
		for _, l := range w.Listeners() {
			got = append(got, l.Name)
		}
		if slices.Sort(got); !slices.Equal(got, listeners) {
			return fmt.Errorf("listeners %v, want %v", got, listeners)
		}
		return nil
	}
}

// serve starts a controller and makes a Service that has its load balancer.
func (w *world) serve(text string, change ...func(*controller.Backend)) *corev1.Service {
	w.t.Helper()
	w.start(change...)
	return w.service(w.apply(text).Name, "has a load balancer", ensured)
}

// events on a Service, as "Reason: sentence", the oldest first.
func (w *world) events(name string) (out []string) {
	w.t.Helper()
	list, err := w.kube.CoreV1().Events(metav1.NamespaceDefault).List(w.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortStableFunc(list.Items, func(a, b corev1.Event) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range list.Items {
		if e.Reason != "ClusterIPNotAllocated" { // of the API server, which looks after itself
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out
}

// told waits for an event that has all these words, and returns it.
func (w *world) told(name, reason string, words ...string) (event string) {
	w.t.Helper()
	w.eventually("event "+reason+" on "+name, func() error {
		all := w.events(name)
	next:
		for _, e := range all {
			if !strings.HasPrefix(e, reason+": ") {
				continue
			}
			for _, word := range words {
				if !strings.Contains(e, word) {
					continue next
				}
			}
			event = e
			return nil
		}
		return fmt.Errorf("%q is in none of %q", words, all)
	})
	return event
}

// writes since the last ResetLog, as "METHOD kind".
func (w *world) writes() (out []string) {
	for _, r := range w.Log() {
		if r.Method != http.MethodGet {
			out = append(out, r.Method+" "+r.Path)
		}
	}
	return out
}
