// Package kubevip has the controller in the place of kube-vip's cloud provider, on
// a real API server: what it writes, what it needs, and how one backend follows
// another.
package kubevip

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/process"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard()) // controllers have a log of their own
	os.Exit(rig.Main(m, sandbox.Options{Audit: true, NoControllers: true}, &theRig))
}

// Annotations as kube-vip and its cloud provider have them.
const (
	addresses = "kube-vip.io/loadbalancerIPs"
	host      = "kube-vip.io/vipHost"
	reason    = "fairlead.io/reason"
	finalizer = "service.kubernetes.io/load-balancer-cleanup"
)

// provided is the configuration in which kube-vip announces, announced the one in
// which Fairlead does, from the same pools.
var (
	provided  = &config.Configuration{Classes: []config.Class{{Backend: config.KubeVIP, Pools: []lb.Dialect{kubevip.Name}}}}
	announced = &config.Configuration{Classes: []config.Class{{Backend: config.Announce, Pools: []lb.Dialect{kubevip.Name}}}}
)

// clean removes everything that tests make; finalizers of Services, too.
func clean(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	remove := func() {
		for _, o := range []client.Object{&v1alpha1.Pool{}, &v1alpha1.Agent{}, &corev1.Node{}} {
			if err := theRig.Client.DeleteAllOf(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
		if err := theRig.Client.Delete(ctx, configMap(nil)); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		var list corev1.ServiceList
		if err := theRig.Client.List(ctx, &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if s := &list.Items[i]; len(s.Finalizers) > 0 {
				s.Finalizers = nil
				if err := theRig.Client.Update(ctx, s); client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
			}
		}
		theRig.Clean(t)
	}
	remove()
	t.Cleanup(remove)
}

func start(t *testing.T, c *config.Configuration, change ...func(*controller.Options)) (stop func()) {
	t.Helper()
	return theRig.Start(t, append(change, func(o *controller.Options) { o.Config = c })...)
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubevip"}, Data: data}
}

func newService(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	s.Spec = corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: ptr.To(false),
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func asks(text string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations = map[string]string{addresses: text} }
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := theRig.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, name string) *corev1.Service {
	t.Helper()
	s, err := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// eventually waits until the Service is so, and returns it.
func eventually(t *testing.T, name, what string, is func(*corev1.Service) bool) (s *corev1.Service) {
	t.Helper()
	rig.Eventually(t, name+" "+what, func() error {
		if s = get(t, name); !is(s) {
			return fmt.Errorf("annotations %v, labels %v, finalizers %v, status %v", s.Annotations, s.Labels, s.Finalizers, s.Status)
		}
		return nil
	})
	return s
}

func publishes(address string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool {
		return len(s.Status.LoadBalancer.Ingress) > 0 && s.Status.LoadBalancer.Ingress[0].IP == address
	}
}

func given(text string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool { return s.Annotations[addresses] == text && s.Spec.LoadBalancerIP != "" }
}

func says(text string) func(*corev1.Service) bool {
	return func(s *corev1.Service) bool { return strings.Contains(s.Annotations[reason], text) }
}

// events of a Service that the controller wrote.
func events(t *testing.T, s *corev1.Service) (out []string) {
	t.Helper()
	list, err := theRig.Kube.CoreV1().Events(s.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(s.UID)})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Source.Component == "fairlead" {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out
}

// eventNow waits for the event that begins so.
func eventNow(t *testing.T, s *corev1.Service, begin string) {
	t.Helper()
	rig.Eventually(t, s.Name+" is told "+begin, func() error {
		has := events(t, s)
		for _, e := range has {
			if strings.HasPrefix(e, begin) {
				return nil
			}
		}
		return fmt.Errorf("there are %q", has)
	})
}

// limited makes a client of somebody with the rights, and of nobody else.
func limited(t *testing.T, kube *rig.Rig, user string, rights ...rbacv1.PolicyRule) func(*controller.Options) {
	t.Helper()
	rig.Grant(t, kube.Kube, user, rights...)
	return func(o *controller.Options) {
		o.REST = rest.CopyConfig(kube.API.RESTConfig())
		o.REST.Impersonate.UserName = user
	}
}

// logged has the log of a controller.
type logged struct{ process.Log }

// count returns how many lines have all the words.
func (l *logged) count(words ...string) (n int) {
	for line := range strings.Lines(l.String()) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			n++
		}
	}
	return n
}

func (l *logged) set(o *controller.Options) { o.Log = slog.New(slog.NewTextHandler(l, nil)) }

// healthAt has the controller answer at a free port, of which ready asks.
func healthAt(t *testing.T) (set func(*controller.Options), ready func() error) {
	t.Helper()
	at := rig.FreeAddress(t)
	return func(o *controller.Options) { o.HealthAddress = at }, func() error {
		resp, err := http.Get("http://" + at + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	}
}
