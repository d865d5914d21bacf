// Package newcomer registers a backend and a dialect that nobody else knows of, and
// drives them through the real controller on a real API server.
package newcomer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/rig"
)

var theRig *rig.Rig

func TestMain(m *testing.M) {
	crlog.SetLogger(logr.Discard()) // controllers have a log of their own
	os.Exit(rig.Main(m, sandbox.Options{NoControllers: true}, &theRig))
}

var box = types.NamespacedName{Namespace: "default", Name: "box"}

func TestToyIsServed(t *testing.T) {
	ctx := t.Context()
	toy := &toyBackend{has: map[types.UID]lb.Orphan{}, woken: make(chan types.NamespacedName)}
	create := func(o *corev1.Service) *corev1.Service {
		t.Helper()
		s, err := theRig.Kube.CoreV1().Services("default").Create(ctx, o, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: box.Namespace, Name: box.Name}, Data: map[string]string{"addresses": "192.0.2.0/28"}}
	if _, err := theRig.Kube.CoreV1().ConfigMaps(box.Namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	theRig.Start(t, func(o *controller.Options) {
		o.Config = &config.Configuration{Classes: []config.Class{{Name: "toy.example/toy", Backend: "toy", Pools: []lb.Dialect{"toy"}}}}
		o.Dialects = []compat.Dialect{toyDialect{box}}
		o.Backends = map[config.Backend]controller.Backend{"toy": {Backend: toy, Plans: true, Resync: 200 * time.Millisecond, RemoveOrphans: true}}
	})

	t.Log("create")
	web := create(service("web", nil))
	eventually(t, "web has the first address", func() error { return published("web", "192.0.2.0", "Ready") })
	eventually(t, "web is kept until the backend is done with it", func() error {
		s, err := get("web")
		if err == nil && !slices.Contains(s.Finalizers, "toy.example/cleanup") {
			err = fmt.Errorf("finalizers are %v", s.Finalizers)
		}
		return err
	})
	eventually(t, "the backend has it", func() error { return toy.holds(web.UID, "[192.0.2.0] and 0 endpoints") })

	t.Log("change: the request, and the endpoints")
	patch(t, "web", `{"metadata": {"annotations": {"toy.example/address": "192.0.2.9"}}}`)
	eventually(t, "web has moved", func() error { return published("web", "192.0.2.9", "Ready") })
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.7"}}}}
	if _, err := theRig.Kube.DiscoveryV1().EndpointSlices("default").Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the backend has heard of the endpoint", func() error { return toy.holds(web.UID, "[192.0.2.9] and 1 endpoints") })

	t.Log("dry run: told, not done")
	dry := create(service("dry", map[string]string{"fairlead.io/dry-run": "true"}))
	eventually(t, "the plan is told", func() error { return told("dry", "ToyPlanned", "It would have [192.0.2.0] and 0 endpoints.") })
	if err := toy.holds(dry.UID, ""); err != nil {
		t.Error(err)
	}
	if s, err := get("dry"); err != nil || len(s.Finalizers)+len(s.Status.LoadBalancer.Ingress)+len(s.Status.Conditions) > 0 {
		t.Errorf("a dry run has written %v, %v: %v", s.Finalizers, s.Status, err)
	}

	t.Log("wake: something has changed outside")
	toy.lose(web.UID)
	toy.woken <- types.NamespacedName{Namespace: "default", Name: "web"}
	eventually(t, "it is repaired", func() error { return toy.holds(web.UID, "[192.0.2.9] and 1 endpoints") })

	t.Log("orphan: found by its UID, told and removed")
	toy.mu.Lock()
	toy.has["gone"] = lb.Orphan{ID: "gone", UID: "gone", Service: types.NamespacedName{Namespace: "default", Name: "was"}, Reason: lb.Reason{Code: "ToyOrphaned", Text: "Nobody plays with it."}}
	toy.mu.Unlock()
	eventually(t, "the orphan is told of", func() error { return told("was", "ToyOrphaned", "Nobody plays with it.") })
	eventually(t, "the orphan is removed", func() error { return toy.holds("gone", "") })

	t.Log("delete: the address is free for the next one")
	if err := theRig.Kube.CoreV1().Services("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "web is gone", func() error {
		if _, err := get("web"); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("it is there"), err)
		}
		return toy.holds(web.UID, "")
	})
	create(service("next", map[string]string{"toy.example/address": "192.0.2.9"}))
	eventually(t, "the next one has its address", func() error { return published("next", "192.0.2.9", "Ready") })
	if s, err := get("other"); err == nil {
		t.Errorf("who made %v?", s.Name)
	}
}

func service(name string, annotations map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr.To("toy.example/toy"), Ports: []corev1.ServicePort{{Port: 80}}}}
}

func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	rig.Eventually(t, what, f)
}

func get(name string) (*corev1.Service, error) {
	return theRig.Kube.CoreV1().Services("default").Get(context.Background(), name, metav1.GetOptions{})
}

func patch(t *testing.T, name, data string) {
	t.Helper()
	if _, err := theRig.Kube.CoreV1().Services("default").Patch(t.Context(), name, types.MergePatchType, []byte(data), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// published says whether a Service has an address, in the mode of the backend, and a
// condition with the reason.
func published(name, address string, reason lb.Code) error {
	object, err := get(name)
	if err != nil {
		return err
	}
	s := kubeapi.Service(object)
	if len(s.Ingress) != 1 || s.Ingress[0] != (lb.Ingress{IP: address, Mode: lb.IPModeProxy}) || s.Says == nil || s.Says.Code != reason {
		return fmt.Errorf("it has %v and says %v", s.Ingress, s.Says)
	}
	return nil
}

func told(name, reason, text string) error {
	list, err := theRig.Kube.CoreV1().Events("default").List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return err
	}
	for _, e := range list.Items {
		if e.Reason == reason && strings.Contains(e.Message, text) {
			return nil
		}
	}
	return fmt.Errorf("none of %d events says so", len(list.Items))
}

func (b *toyBackend) holds(uid types.UID, what string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.has[uid].ID != what {
		return fmt.Errorf("the backend has %q", b.has[uid].ID)
	}
	return nil
}

func (b *toyBackend) lose(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.has, uid)
}
