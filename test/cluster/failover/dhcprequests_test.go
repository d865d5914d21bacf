package failover

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/internal/lb"
)

// annotate adds annotations, a key and a value each.
func annotate(pairs ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		for i := 0; i < len(pairs); i += 2 {
			s.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

// The ways in which Services come to lease, and what they can say about it in
// kube-vip's words.
func TestDHCPRequests(t *testing.T) {
	showLogs(t)
	d := newDHCPServer(t)
	// Of two that it knows by their hardware addresses it believes that they have
	// the address of a node, and of a host that is none.
	d.start(leased4, leased6, "--dhcp-host=02:00:5e:00:53:08,10.77.0.12", "--dhcp-host=02:00:5e:00:53:09,10.77.0.100")
	for _, node := range nodes[:2] {
		plug(t, node)
	}
	create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubevip"},
		Data: map[string]string{"cidr-global": "0.0.0.0/32,::/128", "allow-share-kube-public": "true", "cidr-kube-public": "0.0.0.0/32"}})
	agentsRun(t, nodes...)
	four, six := single(corev1.IPv4Protocol), single(corev1.IPv6Protocol)
	ask := func(text string) func(*corev1.Service) { return annotate("kube-vip.io/loadbalancerIPs", text) }
	sharing := func(port int32) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Namespace = "kube-public"
			s.Spec.Ports[0].Port = port
			annotate("fairlead.io/pool", "cidr-kube-public")(s)
		}
	}
	services := map[string]*corev1.Service{"named": newService(t, "named", four, ask("0.0.0.0"), annotate("kube-vip.io/requestedIP", "10.77.0.237",
		"kube-vip.io/hwaddr", "02:00:5e:00:53:07", "kube-vip.io/loadbalancerHostname", "shop-web"))}
	addressesOf(t, services["named"]) // before somebody else has what it asks for
	for name, change := range map[string][]func(*corev1.Service){
		"pool":      {annotate("fairlead.io/pool", "cidr-global")},
		"spec":      {four, func(s *corev1.Service) { s.Spec.LoadBalancerIP = "0.0.0.0" }},
		"six":       {six, ask("::")},
		"both":      {ask("0.0.0.0,::")},
		"node":      {four, ask("0.0.0.0"), annotate("kube-vip.io/hwaddr", "02:00:5e:00:53:08")},
		"neighbour": {four, ask("0.0.0.0"), annotate("kube-vip.io/hwaddr", "02:00:5e:00:53:09")},
		"card":      {ask("0.0.0.0,::"), annotate("kube-vip.io/serviceInterface", card)},
		"fixed":     {four, ask("10.77.0.228"), annotate("kube-vip.io/serviceInterface", card)},
		"local":     {four, ask("0.0.0.0"), func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }},
		"together":  {four, sharing(80)},
		"beside":    {four, sharing(81)},
		"nowhere":   {four, ask("0.0.0.0"), annotate("kube-vip.io/serviceInterface", "nosuch0")},
		"ignored":   {four, ask("0.0.0.0"), annotate("kube-vip.io/ignore", "true")},
	} {
		services[name] = newService(t, name, change...)
	}
	// Somebody else looks after this one, and says so.
	foreign := netip.MustParseAddr("10.77.0.227")
	services["ignored"].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: foreign.String()}}
	if err := api.Status().Update(t.Context(), services["ignored"]); err != nil {
		t.Fatal(err)
	}

	at := map[string][]netip.Addr{}
	for name, s := range services {
		if name == "ignored" || name == "nowhere" {
			continue
		}
		at[name] = addressesOf(t, s)
		for _, addr := range at[name] {
			eventually(t, func() error {
				if name != "fixed" && !slices.Contains(d.has(), addr) {
					return fmt.Errorf("%s has %s, which is no lease", name, addr)
				}
				if name == "local" {
					return nil // its pods are still to come
				}
				return greet(t.Context(), addr, uint16(s.Spec.Ports[0].Port))
			})
		}
		t.Logf("%s: %v", name, at[name])
	}

	t.Run("addresses of others", func(t *testing.T) {
		awaitEvent(t, "node", "fairlead-agent", "LeaseUnusable", "10.77.0.12 is the address of a node")
		awaitEvent(t, "neighbour", "fairlead-agent", "LeaseUnusable", "10.77.0.100 is used by the host")
		for _, addr := range []string{"10.77.0.12", "10.77.0.100"} {
			if n := d.heard("DHCPDECLINE", netip.MustParseAddr(addr), 0); n != 1 {
				t.Errorf("%s was declined %d times", addr, n)
			}
		}
	})

	t.Run("nobody asks", func(t *testing.T) {
		awaitEvent(t, "nowhere", "fairlead-agent", "LeaseNotAsked", "kube-vip.io/serviceInterface")
		if leases := leasesOf(t, services["nowhere"]); len(leases) > 0 {
			t.Errorf("leased: %v", leases)
		}
	})

	t.Run("one lease for those who share", func(t *testing.T) {
		shared := at["together"][0]
		if at["beside"][0] != shared {
			t.Fatalf("%s and %s", shared, at["beside"][0])
		}
		if err := api.Delete(t.Context(), services["together"]); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if err := greet(t.Context(), shared, 81); err != nil {
				return err
			}
			if greet(t.Context(), shared, 80) == nil {
				return errors.New("the port of the one that is gone is still served")
			}
			return nil
		})
		if n := d.heard("DHCPRELEASE", shared, 0); n > 0 || !slices.Contains(d.has(), shared) {
			t.Errorf("released %d times; leased are %v", n, d.has())
		}
		if now := addressesOf(t, services["beside"]); now[0] != shared {
			t.Errorf("it had %s and has %s", shared, now[0])
		}
		if err := api.Delete(t.Context(), services["beside"]); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() error {
			if slices.Contains(d.has(), shared) {
				return fmt.Errorf("%s is still leased", shared)
			}
			return nil
		})
	})

	t.Run("what the server is told", func(t *testing.T) {
		addr := at["named"][0]
		if addr.String() != "10.77.0.237" {
			t.Errorf("the address is %s, and another was asked for", addr)
		}
		if who := d.holder(addr); !strings.HasPrefix(who, "02:00:5e:00:53:07 shop-web ff:") {
			t.Errorf("the server knows the Service as %q", who)
		}
	})

	t.Run("only on the interface that is named", func(t *testing.T) {
		for _, addr := range slices.Concat(at["card"], at["fixed"]) {
			var on []string
			for _, node := range nodes {
				for line := range strings.Lines(onHost(t, node, "ip", "-o", "address")) {
					if fields := strings.Fields(line); strings.HasPrefix(fields[3], addr.String()+"/") {
						on = append(on, node+" "+fields[1])
					}
				}
			}
			if len(on) != 1 || !strings.HasSuffix(on[0], " "+card) {
				t.Errorf("%s is on %v", addr, on)
			}
		}
	})

	t.Run("ignored", func(t *testing.T) {
		s := services["ignored"]
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
			t.Fatal(err)
		}
		if in := s.Status.LoadBalancer.Ingress; len(in) != 1 || in[0].IP != foreign.String() || len(s.Status.Conditions) > 0 {
			t.Errorf("its status has become %+v", s.Status)
		}
		where, err := interfaces()
		if err != nil || len(where[foreign]) > 0 {
			t.Errorf("on %v: %v", where[foreign], err)
		}
		if leases := leasesOf(t, s); len(leases) > 0 {
			t.Errorf("leased: %v", leases)
		}
	})

	t.Run("where the pods are", func(t *testing.T) {
		s := services["local"]
		for _, node := range nodes {
			listen(t, node)
			slice := newSlice(s, corev1.IPv4Protocol, "10.77.0.1"+node[len(node)-1:], "")
			slice.Endpoints[0].NodeName = &node
			if err := api.Update(t.Context(), slice); err != nil {
				t.Fatal(err)
			}
			hosted(t, s, node)
			eventually(t, func() error { return greet(t.Context(), at["local"][0], 80) })
		}
		if now := addressesOf(t, s); now[0] != at["local"][0] {
			t.Errorf("it had %s and has %s", at["local"][0], now[0])
		}
	})

	t.Run("no longer wanted", func(t *testing.T) {
		change := func(name string, to func(*corev1.Service)) netip.Addr {
			t.Helper()
			s := services[name]
			eventually(t, func() error {
				if err := api.Get(t.Context(), client.ObjectKeyFromObject(s), s); err != nil {
					return err
				}
				to(s)
				return api.Update(t.Context(), s)
			})
			eventually(t, func() error {
				if slices.Contains(d.has(), at[name][0]) {
					return fmt.Errorf("%s is still leased", at[name][0])
				}
				return nil
			})
			return at[name][0]
		}
		change("spec", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "10.77.0.226" })
		eventually(t, func() error { return greet(t.Context(), netip.MustParseAddr("10.77.0.226"), 80) })
		change("both", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
	})

	t.Run("all given back", func(t *testing.T) {
		for name, s := range services {
			if err := api.Delete(t.Context(), s); client.IgnoreNotFound(err) != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		eventually(t, func() error {
			left := d.has()
			where, err := interfaces()
			if err == nil && len(left)+len(where) > 0 {
				err = fmt.Errorf("leased are %v, on interfaces %v", left, where)
			}
			return err
		})
		for _, f := range lb.Families {
			if n := len(strings.Split(d.log.String(), "DHCPRELEASE(eth0) "+[...]string{"10.77.", "00:04:"}[f])) - 1; n == 0 {
				t.Errorf("no %s address was released", f)
			}
		}
	})
}
