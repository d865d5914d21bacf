package cloudscale

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/leak"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

func TestMain(m *testing.M) { leak.Main(m) }

const (
	subnet1 = "11111111-1111-4111-8111-111111111111"
	subnet2 = "22222222-2222-4222-8222-222222222222"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// edit changes a Service for a test.
type edit func(*corev1.Service)

func annotated(key, value string) edit {
	return func(s *corev1.Service) { s.Annotations[key] = value }
}

func ports(all ...corev1.ServicePort) edit {
	return func(s *corev1.Service) { s.Spec.Ports = all }
}

func port(name string, number, nodePort int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP, Port: number, NodePort: nodePort}
}

func udpPort(name string, number, nodePort int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: corev1.ProtocolUDP, Port: number, NodePort: nodePort}
}

// local sets externalTrafficPolicy Local.
func local(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	s.Spec.HealthCheckNodePort = 32000
}

// service has the ports http and https, and waits for its load balancer to go: without
// that, see marks_test.go.
func service(edits ...edit) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "deadbeef", Annotations: map[string]string{}, Finalizers: []string{lb.CleanupFinalizer}},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{port("http", 80, 30080), port("https", 443, 30443)},
		},
	}
	for _, e := range edits {
		e(s)
	}
	return s
}

func uuidOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// nodeNamed is a node whose server has its number.
func nodeNamed(n int) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("worker-%d", n), Labels: map[string]string{"number": fmt.Sprint(n)}},
		Spec: corev1.NodeSpec{ProviderID: cloudscale.ProviderID(uuidOf(n))}}
}

func nodesNamed(numbers ...int) []*corev1.Node {
	var out []*corev1.Node
	for _, n := range numbers {
		out = append(out, nodeNamed(n))
	}
	return out
}

// server has a public address and 10.0.0.n, and 10.0.1.n in another subnet.
func server(n int) cloudscale.Server {
	address := func(text, subnet string) cloudscale.InterfaceAddress {
		return cloudscale.InterfaceAddress{Address: netip.MustParseAddr(fmt.Sprintf(text, n)), Subnet: cloudscale.SubnetRef{UUID: subnet}}
	}
	return cloudscale.Server{UUID: uuidOf(n), Name: fmt.Sprintf("worker-%d", n), Status: cloudscale.Running, Zone: cloudscale.Slug{Slug: "lpg1"}, Interfaces: []cloudscale.Interface{
		{Type: "public", Addresses: []cloudscale.InterfaceAddress{address("192.0.2.%d", "public")}},
		{Type: "private", Addresses: []cloudscale.InterfaceAddress{address("10.0.0.%d", subnet1)}},
		{Type: "private", Addresses: []cloudscale.InterfaceAddress{address("10.9.9.%d", "")}},
	}}
}

func servers() []cloudscale.Server {
	return []cloudscale.Server{server(1), server(2), server(3), server(4)}
}

// wantOf is what Kubernetes says about a Service, with all others.
func wantOf(s *corev1.Service, nodes []*corev1.Node, all []*corev1.Service) lb.Want {
	w := lb.Want{Service: *kubeapi.Service(s), Nodes: values(nodes)}
	for _, o := range all {
		if o.UID != s.UID {
			w.Peers = append(w.Peers, *kubeapi.Service(o))
		}
	}
	w.Lives = func(uid types.UID) (types.NamespacedName, bool) {
		for _, o := range all {
			if o.UID == uid {
				return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, true
			}
		}
		return types.NamespacedName{}, false
	}
	return w
}

func values(nodes []*corev1.Node) []lb.Node {
	var out []lb.Node
	for _, n := range nodes {
		out = append(out, kubeapi.Node(n))
	}
	return out
}

// wants is the Desired of a Service that is read by the rules of cloudscale's
// controller.
func wants(s *corev1.Service, numbers ...int) Desired {
	return wantsBy(compat.VersionUpstream, s, numbers...)
}

func wantsBy(v compat.Version, s *corev1.Service, numbers ...int) Desired {
	settings, problems := compat.Read(kubeapi.Service(s), v)
	w := wantOf(s, nodesNamed(numbers...), nil)
	d, _, _ := decide(w, resolveMembers(w.Nodes, servers(), &settings), settings, problems)
	return d
}

// upstream is what cloudscale's controller makes of the Service of service() on
// nodes: its names, and the cloud's defaults.
func upstream(numbers ...int) Actual {
	a := Actual{Now: now, Members: map[string][]cloudscale.Member{}}
	ref := cloudscale.Ref{UUID: "lb", Name: "k8s-service-deadbeef"}
	a.LoadBalancers = []cloudscale.LoadBalancer{{UUID: "lb", Name: "k8s-service-deadbeef", Status: cloudscale.Running, Zone: cloudscale.Slug{Slug: "lpg1"},
		Flavor: cloudscale.Slug{Slug: "lb-standard"}, VIPAddresses: []cloudscale.VIPAddress{
			{Version: 4, Address: netip.MustParseAddr("192.0.2.10"), Subnet: cloudscale.SubnetRef{UUID: "p4"}},
			{Version: 6, Address: netip.MustParseAddr("2001:db8::10"), Subnet: cloudscale.SubnetRef{UUID: "p6"}}}}}
	for _, p := range []struct {
		name           string
		port, nodePort int
	}{{"http", 80, 30080}, {"https", 443, 30443}} {
		pool := "pool-" + p.name
		a.Pools = append(a.Pools, cloudscale.Pool{UUID: pool, Name: "tcp/" + p.name, LoadBalancer: ref, Algorithm: "round_robin", Protocol: "tcp"})
		a.Listeners = append(a.Listeners, cloudscale.Listener{UUID: "listener-" + p.name, Name: fmt.Sprintf("tcp/%d", p.port), Pool: &cloudscale.Ref{UUID: pool}, LoadBalancer: ref,
			Protocol: "tcp", ProtocolPort: p.port, TimeoutClientDataMS: 50000, TimeoutMemberConnectMS: 5000, TimeoutMemberDataMS: 50000})
		a.Monitors = append(a.Monitors, cloudscale.HealthMonitor{UUID: "monitor-" + p.name, Pool: cloudscale.Ref{UUID: pool}, LoadBalancer: ref,
			Type: "tcp", DelayS: 2, TimeoutS: 1, UpThreshold: 2, DownThreshold: 3})
		for _, n := range numbers {
			a.Members[pool] = append(a.Members[pool], memberOf(p.name, n, p.nodePort))
		}
	}
	return a
}

func memberOf(portName string, n, nodePort int) cloudscale.Member {
	return cloudscale.Member{UUID: fmt.Sprintf("member-%s-%d", portName, n), Name: fmt.Sprintf("10.0.0.%d:%d", n, nodePort), Enabled: true,
		ProtocolPort: nodePort, MonitorPort: nodePort, Address: netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", n)),
		Subnet: cloudscale.SubnetRef{UUID: subnet1}, MonitorStatus: "up", CreatedAt: now.Add(-time.Hour)}
}

// memberByName finds a member to change.
func (a *Actual) memberByName(t *testing.T, name string) *cloudscale.Member {
	t.Helper()
	for _, pool := range slices.Sorted(maps.Keys(a.Members)) {
		for i := range a.Members[pool] {
			if a.Members[pool][i].Name == name {
				return &a.Members[pool][i]
			}
		}
	}
	t.Fatalf("there is no member %s", name)
	return nil
}

// check compares a plan with the lines that people read.
func check(t *testing.T, p lb.Plan, impact lb.Impact, lines ...string) {
	t.Helper()
	if diff := cmp.Diff(strings.Join(lines, "\n"), strings.Join(p.Lines(), "\n")); diff != "" {
		t.Errorf("the plan is (- want, + got):\n%s", diff)
	}
	if got := p.Impact(); got != impact {
		t.Errorf("impact: %s, want %s", got, impact)
	}
}

func other(name string, uid types.UID, edits ...edit) *corev1.Service {
	s := service(edits...)
	s.Name, s.UID = name, uid
	return s
}
