package kubeapi

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"

	"fairlead.io/internal/lb"
)

func TestEndpoints(t *testing.T) {
	first := parse[discoveryv1.EndpointSlice](t, `
metadata: {namespace: shop, name: web-abc, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: any}, {port: 53, protocol: UDP}]
endpoints:
- {addresses: [10.0.0.1], nodeName: a}
- {addresses: [10.0.0.2], nodeName: b, conditions: {ready: false, serving: true, terminating: true}}
- {addresses: [10.0.0.3], conditions: {ready: false}}
- {addresses: [x]}
`)
	second := parse[discoveryv1.EndpointSlice](t, `
metadata: {namespace: shop, name: web-def, labels: {kubernetes.io/service-name: web}}
addressType: IPv6
ports: [{name: http, port: 8081}]
endpoints:
- {addresses: ["fd00::1"], nodeName: a, conditions: {ready: true}}
`)
	named, other := map[lb.EndpointPort]uint16{{Name: "http", Protocol: "TCP"}: 8080, {Protocol: "UDP"}: 53}, map[lb.EndpointPort]uint16{{Name: "http", Protocol: "TCP"}: 8081}
	want := []lb.Endpoint{
		{Address: netip.MustParseAddr("10.0.0.1"), Node: "a", Ready: true, Serving: true, Ports: named},
		{Address: netip.MustParseAddr("10.0.0.2"), Node: "b", Serving: true, Ports: named},
		{Address: netip.MustParseAddr("10.0.0.3"), Ports: named},
		{Address: netip.MustParseAddr("fd00::1"), Node: "a", Ready: true, Serving: true, Ports: other},
	}
	if diff := cmp.Diff(want, Endpoints([]discoveryv1.EndpointSlice{*first, *second}), compareAddrs); diff != "" {
		t.Error(diff)
	}
	if got := Endpoints(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
	if got := ServiceOf(first).String(); got != "shop/web" {
		t.Errorf("it is of %s", got)
	}
	if got := ServiceOf(&discoveryv1.EndpointSlice{}); got.Name != "" {
		t.Errorf("of nobody's: %s", got)
	}
}
