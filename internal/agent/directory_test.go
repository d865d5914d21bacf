package agent

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
)

var born = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// serviceOf makes a Service of an age in minutes with the given addresses.
func serviceOf(name string, age int, share string, port int32, addresses ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name),
		CreationTimestamp: metav1.NewTime(born.Add(-time.Duration(age) * time.Minute))}}
	if share != "" {
		s.Annotations = map[string]string{native.AnnotationShare: share}
	}
	s.Spec.Ports = []corev1.ServicePort{{Port: port, Protocol: corev1.ProtocolTCP}}
	for _, a := range addresses {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
	}
	return s
}

// sliceOf makes an EndpointSlice with a serving endpoint on each node; a node
// with a "-" before it has one that does not serve.
func sliceOf(service, name string, nodes ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}}}
	for _, n := range nodes {
		serves := n[0] != '-'
		if !serves {
			n = n[1:]
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{NodeName: &n, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(serves)}})
	}
	return s
}

// readerOf reads Services whose class may use the pools of these formats.
func readerOf(dialects ...lb.Dialect) *sources.Reader {
	c := config.Default()
	c.Classes = []config.Class{{Backend: config.Announce, Pools: dialects}}
	return sources.New(sources.Options{Config: c, Log: slog.New(slog.DiscardHandler)}, nil)
}

func put(d *directory, s *corev1.Service) []netip.Addr {
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	return d.setService(client.ObjectKeyFromObject(s), readerOf(lb.Native, metallb.Name).Service(s))
}

// noLeases is for directories of which nothing is leased.
type noLeases struct{}

func (noLeases) Addresses(types.NamespacedName) []netip.Addr { return nil }
func (noLeases) Name(types.NamespacedName, lb.Family) string { return "" }
func (noLeases) Names(types.NamespacedName) []string         { return nil }
func (noLeases) Look(...string)                              {}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

func TestTenantsShareOnlyIfTheyAgree(t *testing.T) {
	d := newDirectory(noLeases{})
	put(d, serviceOf("young", 1, "", 22, "192.0.2.1"))
	put(d, serviceOf("b", 2, "key", 443, "192.0.2.1"))
	put(d, serviceOf("a", 3, "key", 80, "192.0.2.1"))
	addr := addrs("192.0.2.1")[0]
	same(t, "ports", d.ports(addr), []lb.Port{{Protocol: "TCP", Number: 80}, {Protocol: "TCP", Number: 443}})
	same(t, "names", d.names(addr), "[shop/a shop/b]")
	d.setService(types.NamespacedName{Namespace: "shop", Name: "a"}, nil)
	d.setService(types.NamespacedName{Namespace: "shop", Name: "b"}, nil)
	same(t, "names when the others are gone", d.names(addr), "[shop/young]")
}

func TestAChangeNamesTheAddressesItConcerns(t *testing.T) {
	d := newDirectory(noLeases{})
	same(t, "new", put(d, serviceOf("web", 1, "", 80, "192.0.2.1")), addrs("192.0.2.1"))
	moved := put(d, serviceOf("web", 1, "", 80, "192.0.2.2"))
	slices.SortFunc(moved, netip.Addr.Compare)
	same(t, "moved", moved, addrs("192.0.2.1", "192.0.2.2"))
	same(t, "endpoints of another", d.setSlice(types.NamespacedName{Namespace: "shop", Name: "x"}, sliceOf("other", "x", "n1")), []netip.Addr(nil))
	key := types.NamespacedName{Namespace: "shop", Name: "web-1"}
	same(t, "endpoints", d.setSlice(key, sliceOf("web", "web-1", "n1")), addrs("192.0.2.2"))
	same(t, "the same endpoints", d.setSlice(key, sliceOf("web", "web-1", "n1", "n1")), []netip.Addr(nil))
	same(t, "endpoints gone", d.setSlice(key, nil), addrs("192.0.2.2"))
	same(t, "gone", d.setService(types.NamespacedName{Namespace: "shop", Name: "web"}, nil), addrs("192.0.2.2"))
	d.setSlice(types.NamespacedName{Namespace: "shop", Name: "x"}, nil)
	same(t, "nothing is left", len(d.addresses)+len(d.owner)+len(d.services)+len(d.serving), 0)
}

func TestASliceThatBecomesAnotherServices(t *testing.T) {
	d := newDirectory(noLeases{})
	put(d, serviceOf("web", 1, "", 80, "192.0.2.1"))
	put(d, serviceOf("shop", 1, "", 80, "192.0.2.2"))
	key := types.NamespacedName{Namespace: "shop", Name: "x"}
	d.setSlice(key, sliceOf("web", "x", "n1"))
	same(t, "both are concerned", d.setSlice(key, sliceOf("shop", "x", "n1")), addrs("192.0.2.1", "192.0.2.2"))
	if d.candidate(addrs("192.0.2.1")[0]).AnyServing || !d.candidate(addrs("192.0.2.2")[0]).AnyServing {
		t.Errorf("serving: %v", d.serving)
	}
	d.setSlice(key, nil)
	same(t, "nothing is left", len(d.owner)+len(d.serving), 0)
}

// Whatever a Service publishes, a node's address is not announced.
func TestTheAddressOfANodeHasNoTenants(t *testing.T) {
	d := newDirectory(noLeases{})
	put(d, serviceOf("web", 1, "", 80, "192.0.2.1", "192.0.2.2"))
	nodes := sets.New(addrs("192.0.2.1", "192.0.2.9")...)
	same(t, "becomes a node's", d.setNodes(nodes), addrs("192.0.2.1"))
	same(t, "stays a node's", d.setNodes(nodes.Clone()), []netip.Addr(nil))
	same(t, "of the node's address", d.names(addrs("192.0.2.1")[0]), "[]")
	same(t, "of the other", d.names(addrs("192.0.2.2")[0]), "[shop/web]")
	same(t, "no node's any more", d.setNodes(nil), addrs("192.0.2.1"))
	same(t, "of what was a node's", d.names(addrs("192.0.2.1")[0]), "[shop/web]")
}

func TestCandidate(t *testing.T) {
	d := newDirectory(noLeases{})
	d.pools = sources.NewPools([]lb.Pool{native.Pool(poolOf(t, `{addresses: [192.0.2.0/28], advertise: {interfaces: [eth1], failback: true, preferredNodes: [{weight: 5, selector: {}}]}}`))}, nil)
	local := serviceOf("web", 1, "", 80, "192.0.2.1", "2001:db8::1")
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	put(d, local)
	v4, v6 := addrs("192.0.2.1")[0], addrs("2001:db8::1")[0]
	if c := d.candidate(v4); c.AnyServing || len(c.Advertisements) != 1 || !c.Advertisements[0].Failback || len(c.Advertisements[0].Preferred) != 1 || !slices.Equal(c.InterfacesOn(nil), []string{"eth1"}) {
		t.Errorf("%+v", c)
	}
	d.setSlice(types.NamespacedName{Namespace: "shop", Name: "web-1"}, sliceOf("web", "web-1", "n1", "-n2"))
	d.setSlice(types.NamespacedName{Namespace: "shop", Name: "web-2"}, sliceOf("web", "web-2", "n3"))
	c := d.candidate(v6)
	if !c.AnyServing || !c.NeedsLocal || !c.ServingNodes.HasAll("n1", "n3") || c.ServingNodes.Len() != 2 || len(c.Advertisements) != 1 || c.InterfacesOn(nil) != nil {
		t.Errorf("%+v", c)
	}
	if c.HashKey != v4.String() {
		t.Errorf("both addresses of a Service must move as one, but %s is hashed for %s", c.HashKey, v6)
	}
}
