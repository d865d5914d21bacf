package failover

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
)

// leased has a Service ask for addresses from the DHCP server.
func leased(s *corev1.Service) {
	s.Annotations = map[string]string{"kube-vip.io/loadbalancerIPs": "0.0.0.0,::"}
}

// leasesOf returns what agents say of the leases of a Service.
func leasesOf(t *testing.T, s *corev1.Service) (out []v1alpha1.Lease) {
	t.Helper()
	var list v1alpha1.AgentList
	if err := api.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for of, l := range v1alpha1.LatestLeases(list.Items) {
		if of.Service == client.ObjectKeyFromObject(s).String() {
			out = append(out, l)
		}
	}
	return out
}

// A Service gets its addresses from a DHCP server. They stay the same when its
// node dies, when agents are replaced and while the server is away; the server
// can take them back, and has them back when the Service is deleted.
func TestLeases(t *testing.T) {
	d := newDHCPServer(t)
	d.start(leased4, leased6)
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip"}, Data: map[string]string{"cidr-default": "0.0.0.0/32,::/128"}})
	w := newWorld(t, leased)
	for _, addr := range w.addrs {
		if !slices.Contains(d.has(), addr) {
			t.Errorf("%s is no lease: %v", addr, d.has())
		}
	}
	first, holders := slices.Clone(w.addrs), []string{d.holder(w.addrs[0]), d.holder(w.addrs[1])}
	// same says that nothing has changed for the server, which has not been told
	// that anybody would do without the addresses, nor for users.
	same := func() {
		t.Helper()
		if w.addrs = addressesOf(t, w.service); !slices.Equal(w.addrs, first) {
			t.Fatalf("the addresses were %v and are %v", first, w.addrs)
		}
		for i, addr := range first {
			if now := d.holder(addr); now != holders[i] || now == "" {
				t.Errorf("%s was leased by %q and is by %q", addr, holders[i], now)
			}
			if n := d.heard("DHCPRELEASE", addr, 0); n > 0 {
				t.Errorf("%s was released", addr)
			}
		}
		hosted(t, w.service, w.settled())
	}
	hosted(t, w.service, w.settled())

	t.Run("renewed", func(t *testing.T) {
		began := d.log.Len()
		messages := [2]string{"DHCPREQUEST", "DHCPDISCOVER"}
		eventually(t, func() error {
			if n := d.heard(messages[0], first[0], began); n < 2 {
				return fmt.Errorf("%s was renewed %d times", first[0], n)
			}
			return nil
		})
		if n := d.heard(messages[1], first[0], began); n > 0 {
			t.Errorf("%s was asked for anew", first[0])
		}
	})

	t.Run("node dies", func(t *testing.T) {
		former := w.settled()
		began := time.Now()
		if err := cluster.Kill(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		next := w.moved(former)
		t.Logf("leased addresses are answered for again %v after %s died", time.Since(began).Round(10*time.Millisecond), former)
		w.settled()
		if err := cluster.Restart(t.Context(), former); err != nil {
			t.Fatal(err)
		}
		agentsRun(t, nodes...)
		if owner := w.settled(); owner != next {
			t.Errorf("after %s came back %s has the addresses, not %s", former, owner, next)
		}
		same()
	})

	t.Run("agent replaced", func(t *testing.T) {
		owner := w.settled()
		connections := connecting(t, w.addrs...)
		old, next := running[owner], launch(t, owner)
		next.awaitReady(t)
		old.terminate(t)
		running[owner] = next
		if now := w.settled(); now != owner {
			t.Errorf("the addresses moved from %s to %s", owner, now)
		}
		if failed := connections(); len(failed) > 0 {
			t.Errorf("connections failed: %v", failed)
		}
		same()
	})

	t.Run("agent terminated", func(t *testing.T) {
		former := w.settled()
		connections := connecting(t, w.addrs...)
		running[former].terminate(t)
		if w.settled() == former {
			t.Errorf("%s still has the addresses", former)
		}
		if failed := beyondHandOver(connections()); len(failed) > 0 {
			t.Errorf("connections failed: %v", failed)
		}
		agentsRun(t, nodes...)
		same()
	})

	t.Run("everything restarted", func(t *testing.T) {
		for _, node := range nodes {
			running[node].kill(t)
		}
		if err := startController(); err != nil {
			t.Fatal(err)
		}
		agentsRun(t, nodes...)
		w.settled()
		same()
	})

	t.Run("server gone and back", func(t *testing.T) {
		d.stop()
		awaitEvent(t, "web", "fairlead-agent", "NoLeaseServer", "No DHCP server answers")
		w.settled()
		d.start(leased4, leased6)
		eventually(t, func() error {
			for _, l := range leasesOf(t, w.service) {
				if l.Message != "" {
					return errors.New(l.Message)
				}
			}
			return nil
		})
		w.settled()
		same()
	})

	t.Run("taken back", func(t *testing.T) {
		d.forget()
		d.start(other4, leased6)
		awaitEvent(t, "web", "fairlead-agent", "LeaseLost", "took it back")
		eventually(t, func() error {
			w.addrs = addressesOf(t, w.service)
			if w.addrs[0] == first[0] {
				return fmt.Errorf("still %s", first[0])
			}
			return nil
		})
		w.settled()
	})

	t.Run("deleted", func(t *testing.T) {
		if err := api.Delete(t.Context(), w.service); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if left := d.has(); slices.Contains(left, w.addrs[0]) || slices.Contains(left, w.addrs[1]) {
				return fmt.Errorf("leased are %v", left)
			}
			if d.heard("DHCPRELEASE", w.addrs[0], 0) == 0 {
				return errors.New("not released")
			}
			where, err := interfaces()
			if err == nil && len(where) > 0 {
				err = fmt.Errorf("left on interfaces: %v", where)
			}
			return err
		})
	})
}

// hosted waits until a Service names the node that announces it.
func hosted(t *testing.T, s *corev1.Service, node string) {
	t.Helper()
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		if named := s.Annotations["kube-vip.io/vipHost"]; named != node {
			return fmt.Errorf("%s is announced by %s and says %q", s.Name, node, named)
		}
		return nil
	})
}

// A lease that no server renews is used until its end and no longer; then the
// Service has no address until a server gives one.
func TestLeaseEnds(t *testing.T) {
	const life = 15 // seconds
	d := newDHCPServer(t)
	d.startShort(leased4, life)
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip"}}) // its words count then
	w := newWorld(t, leased, single(corev1.IPv4Protocol))
	d.stop()
	stopped := time.Now()
	var until time.Time // as was told last
	var lost time.Time
	err := await(t.Context(), 2*time.Minute, func() error {
		leases := leasesOf(t, w.service)
		if len(leases) == 1 && leases[0].Until != nil {
			until = leases[0].Until.Time
		}
		lost = time.Now()
		if greet(t.Context(), w.addrs[0], 80) == nil {
			return errors.New("it is still there")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if lost.Add(time.Second).Before(until) { // a connection that was being made then
		t.Errorf("lost at %s, and leased until %s", lost, until)
	}
	t.Logf("the address was there for %s without a server, and is gone %s after the end that was told", lost.Sub(stopped), lost.Sub(until))
	if lost.Sub(stopped) > (life+15)*time.Second {
		t.Error("too late")
	}
	awaitEvent(t, "web", "fairlead-agent", "LeaseLost", "no DHCP server has renewed it")
	eventually(t, func() error {
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(w.service), w.service); err != nil {
			return err
		}
		where, err := interfaces()
		if in := w.service.Status.LoadBalancer.Ingress; err == nil && len(in)+len(where) > 0 {
			err = fmt.Errorf("published %v, on interfaces %v", in, where)
		}
		return err
	})
	d.startShort(leased4, life)
	w.addrs = addressesOf(t, w.service)
	w.settled()
}

func single(f corev1.IPFamily) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.IPFamilyPolicy, s.Spec.IPFamilies = ptr.To(corev1.IPFamilyPolicySingleStack), []corev1.IPFamily{f}
		if s.Annotations["kube-vip.io/loadbalancerIPs"] == "0.0.0.0,::" {
			s.Annotations["kube-vip.io/loadbalancerIPs"] = map[corev1.IPFamily]string{corev1.IPv4Protocol: "0.0.0.0", corev1.IPv6Protocol: "::"}[f]
		}
	}
}
