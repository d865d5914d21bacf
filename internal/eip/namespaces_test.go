package eip

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// Several namespaces of one Vpc have the gateway's address. Two Services that come to have
// one port there at the same time do not both lose it: the older one keeps it. One that has
// it alone keeps it.
func TestNamespacesShareGateway(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	address := netip.MustParseAddr("100.64.0.2")
	b := NewBook(true)
	b.Vpc("shop", &kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: kubeovn.VpcSpec{Namespaces: []string{"one", "two"}}})
	b.OvnEip("shop-ext", &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: "shop-ext"}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext"}, Status: kubeovn.OvnEipStatus{Ready: true, V4IP: address.String()}})
	port := lb.Port{Protocol: "TCP", Number: 80}
	keys := map[string]types.NamespacedName{}
	for i, n := range []string{"one", "two"} { // the older one first
		gateway := &api.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: n, Name: kubedc.DefaultGateway, UID: types.UID("eip-" + n)}, Spec: api.EIpSpec{ChildRef: "shop-ext"}}
		b.EIp(types.NamespacedName{Namespace: n, Name: gateway.Name}, gateway)
		keys[n] = types.NamespacedName{Namespace: n, Name: "web"}
		s := &lb.Service{Key: keys[n], UID: types.UID("svc-" + n), Created: now.Add(time.Duration(i) * time.Second), LoadBalancer: true,
			Frontend: lb.Frontend{Families: []lb.Family{lb.IPv4}, Ports: []lb.FrontendPort{{Port: port}}}}
		b.Service(keys[n], s.UID, &Claim{Service: s, Wish: kubedc.Wish{EIp: kubedc.DefaultGateway}})
	}
	for name, test := range map[string]struct{ rows, have []string }{
		"nobody has it yet": {nil, []string{"one", "two"}},
		"both have it":      {[]string{"one", "two"}, []string{"one"}},
		"the older has it":  {[]string{"one"}, []string{"one"}},
		"the younger":       {[]string{"two"}, []string{"two"}},
	} {
		t.Run(name, func(t *testing.T) {
			rows := func(a netip.Addr, _ []lb.Port) (out []Row, err error) {
				for _, n := range test.rows {
					if a == address {
						out = append(out, Row{Service: keys[n], Address: a, Ports: []lb.Port{port}})
					}
				}
				return out, nil
			}
			for n, key := range keys {
				uid := types.UID("svc-" + n)
				got := b.LookAtService(key, rows, now).Service(uid)
				if same := b.LookAtEIp(types.NamespacedName{Namespace: n, Name: kubedc.DefaultGateway}, rows, now).Service(uid); len(same.Addresses) != len(got.Addresses) {
					t.Errorf("%s has %v, or %v", key, got.Addresses, same.Addresses)
				}
				if want := slices.Contains(test.have, n); len(got.Addresses) > 0 != want || want == (got.Reason != nil) {
					t.Errorf("%s has %+v", key, got)
				}
				if got.Reason != nil && !strings.Contains(got.Reason.Text, "Port TCP 80") {
					t.Errorf("%s says %s", key, got.Reason)
				}
			}
		})
	}
}
