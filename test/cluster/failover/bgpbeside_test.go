package failover

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/metallb"
	"fairlead.io/api/v1alpha1"
)

// A pool that is announced on the LAN and to routers: one node answers on the LAN, all are led
// to by the router, and the death of the one changes nothing for the others.
func TestBGPBesideLayer2(t *testing.T) {
	showLogs(t)
	installMetalLB(t, "10.77.0.230-10.77.0.239")
	advertise(t, func(s *metallb.L2AdvertisementSpec) { s.IPAddressPools = []string{"edge"} })
	r := newRouters(t)
	bgpObject(t, "BGPPeer", "tor", tor)
	bgpObject(t, "BGPAdvertisement", "edge", `{ipAddressPools: [edge]}`)
	w := newWorld(t, ofMetalLB)
	owner := w.settled()
	p := hostPrefix(w.addrs[0])
	r.leadsTo(p, nodes...)
	running[owner].terminate(t)
	r.leadsTo(p, others(owner)...)
	w.moved(owner)
	agentsRun(t, nodes...)
	r.leadsTo(p, nodes...)

	// One that dies is replaced on the LAN, and routers keep all routes until it is back.
	owner = w.settled()
	unchanged := r.steady(p)
	running[owner].kill(t)
	w.moved(owner)
	agentsRun(t, nodes...)
	eventually(t, func() error { return r.established(owner) })
	unchanged()
}

// A pool of our own kind, by BGP alone; and Services with policy Local.
func TestBGPOfOwnPools(t *testing.T) {
	showLogs(t)
	installMetalLB(t, "192.0.2.0/29")
	r := newRouters(t)
	bgpObject(t, "BGPPeer", "tor", tor)
	pool := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "routed"}}
	pool.Spec.Addresses, pool.Spec.AutoAssign = []v1alpha1.Span{"198.51.100.0/24"}, ptr.To(false)
	pool.Spec.Advertise.BGP = &v1alpha1.BGP{Peers: []string{"tor"}, Communities: []string{"65001:5"}}
	create(t, pool)
	agentsRun(t, nodes...)
	s := newService(t, "web", func(s *corev1.Service) {
		s.Annotations = map[string]string{"fairlead.io/pool": "routed"}
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = ptr.To(corev1.IPFamilyPolicySingleStack), []corev1.IPFamily{corev1.IPv4Protocol}
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	})
	p := hostPrefix(addressesOf(t, s)[0])
	serving := func(on ...string) { // a pod on a node with a "-" is about to end
		t.Helper()
		slice := &discoveryv1.EndpointSlice{}
		if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web-ipv4"}, slice); err != nil {
			t.Fatal(err)
		}
		slice.Endpoints = nil
		for i, name := range on {
			address := netip.MustParseAddr("10.77.0.1")
			for range i {
				address = address.Next()
			}
			node, ends := strings.CutPrefix(name, "-")
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address.String()}, NodeName: ptr.To(node),
				Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(!ends), Serving: ptr.To(true), Terminating: ptr.To(ends)}})
		}
		if err := api.Update(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
	r.leadsTo(p) // the endpoint is on no node
	serving("node2")
	r.leadsTo(p, "node2")
	r.shows(p, "65001:5")
	serving("node2", "node3")
	r.leadsTo(p, "node2", "node3")
	serving("-node2", "node3") // routers leave the node before its pod has ended
	r.shows(p, "graceful-shutdown")
	r.leadsTo(p, "node3")
	r.knows(p.String(), "node2", true)
	serving("node3")
	r.knows(p.String(), "node2", false)
	r.leadsTo(p, "node3")
	serving()
	r.leadsTo(p)
	serving("node1")
	r.leadsTo(p, "node1")
	where, err := interfaces()
	if err != nil || len(where) > 0 {
		t.Errorf("addresses are on interfaces: %v %v", where, err)
	}
}
