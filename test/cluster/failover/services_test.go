package failover

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kit "fairlead.io/test/kit/client"
)

// Services of one family only.
func TestSingleFamilies(t *testing.T) {
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		t.Run(string(family), func(t *testing.T) {
			w := newWorld(t, func(s *corev1.Service) {
				s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = ptr.To(corev1.IPFamilyPolicySingleStack), []corev1.IPFamily{family}
			})
			former := w.settled()
			connections := connecting(t, w.addrs...)
			running[former].terminate(t)
			if owner := w.settled(); owner == former {
				t.Errorf("%s still has the address", former)
			}
			if failed := beyondHandOver(connections()); len(failed) > 0 {
				t.Errorf("connections failed: %v", failed)
			}
		})
	}
}

// The address of a Service with externalTrafficPolicy: Local is where its
// endpoint is, and nowhere if there is none.
func TestLocalFollowsItsEndpoint(t *testing.T) {
	w := newWorld(t, func(s *corev1.Service) { s.Name = "cluster" })
	local := &corev1.Service{}
	local.Namespace, local.Name = "default", "local"
	local.Spec = *w.service.Spec.DeepCopy()
	local.Spec.ClusterIP, local.Spec.ClusterIPs = "", nil
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	create(t, local)
	addrs := addressesOf(t, local)
	all := append(addrs, w.addrs...)
	put := func(node string) {
		t.Helper()
		for _, family := range local.Spec.IPFamilies {
			slice := newSlice(local, family, "10.77.0.1"+node[len(node)-1:], "fd77::1"+node[len(node)-1:])
			slice.Endpoints[0].NodeName = &node
			if node == nodes[0] {
				create(t, slice)
				continue
			}
			if err := api.Update(t.Context(), slice); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, node := range nodes {
		listen(t, node)
		put(node)
		eventually(t, func() error {
			owners, err := w.owners(all...)
			if err != nil {
				return err
			}
			for _, addr := range addrs {
				if owners[addr] != node {
					return fmt.Errorf("%s is at %s, its endpoint at %s", addr, owners[addr], node)
				}
				if err := greet(t.Context(), addr, 80); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, family := range local.Spec.IPFamilies {
		slice := newSlice(local, family, "10.77.0.13", "fd77::13")
		slice.Endpoints = []discoveryv1.Endpoint{}
		if err := api.Update(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() error {
		_, err := w.owners(w.addrs...) // and of no others
		return err
	})
}

// listen serves on a node, as a pod in its network would.
func listen(t *testing.T, node string) {
	t.Helper()
	var l net.Listener
	if err := cluster.In(node, func() (err error) {
		l, err = net.Listen("tcp", fmt.Sprintf(":%d", serverPort))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go kit.Serve(l)
}

// A thousand addresses of one node, each answered for by one other node when it
// dies.
func TestThousandAddresses(t *testing.T) {
	// The survivors have thousands of events to write; those of the next test would
	// come behind them.
	t.Cleanup(killAll)
	w := newWorld(t)
	// The controller would take back what it has not given.
	stopController()
	t.Cleanup(func() {
		if err := startController(); err != nil {
			t.Error(err)
		}
	})
	var all []netip.Addr
	v4, v6 := netip.MustParseAddr("10.77.4.1"), netip.MustParseAddr("fd77::4:1")
	for range 800 {
		all, v4 = append(all, v4), v4.Next()
	}
	for range 200 {
		all, v6 = append(all, v6), v6.Next()
	}
	s := w.service
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		s.Status.LoadBalancer.Ingress = nil
		for _, addr := range all {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: addr.String(), IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)})
		}
		return api.Status().Update(t.Context(), s)
	})
	began := time.Now()
	// At how many nodes they are does not matter: one that gets no time for a second
	// loses some of them to another, which keeps those.
	var has map[string]int
	oneEach := func() error {
		owners, err := w.owners(all...)
		has = map[string]int{}
		for _, node := range owners {
			has[node]++
		}
		return err
	}
	eventually(t, oneEach)
	t.Logf("%d addresses are all answered for after %v", len(all), time.Since(began).Round(10*time.Millisecond))
	former := slices.MaxFunc(nodes, func(a, b string) int { return cmp.Compare(has[a], has[b]) })
	if err := cluster.Kill(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	eventually(t, func() error {
		if missing := len(all) - len(w.asker.census(all...)); missing > 0 {
			return fmt.Errorf("%d are not answered for", missing)
		}
		return nil
	})
	t.Logf("%d addresses are all answered for again %v after %s died", len(all), time.Since(began).Round(10*time.Millisecond), former)
	eventually(t, oneEach)
	if err := cluster.Restart(t.Context(), former); err != nil {
		t.Fatal(err)
	}
	agentsRun(t, nodes...)
	eventually(t, oneEach)
	if n := has[former]; n > 0 {
		t.Errorf("%s has taken %d back", former, n)
	}
}
