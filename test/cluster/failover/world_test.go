package failover

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/site"
)

// world is what a test begins with: all nodes are well, an agent runs on each,
// and a Service has an address of each family, which one node answers for.
type world struct {
	t       *testing.T
	asker   *asker
	service *corev1.Service
	addrs   []netip.Addr
}

func newWorld(t *testing.T, change ...func(*corev1.Service)) *world {
	t.Helper()
	showLogs(t)
	agentsRun(t, nodes...)
	w := &world{t: t, asker: newAsker(t)}
	w.service = newService(t, "web", change...)
	w.addrs = addressesOf(t, w.service)
	w.settled()
	w.forwarded()
	return w
}

// forwarded waits until kube-proxy of all nodes knows the addresses. One that has asked a
// dead API server in vain asks again only after a while, and without an API server never
// learns of them.
func (w *world) forwarded() {
	w.t.Helper()
	for _, node := range nodes {
		for _, a := range w.addrs {
			eventually(w.t, func() error {
				rules, err := cluster.Exec(w.t.Context(), node, rulesOf(a)...)
				if err == nil && !strings.Contains(string(rules), a.String()) {
					err = fmt.Errorf("kube-proxy of %s does not know %s", node, a)
				}
				return err
			})
		}
	}
}

// iptables is how kube-proxy forwards, instead of nftables.
var iptables bool

// rulesOf is the command that shows kube-proxy's rules of an address's family.
func rulesOf(a netip.Addr) []string {
	switch {
	case iptables && a.Is6():
		return []string{"ip6tables-save", "-t", "nat"}
	case iptables:
		return []string{"iptables-save", "-t", "nat"}
	case a.Is6():
		return []string{"nft", "list table ip6 kube-proxy"}
	}
	return []string{"nft", "list table ip kube-proxy"}
}

// newService makes a Service that leads to the server beside the cluster. It
// ends with the test.
func newService(t *testing.T, name string, change ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.Spec.AllocateLoadBalancerNodePorts = ptr.To(false)
	s.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	s.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	for _, f := range change {
		f(s)
	}
	create(t, s)
	for _, family := range s.Spec.IPFamilies {
		create(t, newSlice(s, family, "10.77.0.1", "fd77::1"))
	}
	return s
}

// newSlice returns endpoints for a Service: an address of each family.
func newSlice(s *corev1.Service, family corev1.IPFamily, v4, v6 string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace,
		Name: s.Name + "-" + strings.ToLower(string(family)), Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}}}
	slice.AddressType = discoveryv1.AddressType(family)
	slice.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(serverPort)), Protocol: ptr.To(corev1.ProtocolTCP)}}
	address := v4
	if family == corev1.IPv6Protocol {
		address = v6
	}
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
	return slice
}

// create makes an object that ends with the test.
func create(t *testing.T, o client.Object) {
	t.Helper()
	if err := api.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		err := await(ctx, site.Long, func() error {
			if err := api.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
				return err
			}
			err := api.Get(ctx, client.ObjectKeyFromObject(o), o)
			if err == nil {
				return errors.New("it is still there")
			}
			return client.IgnoreNotFound(err)
		})
		if err != nil {
			t.Errorf("delete %s: %v", o.GetName(), err)
		}
	})
}

// addressesOf waits until a Service has its addresses.
func addressesOf(t *testing.T, s *corev1.Service) (addrs []netip.Addr) {
	t.Helper()
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		addrs = nil
		for _, in := range s.Status.LoadBalancer.Ingress {
			if addr, err := lb.ParseAddr(in.IP); err == nil {
				addrs = append(addrs, addr)
			}
		}
		if len(addrs) != len(s.Spec.IPFamilies) {
			return fmt.Errorf("it has the addresses %v", addrs)
		}
		return nil
	})
	return addrs
}

// owner returns the one node that answers for all addresses.
func (w *world) owner() (string, error) {
	owners, err := w.owners(w.addrs...)
	if err != nil {
		return "", err
	}
	first := owners[w.addrs[0]]
	for addr, owner := range owners {
		if owner != first {
			return "", fmt.Errorf("%s is at %s and %s at %s", addr, owner, w.addrs[0], first)
		}
	}
	return first, nil
}

// owners returns which node answers for each address: exactly one, and no other
// node has the address on an interface.
func (w *world) owners(addrs ...netip.Addr) (map[netip.Addr]string, error) {
	census := w.asker.census(addrs...)
	where, err := interfaces()
	if err != nil {
		return nil, err
	}
	owners := map[netip.Addr]string{}
	for _, addr := range addrs {
		macs := census[addr]
		if len(macs) != 1 {
			return nil, fmt.Errorf("%s is answered for by %v", addr, macs)
		}
		owners[addr] = nodeOf(macs[0])
		if on := where[addr]; !slices.Equal(on, []string{owners[addr]}) {
			return nil, fmt.Errorf("%s answers for %s, which is on interfaces of %v", owners[addr], addr, on)
		}
	}
	for addr, on := range where {
		if !slices.Contains(addrs, addr) {
			return nil, fmt.Errorf("%s is left on %v", addr, on)
		}
	}
	return owners, nil
}

// interfaces returns the addresses of pools that are on interfaces, and of which
// nodes.
func interfaces() (map[netip.Addr][]string, error) {
	return site.OnInterfaces(context.Background(), cluster, nodes...)
}

// settled waits until everything is as it should be, sees that it stays so, and
// that connections are made. It returns the owner.
func (w *world) settled() (owner string) {
	w.t.Helper()
	eventually(w.t, func() (err error) {
		owner, err = w.owner()
		return err
	})
	for range 3 {
		if now, err := w.owner(); err != nil || now != owner {
			w.t.Fatalf("the owner was %s, and now is %q: %v", owner, now, err)
		}
	}
	for _, addr := range w.addrs {
		eventually(w.t, func() error { return greet(w.t.Context(), addr, 80) })
	}
	return owner
}

// moved waits until a single node that is not former answers for all addresses,
// whatever is still on interfaces of former.
func (w *world) moved(former string) (owner string) {
	w.t.Helper()
	eventually(w.t, func() error {
		census := w.asker.census(w.addrs...)
		owner = ""
		for _, addr := range w.addrs {
			macs := census[addr]
			if len(macs) != 1 || nodeOf(macs[0]) == former || owner != "" && nodeOf(macs[0]) != owner {
				return fmt.Errorf("%s, once at %s, is answered for by %v", addr, former, macs)
			}
			owner = nodeOf(macs[0])
		}
		return nil
	})
	return owner
}

// onlyAt says whether all addresses are answered for by one node alone.
func (w *world) onlyAt(node string) error {
	for addr, macs := range w.asker.census(w.addrs...) {
		for _, mac := range macs {
			if nodeOf(mac) != node {
				return fmt.Errorf("%s answers for %s, which is %s's", nodeOf(mac), addr, node)
			}
		}
	}
	return nil
}
