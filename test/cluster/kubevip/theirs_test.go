package kubevip

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
	"fairlead.io/test/kit/tree"
)

// left is a Service as kube-vip's cloud provider leaves it.
type left struct {
	namespace, name string
	port            int32
	annotation      string // kube-vip.io/loadbalancerIPs
	field           string // spec.loadBalancerIP
	label           bool   // implementation=kube-vip
	iface           string // kube-vip.io/serviceInterface
	leased          string // what kube-vip has from a DHCP server, and publishes
}

// theirs have addresses that are not those that would be given to them today.
var theirs = []left{
	{"default", "plain", 80, "10.77.0.205", "10.77.0.205", true, "", ""},
	{"default", "field", 80, "10.77.0.210", "10.77.0.210", false, "", ""}, // somebody asked for it in spec.loadBalancerIP
	{"default", "asks", 80, "10.77.0.211", "", true, "", ""},              // somebody asked for it in the annotation
	{"default", "outside", 80, "10.77.0.190", "", true, "", ""},           // the same, in no pool
	{"default", "dual", 80, "10.77.0.207,fd77::207", "10.77.0.207", true, "", ""},
	{"default", "dhcp", 80, "0.0.0.0", "", true, "", "10.77.0.240"},
	{"shared", "one", 80, "10.77.0.223", "10.77.0.223", true, "eth0", ""},
	{"shared", "two", 81, "10.77.0.223", "10.77.0.223", true, "eth0", ""},
}

// served are the addresses that kube-vip announces for it.
func (l left) served() (out []netip.Addr) {
	text := l.annotation
	if l.leased != "" {
		text = l.leased
	}
	for a := range strings.SplitSeq(text, ",") {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func (l left) key() kube.ObjectKey { return kube.ObjectKey{Namespace: l.namespace, Name: l.name} }

// object is the Service, but for what it has in its status.
func (l left) object() *corev1.Service {
	s := leadingAside(l.namespace, l.name, l.port)
	s.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": l.annotation, "kube-vip.io/vipHost": "node1"}
	if l.iface != "" {
		s.Annotations["kube-vip.io/serviceInterface"] = l.iface
	}
	if l.label {
		s.Labels = map[string]string{"implementation": "kube-vip"}
	}
	s.Finalizers = []string{"service.kubernetes.io/load-balancer-cleanup"}
	s.Spec.LoadBalancerIP = l.field
	if len(l.served()) > 1 {
		s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	}
	return s
}

// leadingAside returns a Service that leads to the server beside the cluster.
func leadingAside(namespace, name string, port int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Name: "tcp", Port: port}}
	return s
}

func createAside(t *testing.T, s *corev1.Service) {
	t.Helper()
	create(t, s)
	slice := site.Aside(s)
	create(t, slice)
	if len(s.Spec.IPFamilies) > 1 {
		six := site.Aside(s)
		six.Name += "6"
		six.AddressType, six.Endpoints[0].Addresses = discoveryv1.AddressTypeIPv6, []string{"fd77::1"}
		create(t, six)
	}
}

// standIn is the manifest of something like kube-vip's cloud provider, which does
// nothing.
func standIn(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(tree.Path("test/api/install/testdata/kube-vip-provider.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for old, with := range map[string]string{
		"registry.example/kube-vip-cloud-provider:v0.0.12":                                   "" + sandbox.WebImage,
		"[/kube-vip-cloud-provider, --leader-elect-resource-name=kube-vip-cloud-controller]": "[/guest, pause]",
	} {
		if strings.Count(text, old) != 1 {
			t.Fatalf("the manifest does not have %q once", old)
		}
		text = strings.Replace(text, old, with, 1)
	}
	path := filepath.Join(t.TempDir(), "provider.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// installTheirs makes what a cluster with kube-vip and its cloud provider has.
func installTheirs(t *testing.T) {
	t.Helper()
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shared"}})
	pools := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip"}}
	pools.Data = map[string]string{"range-global": "10.77.0.200-10.77.0.219,fd77::200-fd77::219", "range-shared": "10.77.0.220-10.77.0.229", "allow-share-shared": "true", "interface-shared": "eth0"}
	create(t, pools)
	for _, l := range theirs {
		s := l.object()
		createAside(t, s)
		for _, a := range l.served() {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)})
		}
		if err := api.Status().Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// announcer does what kube-vip does where it leads: it puts addresses onto the
// interface of its node, again if they are not there, and takes them off in the end.
// They are deprecated, so that the node does not use them as source addresses: what it
// masqueraded as one of them would break when that is taken off.
type announcer struct {
	node string
	stop func()
}

// announce begins to announce all addresses from a node.
func announce(t *testing.T, node string, addresses ...netip.Addr) *announcer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var add, remove strings.Builder
	for _, a := range addresses {
		fmt.Fprintf(&add, "ip -o address show to %s | grep -q . || ip address add %s/%d dev eth0 nodad valid_lft forever preferred_lft 0\n", a, a, a.BitLen())
		fmt.Fprintf(&remove, "ip address del %s/%d dev eth0 || true\n", a, a.BitLen())
	}
	do := func(ctx context.Context, script string) {
		if out, err := cluster.Exec(ctx, node, "sh", "-c", script); err != nil && ctx.Err() == nil {
			t.Errorf("%s on %s: %v\n%s", script, node, err, out)
		}
	}
	do(ctx, add.String())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				do(ctx, add.String())
			}
		}
	})
	v := &announcer{node: node}
	v.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		do(context.WithoutCancel(ctx), remove.String())
	})
	t.Cleanup(v.stop)
	return v
}
