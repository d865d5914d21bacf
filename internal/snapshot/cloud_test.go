package snapshot

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"fairlead.io/internal/config"
	"fairlead.io/internal/reasons"
)

// Services of clouds are judged by what is written on them: nobody asks the cloud.
func TestServicesOfClouds(t *testing.T) {
	cfg, err := config.Parse([]byte(`{apiVersion: fairlead.io/v1alpha1, kind: Configuration, clusterName: prod, classes: [{name: a, backend: cloudscale}, {name: b, backend: cloudsigma}]}`))
	if err != nil {
		t.Fatal(err)
	}
	service := func(name, class string, conditions []metav1.Condition, ips ...string) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}}}
		s.Status.Conditions = conditions
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip, IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)})
		}
		return s
	}
	waits := []metav1.Condition{{Type: "fairlead.io/Ready", Status: metav1.ConditionFalse, Reason: "TokenInvalid", Message: "The cloud refuses the token."}}
	s, err := Of(time.Unix(0, 0), cfg, service("a1", "a", nil, "192.0.2.1"), service("a2", "a", waits), service("b1", "b", waits), service("c1", "c", nil),
		service("a3", "a", nil, "192.0.2.3"), &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a3", Labels: map[string]string{discoveryv1.LabelServiceName: "a3"}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.7"}}}})
	if err != nil {
		t.Fatal(err)
	}
	// No pod of a1 serves, and no controller runs.
	for name, want := range map[string]State{"a1": Unreachable, "a3": Unattended, "a2": Waiting, "b1": Waiting, "c1": NotServed} {
		w := s.WhyService(types.NamespacedName{Namespace: "shop", Name: name})
		if w.State != want {
			t.Errorf("%s is %s, want %s: %+v", name, w.State, want, w.Steps)
		}
		if want == Waiting && w.Steps[len(w.Steps)-1].Reason != "TokenInvalid" {
			t.Errorf("%s: %+v", name, w.Steps)
		}
	}
	if got := s.Status().Backends; len(got) != 2 || got[0].Facts[0] != "2 ok, 1 waiting" || got[1].Facts[0] != "0 ok, 1 waiting" {
		t.Errorf("%+v", got)
	}
}

// A warning of any part is shown although the Service has its address, not only one of the core.
func TestWarningsAreShown(t *testing.T) {
	cfg, err := config.Parse([]byte(`{apiVersion: fairlead.io/v1alpha1, kind: Configuration, clusterName: prod, classes: [{name: "", backend: cloudscale}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for code, about := range reasons.All {
		if about.On != "Service" || !about.Ready || about.Event {
			continue
		}
		s, err := Of(time.Unix(0, 0), cfg, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}},
				Conditions: []metav1.Condition{{Type: "fairlead.io/Ready", Status: metav1.ConditionTrue, Reason: string(code), Message: about.Example()}}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range s.WhyService(types.NamespacedName{Namespace: "shop", Name: "web"}).Steps {
			if step.Name == "address" && (step.Mark != Passed || strings.Contains(step.Fact, about.Example()) != about.Warning) {
				t.Errorf("%s, a warning: %t: %+v", code, about.Warning, step)
			}
		}
	}
}
