package ovn

import (
	"context"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	format "fairlead.io/internal/compat/kubedc"
	"fairlead.io/sandbox"
)

// A project whose networks have both families, with a router of its own: one Service, an
// address of each.
func TestBothFamilies(t *testing.T) {
	const project, external = "shalb-six", "ext-six"
	// The client host is in both networks.
	seenAs := []netip.Prefix{netip.MustParsePrefix("192.0.2.1/28"), netip.MustParsePrefix("2001:db8:17::49/64")}
	on(t, sandbox.ClientHost, "ip", "address", "replace", seenAs[0].String(), "dev", "eth1")

	// Kubernetes takes seconds, at times half a minute, to remove even an empty namespace.
	// Nobody waits for that: all that Fairlead makes in it is removed before.
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: project}}
	eventually(t, "create "+project, func() error { return api.Create(t.Context(), ns) })
	t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(t.Context()), ns); err != nil {
			t.Error(err)
		}
	})
	create(t, &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: external, Labels: map[string]string{format.LabelNetworkType: format.Public}},
		Spec: kubeovn.SubnetSpec{Vpc: "ovn-cluster", Provider: "ovn", Vlan: sandbox.ProviderNetwork, Protocol: "Dual", CIDRBlock: "192.0.2.0/28,2001:db8:17::/64", Gateway: "192.0.2.1,2001:db8:17::49"}})
	create(t, &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: project + "-default"},
		Spec: kubeovn.SubnetSpec{Vpc: project, Provider: "ovn", Protocol: "Dual", CIDRBlock: "10.6.0.0/16,fd06::/64", Gateway: "10.6.0.1,fd06::1"}})
	router := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"namespaces": []any{project}, "enableExternal": true, "extraExternalSubnets": []any{external}}}}
	router.SetGroupVersionKind(kubeovn.GroupVersion.WithKind("Vpc"))
	router.SetName(project)
	create(t, router)
	t.Cleanup(func() { remove(t, &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: project + "-" + external}}) })
	create(t, &kubedc.EIp{ObjectMeta: metav1.ObjectMeta{Namespace: project, Name: format.DefaultGateway}, Spec: kubedc.EIpSpec{ChildRef: project + "-" + external}})
	startVM(t, sandbox.VM{Name: "vm6", Node: "node2", Namespace: project, Switch: project + "-default",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.6.0.6/16"), netip.MustParsePrefix("fd06::6/64")},
		Gateways:  []netip.Addr{netip.MustParseAddr("10.6.0.1"), netip.MustParseAddr("fd06::1")}})

	s := newService("both", 80)
	s.Namespace, s.Spec.IPFamilyPolicy = project, ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	create(t, s)
	create(t, endpoints(s, "10.6.0.6"))
	create(t, endpoints(s, "fd06::6"))
	vips := addresses(t, s, 2)
	for i, vip := range vips {
		if vip.Is4() != (i == 0) {
			t.Fatalf("the addresses are %v, want one of each family, IPv4 first", vips)
		}
		answers(t, sandbox.ClientHost, vip, 80, seenAs[i].Addr(), "vm6")
	}
}
