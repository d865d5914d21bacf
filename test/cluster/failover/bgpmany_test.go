package failover

import (
	"fmt"
	"net/netip"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// manyServices is how many there are. A message has room for several hundred prefixes.
const manyServices = 40

// Many Services are few messages; one that changes is one message. A router that takes fewer
// prefixes says how many.
func TestBGPManyServices(t *testing.T) {
	r, s, addrs := bgpWorld(t)
	const namespace = "many"
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}) // all in it ends with it
	for i := range manyServices {
		one := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("web-%d", i)}}
		one.Spec.Type, one.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, ptr.To(false)
		one.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
		ofMetalLB(one)
		slice := newSlice(one, corev1.IPv4Protocol, "10.77.0.1", "")
		for _, o := range []client.Object{one, slice} {
			if err := api.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
	}
	awaitPrefixes := func(node string, n int32) {
		t.Helper()
		eventually(t, func() error {
			got, err := peerOf(t, node, "tor")
			if err == nil && got.Prefixes != n {
				err = fmt.Errorf("%s announces %d prefixes, not %d", node, got.Prefixes, n)
			}
			return err
		})
	}
	for _, node := range nodes {
		awaitPrefixes(node, manyServices+2)
	}

	// An agent that starts sends all of them.
	running["node1"].kill(t)
	agentsRun(t, nodes...)
	count := func(metric string) (int, error) {
		out, err := running["node1"].get(t.Context(), running["node1"].metrics, "/metrics")
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(between(out, metric+`{peer="tor"}`, "\n"))
	}
	// For each family there is at least a message with prefixes, and one that says that it is
	// all. The status of the Agent may still be that of the killed one.
	var before int
	eventually(t, func() error {
		n, err := count("fairlead_bgp_announced_prefixes")
		if err == nil {
			before, err = count("fairlead_bgp_updates_sent_total")
		}
		if err == nil && (n != manyServices+2 || before < 4) {
			err = fmt.Errorf("the agent that started has announced %d prefixes in %d messages", n, before)
		}
		return err
	})
	if before > 6 {
		t.Errorf("%d prefixes took %d messages", manyServices+2, before)
	}
	if err := api.Patch(t.Context(), s, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"fairlead.io/bgp-communities":"65001:77"}}}`))); err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		r.shows(hostPrefix(a), "65001:77")
	}
	after, err := count("fairlead_bgp_updates_sent_total")
	if err != nil || after-before > len(addrs) {
		t.Errorf("a change of %d prefixes took %d messages (%v)", len(addrs), after-before, err)
	}
	r.leadsTo(netip.MustParsePrefix("198.51.100.30/32"), nodes...)

	// A router that takes 10.
	r.frr.Configure("router bgp 65001", "address-family ipv4 unicast", "neighbor nodes maximum-prefix 10")
	r.frr.Show("clear bgp *")
	awaitPeer(t, "node1", "tor", "PeerFull", "at most 10 prefixes")
}
