// Package page shows the live page in a real browser, with a real API server and a real
// controller. Agents are objects that the tests write.
package page

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard())
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true}, &theRig))
}

const namespace = "fairlead-system"

// create makes an object, if it is not there.
func create(t testing.TB, o client.Object) {
	t.Helper()
	rig.Eventually(t, "create "+o.GetName(), func() error {
		if err := theRig.Client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	})
}

// world is a cluster with a controller, and nodes whose agents the test is.
type world struct {
	t     testing.TB
	nodes []string
	mu    sync.Mutex
	has   map[string]map[string]v1alpha1.Announcement // by node and address
}

func newWorld(t testing.TB, nodes ...string) *world {
	t.Helper()
	theRig.Clean(t)
	for _, name := range []string{namespace, "shop", "mail"} {
		create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
	w := &world{t: t, nodes: nodes, has: map[string]map[string]v1alpha1.Announcement{}}
	theRig.Start(t)
	w.pod("fairlead-controller-x7k", "controller", "")
	create(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fairlead-controller"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("fairlead-controller-x7k_1"), LeaseDurationSeconds: ptr.To[int32](36000), RenewTime: &metav1.MicroTime{Time: time.Now()}},
	})
	for i, name := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		create(t, n)
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", 2+i)}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := theRig.Client.Status().Update(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		w.pod("fairlead-agent-"+name, "agent", name)
		create(t, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: name}})
		w.has[name] = map[string]v1alpha1.Announcement{}
		w.report(name, nil)
	}
	t.Cleanup(w.remove)
	return w
}

func (w *world) remove() {
	ctx := context.Background()
	for _, in := range []string{namespace, "shop", "mail"} {
		for _, o := range []client.Object{&corev1.Pod{}, &coordinationv1.Lease{}, &discoveryv1.EndpointSlice{}, &corev1.Event{}} {
			if err := theRig.Client.DeleteAllOf(ctx, o, client.InNamespace(in), client.GracePeriodSeconds(0)); err != nil {
				w.t.Error(err)
			}
		}
	}
	for _, name := range w.nodes {
		for _, o := range []client.Object{&corev1.Node{}, &v1alpha1.Agent{}} {
			o.SetName(name)
			if err := client.IgnoreNotFound(theRig.Client.Delete(ctx, o)); err != nil {
				w.t.Error(err)
			}
		}
	}
}

// pod makes a pod that is ready.
func (w *world) pod(name, component, node string) {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": "fairlead", "app.kubernetes.io/component": component}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: component, Image: "fairlead", Args: []string{component}}}},
	}
	create(w.t, p)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := theRig.Client.Status().Update(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pool(name string, change func(*v1alpha1.Pool), addresses ...string) {
	w.t.Helper()
	p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, a := range addresses {
		p.Spec.Addresses = append(p.Spec.Addresses, v1alpha1.Span(a))
	}
	if change != nil {
		change(p)
	}
	create(w.t, p)
}

func service(key string, annotations map[string]string) *corev1.Service {
	in, name, _ := strings.Cut(key, "/")
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name}, AllocateLoadBalancerNodePorts: ptr.To(false),
			Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// service makes a Service with pods on all nodes.
func (w *world) service(key string, annotations map[string]string) {
	w.t.Helper()
	create(w.t, service(key, annotations))
	in, name, _ := strings.Cut(key, "/")
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: in, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i, node := range w.nodes {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.7", i)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
	}
	create(w.t, slice)
}

// address waits for the address of a Service.
func (w *world) address(key string) (out string) {
	w.t.Helper()
	in, name, _ := strings.Cut(key, "/")
	rig.Eventually(w.t, "address of "+key, func() error {
		var s corev1.Service
		if err := theRig.Client.Get(w.t.Context(), client.ObjectKey{Namespace: in, Name: name}, &s); err != nil {
			return err
		}
		has := kubeapi.Service(&s).Published()
		if len(has) == 0 {
			return fmt.Errorf("%s has no address", key)
		}
		out = has[0].String()
		return nil
	})
	return out
}

// report writes what the agent of a node reports.
func (w *world) report(node string, change func(*v1alpha1.AgentStatus)) {
	w.t.Helper()
	w.mu.Lock()
	status := v1alpha1.AgentStatus{
		Version: "test", KubeProxy: v1alpha1.KubeProxyHealthy, Announced: int32(len(w.has[node])),
		Interfaces: []v1alpha1.Interface{{Name: "eth0", Up: true, Families: []string{"IPv4", "IPv6"}, NamedOnly: []string{"IPv6"}}},
		Gateways:   []string{"192.0.2.1"},
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: metav1.Now()}},
	}
	for _, a := range w.has[node] {
		status.Addresses = append(status.Addresses, a)
	}
	w.mu.Unlock()
	slices.SortFunc(status.Addresses, func(a, b v1alpha1.Announcement) int { return strings.Compare(a.Address, b.Address) })
	if change != nil {
		change(&status)
	}
	rig.Eventually(w.t, "report of "+node, func() error {
		var a v1alpha1.Agent
		if err := theRig.Client.Get(w.t.Context(), client.ObjectKey{Name: node}, &a); err != nil {
			return err
		}
		a.Status = status
		return theRig.Client.Status().Update(w.t.Context(), &a)
	})
}

// announce has a node announce an address, since some time ago. It returns the nodes that
// have something else to report now.
func (w *world) announce(node, address, service string, ago time.Duration) (changed []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.nodes {
		if _, had := w.has[name][address]; had {
			delete(w.has[name], address)
			changed = append(changed, name)
		}
	}
	w.has[node][address] = v1alpha1.Announcement{Address: address, Services: []string{service}, Interface: "eth0", Protocol: "ARP", Since: metav1.NewTime(time.Now().Add(-ago))}
	return append(changed, node)
}

// move lets another node announce an address.
func (w *world) move(to, address, service string) {
	w.t.Helper()
	for _, node := range slices.Backward(w.announce(to, address, service, 0)) {
		w.report(node, nil)
	}
}
