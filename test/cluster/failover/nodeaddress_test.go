package failover

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Service publishes the address of a node: nobody announces it or fences it,
// and the node stays reachable.
func TestAddressOfANode(t *testing.T) {
	w := newWorld(t)
	stopController() // it would take the address off
	defer func() {
		if err := startController(); err != nil {
			t.Fatal(err)
		}
		w.settled()
	}()
	var node corev1.Node
	if err := api.Get(t.Context(), client.ObjectKey{Name: nodes[0]}, &node); err != nil {
		t.Fatal(err)
	}
	var own netip.Addr
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && !own.IsValid() {
			own = netip.MustParseAddr(a.Address)
		}
	}
	w.service.Status.LoadBalancer.Ingress = append(w.service.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: own.String()})
	if err := api.Status().Update(t.Context(), w.service); err != nil {
		t.Fatal(err)
	}
	during(t, 3*time.Second, func() error {
		if macs := w.asker.census(own)[own]; !slices.ContainsFunc(macs, func(mac string) bool { return nodeOf(mac) == nodes[0] }) || len(macs) != 1 {
			return fmt.Errorf("%s of %s is answered for by %v", own, nodes[0], macs)
		}
		return nil
	})
	for _, n := range nodes {
		if out, err := cluster.Exec(t.Context(), n, "nft", "get", "element", "inet", "fairlead", "vips4", "{ "+own.String()+" }"); err == nil {
			t.Errorf("%s filters what is for %s: %s", n, nodes[0], out)
		}
	}
}
