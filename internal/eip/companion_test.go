package eip

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/lb"
)

func TestAccompany(t *testing.T) {
	s := &lb.Service{Key: types.NamespacedName{Namespace: "shop", Name: "web"}, UID: "u",
		Frontend: lb.Frontend{Ports: []lb.FrontendPort{{Port: lb.Port{Protocol: "TCP", Number: 80}, Name: "http"}}}}
	four, six := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")
	var have Companions
	// do carries a plan out, and checks what it says.
	do := func(name string, addresses []netip.Addr, want string) {
		t.Helper()
		p := Accompany(s, addresses, have)
		if got := strings.Join(p.Lines(), "; "); got != want {
			t.Errorf("%s: %s\nwant %s", name, got, want)
		}
		for _, step := range p.Steps {
			body := step.Body.(Write)
			switch o := body.Object.(type) {
			case *corev1.Service:
				if have.Service = o; step.Verb == lb.VerbDelete {
					have.Service = nil
				}
			case *discoveryv1.EndpointSlice:
				f := lb.IPv4
				if o.AddressType == discoveryv1.AddressTypeIPv6 {
					f = lb.IPv6
				}
				if have.Slices[f] = o; step.Verb == lb.VerbDelete {
					have.Slices[f] = nil
				}
			case *metav1.PartialObjectMetadata:
				have.Endpoints = nil
			}
		}
	}
	do("without an address", nil, "")
	do("an address", []netip.Addr{four}, "create Service shop/web-ext; create EndpointSlice shop/web-ext")
	do("nothing has changed", []netip.Addr{four}, "")
	if have.Service.Spec.ClusterIP != corev1.ClusterIPNone || have.Service.Labels["kube-dc.com/source-service"] != "web" || have.Service.OwnerReferences[0].UID != "u" ||
		have.Slices[lb.IPv4].Labels[discoveryv1.LabelServiceName] != "web-ext" || have.Slices[lb.IPv4].Endpoints[0].Addresses[0] != "192.0.2.7" {
		t.Errorf("%+v\n%+v", have.Service, have.Slices[lb.IPv4])
	}
	do("both families", []netip.Addr{four, six}, "create EndpointSlice shop/web-ext-ipv6")
	have.Endpoints = &metav1.PartialObjectMetadata{ObjectMeta: *have.Service.ObjectMeta.DeepCopy()}
	do("taken over", []netip.Addr{four, six}, "delete Endpoints shop/web-ext: EndpointSlices replace them")
	if p := Accompany(s, []netip.Addr{netip.MustParseAddr("192.0.2.8"), six}, have); len(p.Steps) != 1 || !strings.Contains(string(p.Steps[0].Body.(Write).Patch), `"192.0.2.8"`) {
		t.Errorf("another address: %s", p)
	}
	do("one family", []netip.Addr{four}, "delete EndpointSlice shop/web-ext-ipv6: the Service has no IPv6 address")
	s.Ports[0].Number = 81
	if p := Accompany(s, []netip.Addr{four}, have); len(p.Steps) != 2 {
		t.Errorf("another port: %s", p)
	}
	do("no address any more", nil, "delete EndpointSlice shop/web-ext: the Service has no external address; delete Service shop/web-ext: the Service has no external address")

	users := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-ext"}}
	older := &corev1.Service{ObjectMeta: companionMeta(&lb.Service{Key: s.Key, UID: "older"}, "web-ext")}
	for name, there := range map[string]*corev1.Service{"a user's": users, "an older Service's": older} {
		if p := Accompany(s, []netip.Addr{four}, Companions{Service: there}); !p.Empty() {
			t.Errorf("%s: %s", name, p)
		}
		if p := Accompany(s, nil, Companions{Service: there}); !p.Empty() {
			t.Errorf("%s: %s", name, p)
		}
	}
	s.Key.Name = strings.Repeat("a", 60)
	if p := Accompany(s, []netip.Addr{four}, Companions{}); !p.Empty() {
		t.Errorf("a long name: %s", p)
	}
}
