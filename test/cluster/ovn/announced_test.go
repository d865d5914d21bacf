package ovn

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"fairlead.io/sandbox"
	"fairlead.io/test/kit/site"
)

// floatingPool has addresses that nodes announce on the port of Open vSwitch that leads
// to the external network, as MetalLB's documents have it beside kube-dc.
const floatingPool = `
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: floating, namespace: metallb-system}
spec: {addresses: [100.64.17.100/32]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: floating, namespace: metallb-system}
spec: {ipAddressPools: [floating], interfaces: [` + sandbox.ExternalOVS + `]}
`

// A second release serves MetalLB's class beside the first, which serves the projects.
// Each leaves the other's Services alone.
func TestMetalLBsClassBeside(t *testing.T) {
	tag := strings.TrimSpace(sh(t, "helm get values fairlead --namespace kube-system --output json | grep -o 'dev-[0-9a-f]*'"))
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := site.Shell(ctx, cluster, "helm uninstall metallb --namespace metallb-system --wait; kubectl delete namespace metallb-system"); err != nil {
			t.Error(err)
		}
	})
	sh(t, "helm install metallb charts/fairlead --namespace metallb-system --create-namespace --set loadBalancerClass=metallb --wait --set image.tag="+tag)
	// Replies leave where their address is: nodes need one of the same network.
	hosts := map[string]string{sandbox.ClientHost: "eth1", "node1": sandbox.ExternalOVS, "node2": sandbox.ExternalOVS, "node3": sandbox.ExternalOVS}
	number := 1
	for host, nic := range hosts {
		number++
		on(t, host, "ip", "address", "replace", fmt.Sprintf("100.64.17.%d/24", number), "dev", nic)
		t.Cleanup(func() {
			if _, err := cluster.Exec(context.WithoutCancel(t.Context()), host, "sh", "-c", "ip -o -4 address show dev "+nic+" to 100.64.17.0/24 | awk '{print $4}' | xargs -n1 -I@ ip address delete @ dev "+nic); err != nil {
				t.Error(err)
			}
		})
	}
	eventually(t, "MetalLB's objects are accepted", func() error {
		_, err := site.Shell(t.Context(), cluster, "kubectl apply -f - <<'END'\n"+floatingPool+"END")
		return err
	})
	sh(t, "sed 's/namespace: default/namespace: metallb-system/; /^---/,$d' examples/web.yaml | kubectl apply -f -")

	announced := newService("announced", 80)
	announced.Namespace, announced.Spec.LoadBalancerClass = "metallb-system", ptr.To("metallb")
	announced.Spec.Selector = map[string]string{"app": "web"}
	announced.Spec.Ports[0].TargetPort.IntVal = 8080
	create(t, announced)
	routed := newService("routed", 80)
	vip := publish(t, routed)
	floating := netip.MustParseAddr("100.64.17.100")
	if got := addresses(t, announced, 1)[0]; got != floating {
		t.Fatalf("the address is %s, want %s", got, floating)
	}
	eventually(t, "a pod answers at the announced address", func() error {
		_, err := cluster.Exec(t.Context(), sandbox.ClientHost, "curl", "-sS", "--max-time", "5", "http://"+floating.String())
		return err
	})
	answers(t, sandbox.ClientHost, vip, 80, clientAddress, vms...)
	for _, who := range []struct {
		service *corev1.Service
		source  string // of others' events
	}{{announced, "fairlead-controller"}, {routed, "metallb"}} {
		var events corev1.EventList
		if err := api.List(t.Context(), &events); err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.InvolvedObject.UID == who.service.UID && strings.HasPrefix(e.Source.Component, who.source) {
				t.Errorf("%s tells of %s: %s", e.Source.Component, who.service.Name, e.Message)
			}
		}
	}
	noRules(t)
}
