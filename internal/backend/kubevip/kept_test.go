package kubevip

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// left returns a Service as kube-vip's cloud provider leaves it: what somebody asked
// for in spec.loadBalancerIP has no label.
func left(annotation, field string, label bool) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{"kube-vip.io/loadbalancerIPs": annotation},
		Finalizers: []string{"service.kubernetes.io/load-balancer-cleanup"}}}
	if label {
		s.Labels = map[string]string{"implementation": "kube-vip"}
	}
	s.Spec.LoadBalancerIP = field
	return s
}

// A Service that has all that kube-vip needs is only noted when it is taken over.
func TestTakenOver(t *testing.T) {
	pool := lb.PoolKey{Dialect: kubevip.Name, Name: "range-global"}
	four := lb.Verdict{Reason: lb.Rebuilt(lb.Ready, "", true), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}, Pools: []lb.PoolKey{pool}}
	both := four
	both.Addresses = append(both.Addresses[:1:1], netip.MustParseAddr("fd00::1"))
	dhcp := lb.Verdict{Reason: kubevip.Reasons.With(kubevip.LeftToLease)}
	dhcp.DHCP[lb.IPv4] = true
	stale := left("10.0.0.1", "10.0.0.1", true)
	stale.Annotations["fairlead.io/allocated-from"] = "kube-vip/cidr-global"
	for name, test := range map[string]struct {
		service  *corev1.Service
		families []lb.Family
		verdict  lb.Verdict
		want     string
	}{
		"given":                  {left("10.0.0.1", "10.0.0.1", true), []lb.Family{lb.IPv4}, four, `{"metadata":{"annotations":{"fairlead.io/allocated-from":"kube-vip/range-global","fairlead.io/given":"10.0.0.1"},"resourceVersion":"7"}}`},
		"asked for":              {left("10.0.0.1", "", true), []lb.Family{lb.IPv4}, four, `{"metadata":{"annotations":{"fairlead.io/allocated-from":"kube-vip/range-global","fairlead.io/asked":"10.0.0.1"},"resourceVersion":"7"}}`},
		"dual-stack":             {left("10.0.0.1,fd00::1", "10.0.0.1", true), []lb.Family{lb.IPv4, lb.IPv6}, both, `{"metadata":{"annotations":{"fairlead.io/allocated-from":"kube-vip/range-global","fairlead.io/given":"10.0.0.1,fd00::1"},"resourceVersion":"7"}}`},
		"leased by kube-vip":     {left("0.0.0.0", "", true), []lb.Family{lb.IPv4}, dhcp, `{"metadata":{"annotations":{"fairlead.io/asked":"0.0.0.0"},"resourceVersion":"7"}}`},
		"asked for in the field": {left("10.0.0.1", "10.0.0.1", false), []lb.Family{lb.IPv4}, four, `{"metadata":{"annotations":{"fairlead.io/allocated-from":"kube-vip/range-global","fairlead.io/asked":"10.0.0.1"},"labels":{"implementation":"kube-vip"},"resourceVersion":"7"}}`},
		"from elsewhere now":     {stale, []lb.Family{lb.IPv4}, four, `{"metadata":{"annotations":{"fairlead.io/allocated-from":"kube-vip/range-global","fairlead.io/given":"10.0.0.1"},"resourceVersion":"7"}}`},
	} {
		if got := string(patch(t, served(test.service, test.families, test.verdict, "eth0"))); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// The finalizer alone is no proof of whose it is.
func TestKept(t *testing.T) {
	cloud := left("", "", false)
	cloud.Annotations = nil
	free := left("10.0.0.1", "10.0.0.1", true)
	free.Finalizers = nil
	for name, test := range map[string]struct {
		service *corev1.Service
		want    bool
	}{
		"given":                  {left("10.0.0.1", "10.0.0.1", true), true},
		"asked for in the field": {left("10.0.0.1", "10.0.0.1", false), true},
		"a cloud's":              {cloud, false},
		"without a finalizer":    {free, false},
	} {
		if got := kubevip.HasFinalizer(kubeapi.Service(test.service)); got != test.want {
			t.Errorf("%s: kept is %t", name, got)
		}
		if test.want && patch(t, deleted(test.service)) == nil {
			t.Errorf("%s: it cannot go", name)
		}
	}
}
