package kubeapi

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/lb"
)

func parse[T any](t testing.TB, text string) *T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return &out
}

var compareAddrs = cmpopts.EquateComparable(netip.Addr{})

// Everything of a Service that anybody reads.
func TestService(t *testing.T) {
	s := parse[corev1.Service](t, `
metadata:
  namespace: shop
  name: web
  uid: u
  resourceVersion: "7"
  creationTimestamp: "2026-03-01T12:00:00Z"
  deletionTimestamp: "2026-03-02T12:00:00Z"
  annotations: {a: b}
  labels: {c: d}
  finalizers: [example.com/f]
spec:
  type: LoadBalancer
  loadBalancerClass: example.com/class
  loadBalancerIP: 192.0.2.9
  loadBalancerSourceRanges: [10.0.0.0/8, x]
  ipFamilies: [IPv6, IPv4]
  ipFamilyPolicy: RequireDualStack
  externalTrafficPolicy: Local
  healthCheckNodePort: 32000
  sessionAffinity: ClientIP
  selector: {app: web}
  ports:
  - {name: http, port: 80, nodePort: 30080, targetPort: 8080}
  - {name: dns, port: 53, protocol: UDP, targetPort: dns}
status:
  loadBalancer:
    ingress:
    - {ip: 192.0.2.7, ipMode: VIP}
    - {hostname: web.example, ports: [{port: 80, protocol: TCP}]}
    - {ip: x}
  conditions:
  - {type: other, status: "True", reason: Other, message: Other., lastTransitionTime: "2026-03-01T12:00:00Z"}
  - {type: fairlead.io/Ready, status: "True", reason: Ready, message: The Service has 192.0.2.7., lastTransitionTime: "2026-03-01T13:00:00Z"}
`)
	want := &lb.Service{
		Key: types.NamespacedName{Namespace: "shop", Name: "web"}, UID: "u", Version: "7", Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Deleting: true,
		LoadBalancer: true, Class: "example.com/class", LoadBalancerIP: "192.0.2.9",
		Annotations: map[string]string{"a": "b"}, Labels: map[string]string{"c": "d"}, Finalizers: []string{"example.com/f"},
		Frontend: lb.Frontend{
			Families: []lb.Family{lb.IPv6, lb.IPv4}, Policy: lb.RequireDualStack,
			Ports: []lb.FrontendPort{
				{Port: lb.Port{Protocol: "TCP", Number: 80}, Name: "http", TargetPort: "8080", NodePort: 30080},
				{Port: lb.Port{Protocol: "UDP", Number: 53}, Name: "dns", TargetPort: "dns"},
			},
			Local: true, HealthCheckNodePort: 32000, Selector: map[string]string{"app": "web"}, Affinity: 3 * time.Hour,
			SourceRanges: []string{"10.0.0.0/8", "x"},
		},
		Ingress: []lb.Ingress{{IP: "192.0.2.7", Mode: lb.IPModeVIP}, {Hostname: "web.example", Ports: true}, {IP: "x"}},
		Says:    &lb.Condition{Reason: lb.Rebuilt(lb.Ready, "The Service has 192.0.2.7.", true), True: true, Since: time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)},
	}
	if diff := cmp.Diff(want, Service(s)); diff != "" {
		t.Error(diff)
	}
	if !Service(s).Attested() || !Service(s).Says.Ready() {
		t.Error("its address is not known as ours, or it is not known to be well")
	}
}

// What the API server would have filled in.
func TestServiceAsItIsWritten(t *testing.T) {
	for name, test := range map[string]struct {
		service  string
		families []lb.Family
		policy   lb.FamilyPolicy
		affinity time.Duration
	}{
		"empty":             {`{}`, []lb.Family{lb.IPv4}, lb.SingleStack, 0},
		"headless":          {`{spec: {clusterIP: None, clusterIPs: [None]}}`, []lb.Family{lb.IPv4}, lb.SingleStack, 0},
		"before dual-stack": {`{spec: {clusterIP: "fd96::1"}}`, []lb.Family{lb.IPv6}, lb.SingleStack, 0},
		"by cluster IPs":    {`{spec: {clusterIP: "fd96::1", clusterIPs: ["fd96::1", 10.96.0.1], ipFamilyPolicy: PreferDualStack}}`, []lb.Family{lb.IPv6, lb.IPv4}, lb.PreferDualStack, 0},
		"by families":       {`{spec: {clusterIP: "fd96::1", ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}}`, []lb.Family{lb.IPv4}, lb.SingleStack, 0},
		"of a new family":   {`{spec: {ipFamilies: [IPv7]}}`, []lb.Family{lb.IPv4}, lb.SingleStack, 0},
		"affinity":          {`{spec: {sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 7}}}}`, []lb.Family{lb.IPv4}, lb.SingleStack, 7 * time.Second},
		"no affinity":       {`{spec: {sessionAffinity: None, sessionAffinityConfig: {clientIP: {timeoutSeconds: 7}}}}`, []lb.Family{lb.IPv4}, lb.SingleStack, 0},
	} {
		s := Service(parse[corev1.Service](t, test.service))
		if diff := cmp.Diff(test.families, s.Families); diff != "" || s.Policy != test.policy || s.Affinity != test.affinity || s.LoadBalancer || s.Deleting || s.Local || s.Says != nil {
			t.Errorf("%s: %s%+v", name, diff, s)
		}
	}
}

func TestPublishedPassesOverWhatIsNoAddress(t *testing.T) {
	s := Service(parse[corev1.Service](t, `{status: {loadBalancer: {ingress: [{hostname: a.example}, {ip: 10.0.0.1}, {ip: x}, {ip: "fd00::1"}, {ip: 10.0.0.1}]}}}`))
	want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	if diff := cmp.Diff(want, s.Published(), compareAddrs); diff != "" {
		t.Error(diff)
	}
}

func TestPublishedOfAVeryLongList(t *testing.T) {
	s := &corev1.Service{}
	for i := range 50_000 {
		ip := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip.String()})
	}
	if n := len(Service(s).Published()); n != 1024 {
		t.Errorf("%d addresses, want 1024", n)
	}
}

func TestClusterIPs(t *testing.T) {
	s := parse[corev1.Service](t, `{spec: {clusterIPs: [None, 10.96.0.1, "fd96::1"]}}`)
	if diff := cmp.Diff([]netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd96::1")}, ClusterIPs(s), compareAddrs); diff != "" {
		t.Error(diff)
	}
}
