package install

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
)

// One release serves two classes, each from pools of another format, and leaves Services
// of no class alone.
func TestTwoClassesOfTwoFormats(t *testing.T) {
	t.Parallel()
	api, c := startAPI(t)
	helm(t, api.Kubeconfig, "install", "fairlead", "charts/fairlead", "--namespace", namespace, "--create-namespace",
		"--set", "controller.healthPort="+port(t)+",controller.metricsPort="+port(t),
		"--set", "classes[0].name=lan,classes[0].pools={native},classes[1].name=metallb,classes[1].pools={metallb}")
	awaitKinds(t, c)
	startAsDeployed(t, api, c)
	if err := errors.Join(
		c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metallbNamespace}}),
		c.Create(t.Context(), &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"198.51.100.0/28"}}}),
	); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an IPAddressPool can be made", func(ctx context.Context) error { return c.Create(ctx, poolObject("theirs")) })
	for _, class := range []string{"", "lan", "metallb"} { // those that get nothing come first
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web" + class},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}}}
		if class != "" {
			s.Spec.LoadBalancerClass = &class
		}
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for class, want := range map[string]string{"lan": "198.51.100.0", "metallb": "192.0.2.0"} {
		eventually(t, "the Service of class "+class+" has "+want, func(ctx context.Context) error {
			var s corev1.Service
			err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web" + class}, &s)
			if in := s.Status.LoadBalancer.Ingress; err == nil && (len(in) != 1 || in[0].IP != want) {
				err = fmt.Errorf("it has %v", in)
			}
			return err
		})
	}
	var s corev1.Service
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, &s); err != nil || len(s.Status.LoadBalancer.Ingress)+len(s.Status.Conditions) > 0 {
		t.Errorf("the Service without a class has %+v, %v", s.Status, err)
	}
}
