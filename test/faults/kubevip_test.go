package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/lb"
	"fairlead.io/test/rig"
)

const givenTo = "kube-vip.io/loadbalancerIPs"

// provide makes kube-vip's ConfigMap, and sees to it that all goes at the end:
// Services without their finalizer, which nobody looks after then.
func provide(t *testing.T, addresses string) {
	t.Helper()
	theRig.Clean(t)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kubevip"}, Data: map[string]string{"cidr-global": addresses}}
	if err := theRig.Client.Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		if err := theRig.Client.Delete(ctx, cm); err != nil {
			t.Error(err)
		}
		services := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault)
		list, err := services.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Items {
			_, err := services.Patch(ctx, s.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
		theRig.Clean(t)
	})
}

// provided waits until all Services have an address, each another.
func provided(t *testing.T, services []*corev1.Service) {
	t.Helper()
	holders := map[string]string{}
	for _, s := range services {
		rig.Eventually(t, s.Name+" has an address", func() error {
			if err := theRig.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
				return err
			}
			if s.Annotations[givenTo] == "" || s.Annotations[givenTo] != s.Spec.LoadBalancerIP {
				return fmt.Errorf("%q and %q", s.Annotations[givenTo], s.Spec.LoadBalancerIP)
			}
			return nil
		})
		if other := holders[s.Spec.LoadBalancerIP]; other != "" {
			t.Errorf("%s and %s have %s", s.Name, other, s.Spec.LoadBalancerIP)
		}
		holders[s.Spec.LoadBalancerIP] = s.Name
	}
}

// Over a bad line, in the place of kube-vip's cloud provider: every Service gets its
// address and is told of it, once.
func TestLostAnswersForKubeVIP(t *testing.T) {
	provide(t, "10.10.0.0/24")
	line := &badLine{kind: "/services/"}
	theRig.Start(t, func(o *controller.Options) {
		o.Config = &config.Configuration{Classes: []config.Class{{Backend: config.KubeVIP, Pools: []lb.Dialect{lb.KubeVIP}}}}
		o.REST.Wrap(func(next http.RoundTripper) http.RoundTripper {
			line.next = next
			return line
		})
	})
	services := create(t, "provided", 60)
	provided(t, services)
	for _, s := range services {
		rig.Eventually(t, s.Name+" is told its address", func() error {
			list, err := theRig.Kube.CoreV1().Events(s.Namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=EnsuredLoadBalancer,involvedObject.uid=" + string(s.UID)})
			if err == nil && len(list.Items) != 1 {
				err = fmt.Errorf("%d events", len(list.Items))
			}
			return err
		})
	}
	if line.lost.Load() == 0 || line.silent.Load() == 0 {
		t.Errorf("the line was too good: %d writes and %d answers lost", line.lost.Load(), line.silent.Load())
	}
}

// Killed again and again while Services come: none has another's address, and but for
// writes in flight none gets another than it had.
func TestKilledProvider(t *testing.T) {
	provide(t, "10.11.0.0/23")
	t.Setenv(config.EnvKubeVIPConfigMap, "kubevip")
	binary := rig.Binary(t)
	had, moved := map[string]string{}, []string{}
	w, err := theRig.Kube.CoreV1().Services(metav1.NamespaceDefault).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for e := range w.ResultChan() {
			s, is := e.Object.(*corev1.Service)
			if !is || s.Annotations[givenTo] == "" {
				continue
			}
			if had[s.Name] != "" && had[s.Name] != s.Annotations[givenTo] {
				moved = append(moved, s.Name)
			}
			had[s.Name] = s.Annotations[givenTo]
		}
	}()
	var services []*corev1.Service
	for round := range 20 {
		p := theRig.Launch(t, binary, "--log-level=warn")
		services = append(services, create(t, fmt.Sprintf("killed-%d", round), 10)...)
		<-time.After(rand.N(400 * time.Millisecond)) // at any stage of its work
		p.Kill()
	}
	theRig.Launch(t, binary)
	provided(t, services)
	w.Stop()
	<-watched
	if len(moved) > inFlight {
		t.Errorf("got another address than they had: %v", moved)
	}
}
