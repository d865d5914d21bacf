package agents

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/rig"
)

// An address that no node can announce is reported by one of the agents, with each
// node's obstacle, until one can.
func TestAddressThatNoNodeCanAnnounce(t *testing.T) {
	const address = "198.51.100.200"
	ctx := t.Context()
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "silent"}, Spec: v1alpha1.PoolSpec{
		Addresses: []v1alpha1.Span{address}, Advertise: v1alpha1.Advertise{Interfaces: []string{"eth7"}}}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "silent"}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: ptr.To(config.DefaultClass), Ports: []corev1.ServicePort{{Port: 80}}}}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "silent", Labels: map[string]string{discoveryv1.LabelServiceName: "silent"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.7"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}}
	for _, o := range []client.Object{pool, service, slice} {
		if err := theRig.Client.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := theRig.Client.Delete(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	if err := theRig.Client.Status().Update(ctx, service); err != nil {
		t.Fatal(err)
	}
	a := newAgents(t, false)
	names := []string{"silent-1", "silent-2", "silent-3"}
	a.start("198.51.100.1", names...)
	reports := func() (out []v1alpha1.Unannounced, announced int32) {
		for _, name := range names {
			if o, err := a.get(name); err == nil {
				out, announced = append(out, o.Status.Unannounced...), announced+o.Status.Announced
			}
		}
		return out, announced
	}
	rig.Eventually(t, "one agent reports the address", func() error {
		all, _ := reports()
		if len(all) != 1 {
			return fmt.Errorf("%+v", all)
		}
		u := all[0]
		if u.Address != address || fmt.Sprint(u.Services) != "[default/silent]" || u.Reason != string(lb.NotAnnounced) || u.Since.IsZero() ||
			!strings.Contains(u.Message, "silent-1, silent-2, silent-3: each has no interface for it that is up") {
			return fmt.Errorf("%+v", u)
		}
		return nil
	})
	pool.Spec.Advertise.Interfaces = []string{"eth0"}
	if err := theRig.Client.Update(ctx, pool); err != nil {
		t.Fatal(err)
	}
	rig.Eventually(t, "the address is announced, and no longer reported", func() error {
		if all, announced := reports(); len(all) > 0 || announced != 1 {
			return fmt.Errorf("announced %d times; %+v", announced, all)
		}
		return nil
	})
}
