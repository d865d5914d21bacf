// Package ovn tests Services of kube-dc's projects with real packets: OVN 23.03 with three
// chassis, the names and addresses of kube-dc's own documentation, VMs behind a router, and
// a client in the external network.
package ovn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
)

const (
	namespace  = sandbox.ProjectNamespace // and the router's name
	routerMAC  = "ae:d6:b9:e1:76:78"
	serverPort = 31416 // of VMs
)

var (
	clientAddress = netip.MustParseAddr("168.119.17.49")
	routerAddress = netip.MustParseAddr("168.119.17.51")
	vms           = []string{"vm1", "vm2"}
)

// cluster is up while the tests of this package run.
var cluster = &sandbox.Cluster{Name: "fairlead-ovn", Network: sandbox.OVN}

var (
	api kube.Client
	// rulesBefore are the router's NAT rows and policies before Fairlead was there.
	rulesBefore string
)

func TestMain(m *testing.M) {
	os.Exit(site.Main(context.Background(), cluster, m.Run, func(ctx context.Context) (done func(), err error) {
		if api, err = newClient(); err != nil {
			return nil, err
		}
		if rulesBefore, err = routerRules(ctx); err != nil {
			return nil, err
		}
		tag, err := cluster.LoadFairlead(ctx)
		if err != nil {
			return nil, err
		}
		install := "helm install fairlead charts/fairlead --namespace kube-system --wait --set image.tag=" + tag
		for _, value := range cluster.OVNValues() {
			install += " --set '" + value + "'"
		}
		_, err = site.Shell(ctx, cluster, install)
		return func() {}, err
	}))
}

func newClient() (kube.Client, error) {
	config, err := cluster.RESTConfig()
	if err != nil {
		return nil, err
	}
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), kubedc.AddToScheme(s), kubeovn.AddToScheme(s)); err != nil {
		return nil, err
	}
	return kube.New(config, kube.Options{Scheme: s})
}

// routerRules are what the document says that load balancers do not need.
func routerRules(ctx context.Context) (string, error) {
	nat, err := cluster.Nbctl(ctx, "lr-nat-list", namespace)
	if err != nil {
		return "", err
	}
	policies, err := cluster.Nbctl(ctx, "lr-policy-list", namespace)
	return nat + policies, err
}

var eventually = site.Eventually

// sh runs a line as a person at the keyboard would.
func sh(t *testing.T, line string) string {
	t.Helper()
	out, err := site.Shell(t.Context(), cluster, line)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// on runs a program on a host.
func on(t *testing.T, host string, command ...string) string {
	t.Helper()
	out, err := cluster.Exec(t.Context(), host, command...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// nbctl runs ovn-nbctl.
func nbctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := cluster.Nbctl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// create makes an object that ends with the test.
func create(t *testing.T, o kube.Object) {
	t.Helper()
	eventually(t, "create "+o.GetName(), func() error { return api.Create(t.Context(), o) })
	t.Cleanup(func() { remove(t, o) })
}

// remove deletes an object and waits until it is gone.
func remove(t *testing.T, o kube.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	if err := site.Await(ctx, site.Long, func() error {
		if err := api.Delete(ctx, o); kube.IgnoreNotFound(err) != nil {
			return err
		}
		err := api.Get(ctx, kube.ObjectKeyFromObject(o), o)
		if err == nil {
			return errors.New("it is still there")
		}
		return kube.IgnoreNotFound(err)
	}); err != nil {
		t.Errorf("delete %s: %v", o.GetName(), err)
	}
}

// newService is a Service of the project at a port, for any VMs.
func newService(name string, port int32) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: port, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(serverPort)}}
	return s
}

// endpoints of a Service: VMs by their addresses.
func endpoints(s *corev1.Service, addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, GenerateName: s.Name + "-",
		Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}}}
	slice.AddressType = discoveryv1.AddressTypeIPv4
	for _, port := range s.Spec.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: ptr.To(port.Name), Port: ptr.To(int32(serverPort)), Protocol: ptr.To(port.Protocol)})
	}
	for _, a := range addresses {
		if strings.Contains(a, ":") {
			slice.AddressType = discoveryv1.AddressTypeIPv6
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}})
	}
	return slice
}

// publish makes a Service with both VMs and waits for its address. When the test has
// ended, nothing is left of it.
func publish(t *testing.T, s *corev1.Service) netip.Addr {
	t.Helper()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := site.Await(ctx, site.Long, func() error { return gone(ctx, "slb-"+s.Name+"-") }); err != nil {
			t.Errorf("%s is gone, and its EIp is not: %v", s.Name, err)
		}
	})
	create(t, s)
	create(t, endpoints(s, "10.1.0.40", "10.1.0.41"))
	return addresses(t, s, 1)[0]
}

// addresses waits until a Service publishes so many.
func addresses(t *testing.T, s *corev1.Service, count int) (out []netip.Addr) {
	t.Helper()
	showService(t, s)
	eventually(t, s.Name+" has an address", func() error {
		if err := api.Get(t.Context(), kube.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		out = nil
		for _, i := range s.Status.LoadBalancer.Ingress {
			a, err := netip.ParseAddr(i.IP)
			if err != nil {
				return err
			}
			out = append(out, a)
		}
		if len(out) != count {
			return fmt.Errorf("it has %v; conditions: %v", out, s.Status.Conditions)
		}
		return nil
	})
	return out
}

// showService shows what is known of a Service if the test fails.
func showService(t *testing.T, s *corev1.Service) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		out, err := site.Shell(ctx, cluster, "kubectl describe service -n "+s.Namespace+" "+s.Name+"; kubectl get eip,ovn-eip -A; kubectl logs -n kube-system --selector app.kubernetes.io/name=fairlead --prefix --tail=100")
		t.Logf("%s (%v)", out, err)
		rows, err := cluster.Nbctl(ctx, "lb-list")
		t.Logf("%s (%v)", rows, err)
	})
}

// reply is what a VM answers.
type reply struct {
	vm   string
	from netip.Addr // whom the VM saw
}

var replyPattern = regexp.MustCompile(`^(vm\d+) on node\d answers (.+)\n$`)

func parseReply(text string) (r reply, err error) {
	m := replyPattern.FindStringSubmatch(text)
	if m == nil {
		return r, fmt.Errorf("the answer is %q", text)
	}
	from, err := netip.ParseAddrPort(m[2])
	return reply{m[1], from.Addr().Unmap()}, err
}

// get sends a request from a host, over a connection of its own.
func get(ctx context.Context, host string, at netip.Addr, port int) (reply, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return cluster.Dial(ctx, host, network, address)
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+netip.AddrPortFrom(at, uint16(port)).String(), nil)
	if err != nil {
		return reply{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, err
	}
	return parseReply(string(body))
}

// answers waits until these VMs have answered a host, and no other has. All of them must
// have seen the host as what it is.
func answers(t *testing.T, host string, at netip.Addr, port int, seenAs netip.Addr, wanted ...string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			showNetwork(t, host, at)
		}
	}()
	seen := map[string]bool{}
	eventually(t, fmt.Sprintf("%v answer %s at %s", wanted, host, at), func() error {
		r, err := get(t.Context(), host, at, port)
		if err != nil {
			return err
		}
		if r.from != seenAs {
			t.Fatalf("%s has seen %s as %s, want %s", r.vm, host, r.from, seenAs)
		}
		if !slices.Contains(wanted, r.vm) {
			t.Fatalf("%s has answered", r.vm)
		}
		seen[r.vm] = true
		if len(seen) < len(wanted) {
			return fmt.Errorf("only %v", seen)
		}
		return nil
	})
}

// forget has the client host ask again who has an address.
func forget(t *testing.T) {
	t.Helper()
	on(t, sandbox.ClientHost, "ip", "neighbour", "flush", "dev", "eth1")
}
