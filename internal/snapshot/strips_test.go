package snapshot

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go4.org/netipx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
)

func TestStrips(t *testing.T) {
	pool := func(name string, spec v1alpha1.PoolSpec) client.Object {
		return &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	service := func(name string, addresses ...string) client.Object {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
			Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}[:len(addresses)], Ports: []corev1.ServicePort{{Port: 80}}}}
		for _, a := range addresses {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
		}
		return s
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}
	agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	agent.Status.Announced, agent.Status.Gateways = 1, []string{"192.0.2.30"}
	agent.Status.Addresses = []v1alpha1.Announcement{{Address: "192.0.2.4", Services: []string{"shop/web"}, Protocol: "ARP"}}
	agent.Status.Unannounced = []v1alpha1.Unannounced{{Address: "192.0.2.5", Services: []string{"shop/api"}, Reason: "NotAnnounced", Message: "It is not."}}
	s, err := Of(time.Now(), config.Default(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, node, agent,
		pool("edge", v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/27"}, Exclude: []v1alpha1.Span{"192.0.2.8-192.0.2.11", "203.0.113.0/24"},
			Reservations: []v1alpha1.Reservation{{Address: "192.0.2.20", Namespace: "shop", Name: "later"}}}),
		pool("six", v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"2001:db8::/64", "198.51.100.0/30"}}),
		service("web", "192.0.2.4"), service("api", "192.0.2.5"), service("both", "198.51.100.1", "2001:db8::3"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]Strip{
		// What is excluded is shown where it cuts the pool, and not elsewhere.
		"edge": {{From: "192.0.2.0", To: "192.0.2.31", Runs: "f1n1f2u1s1f2x4f8r1f9n1f1"}},
		"six": {
			{From: "198.51.100.0", To: "198.51.100.3", Runs: "f1u1f2"},
			{From: "2001:db8::", To: "2001:db8::ffff:ffff:ffff:ffff", Runs: fmt.Sprintf("f3u1f%d", int64(maxRun))},
		},
	}
	if diff := cmp.Diff(want, s.Strips()); diff != "" {
		t.Error(diff)
	}
	// With what agents report later, nothing is decided again.
	agent = agent.DeepCopy()
	agent.Status.Unannounced, agent.Status.Announced = nil, 2
	agent.Status.Addresses = append(agent.Status.Addresses, v1alpha1.Announcement{Address: "192.0.2.5", Services: []string{"shop/api"}, Protocol: "ARP"})
	later := *s
	later.Survey = s.Survey.WithAgents([]v1alpha1.Agent{*agent}, s.Nodes, nil)
	if got := later.Strips()["edge"][0].Runs; !strings.HasPrefix(got, "f1n1f2u2f2") {
		t.Errorf("edge is %s", got)
	}
	if got := s.Strips()["edge"][0].Runs; got != want["edge"][0].Runs {
		t.Errorf("the earlier snapshot has changed: %s", got)
	}
}

// Runs are what one gets by looking at each address.
func TestRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	base := netip.MustParseAddr("192.0.2.0")
	addr := func(i int) netip.Addr {
		a := base
		for range i {
			a = a.Next()
		}
		return a
	}
	for range 2000 {
		state := make([]byte, 40)
		from := rng.IntN(20)
		to := from + rng.IntN(20)
		var known []segment
		for i := range state {
			state[i] = stripKept
		}
		for i := 0; i < len(state); {
			n := 1 + rng.IntN(6)
			end := min(i+n, len(state)) - 1
			if letter := "f x"[rng.IntN(3)]; letter != ' ' {
				known = append(known, segment{netipx.IPRangeFrom(addr(i), addr(end)), letter})
				for j := i; j <= end; j++ {
					state[j] = letter
				}
			}
			i = end + 1
		}
		var marks []mark
		for i := range state {
			if rng.IntN(4) == 0 {
				state[i] = "ur"[rng.IntN(2)]
				marks = append(marks, mark{addr(i), state[i]})
			}
		}
		var want strings.Builder
		for i := from; i <= to; {
			n := 1
			for i+n <= to && state[i+n] == state[i] {
				n++
			}
			fmt.Fprintf(&want, "%c%d", state[i], n)
			i += n
		}
		if got := runs(netipx.IPRangeFrom(addr(from), addr(to)), known, marks); got != want.String() {
			t.Fatalf("from %d to %d, %q: got %s, want %s", from, to, state, got, want.String())
		}
	}
	if got := size(netip.MustParseAddr("::"), netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")); got != maxRun {
		t.Errorf("the size of everything is %d", got)
	}
}
