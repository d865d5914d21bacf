package cloudsigma

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/cloudsigma"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudsigma"
)

// addNodeWith adds a node whose server has these cards.
func (w *world) addNodeWith(name string, cards ...simulated.NewNIC) {
	w.t.Helper()
	s, err := w.sim.AddServer(simulated.NewServer{Name: name, NICs: cards})
	if err != nil {
		w.t.Fatal(err)
	}
	w.servers[name] = s.UUID
	w.backend.forget()
	w.nodes = append(w.nodes, lb.Node{Name: name, ProviderID: cloudsigma.ProviderID(s.UUID), Labels: map[string]string{}, Ready: true, Receives: true, Agent: true})
}

func publishes(address string) edit {
	return func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	}
}

// A server's first card is its own, whatever somebody has written into tags or into the
// status of a Service: without it, the node would be cut off.
func TestOwnCardStays(t *testing.T) {
	const own = "192.0.2.50"
	for name, test := range map[string]struct {
		tags   []string
		status bool
	}{
		"tagged with the cluster":        {tags: []string{"cluster:prod"}},
		"tagged with a Service":          {tags: []string{"cluster:prod", webTag, "managed-by:cloudsigma-ccm"}},
		"published by another program":   {tags: []string{"cluster:prod", webTag, "managed-by:cloudsigma-ccm"}, status: true},
		"published, and without any tag": {status: true},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, simulated.Knobs{}, 1, 2, func(t *testing.T, w *world) {
				w.addNodeWith("a-static", simulated.NewNIC{Mode: "static", Addr4: own})
				for _, tag := range test.tags {
					w.sim.AddTag(tag, own)
				}
				var edits []edit
				if test.status {
					edits = append(edits, publishes(own))
				}
				web := w.create("web", edits...)
				w.create("other")
				w.restart()
				w.settle()
				// Its node cannot carry anything.
				w.node("a-static").Ready = false
				w.settle()
				w.node("a-static").Ready = true
				w.settle()
				w.delete(web)
				w.settle()
				if !slices.Contains(w.state(), "NIC a-static "+own) {
					t.Errorf("the node has lost its own card: %v\n%s", w.state(), w.requests())
				}
				if len(w.services) != 1 {
					t.Errorf("the deletion of %s does not end: %v", web.Name, web.Status.Conditions)
				}
			})
		})
	}
}

// A card that somebody attached to a node, and marked with the name of the cluster in
// CloudSigma's console, is theirs.
func TestMarkedByHand(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 2, func(t *testing.T, w *world) {
		w.attach("worker-1", "192.0.2.11")
		w.sim.AddTag("cluster:prod", "192.0.2.11", w.servers["worker-1"])
		w.readPools()
		web := w.create("web")
		w.settle()
		w.delete(web)
		w.settle()
		w.restart()
		w.create("web")
		second := w.create("second")
		w.settle()
		if published(second) != "" {
			t.Errorf("it got %s", published(second))
		}
		if state := w.state(); !slices.Contains(state, "NIC worker-1 192.0.2.11") || !slices.Contains(state, "tag cluster:prod 192.0.2.11") {
			t.Errorf("the cloud has %q", state)
		}
	})
}

// Nodes without a public card of their own: the one that was attached for an address is
// the first public one, and not the server's own.
func TestPrivateNodes(t *testing.T) {
	play(t, simulated.Knobs{}, 0, 2, func(t *testing.T, w *world) {
		vlan := simulated.NewNIC{VLAN: "5b4b4d0e-0000-4000-8000-000000000001"}
		w.addNodeWith("worker-1", vlan)
		w.addNodeWith("worker-2", vlan)
		web := w.create("web")
		w.settle()
		w.want("attached", w.claimed("192.0.2.10", webTag, "worker-1")...)
		w.readPools()
		w.settle()
		if published(web) != "192.0.2.10" || says(web) != lb.Ready {
			t.Errorf("%s, %s", published(web), says(web))
		}
		w.restart()
		w.node("worker-1").Ready = false
		w.settle()
		w.want("moved", w.claimed("192.0.2.10", webTag, "worker-2")...)
		w.readPools()
		w.settle()
		if says(web) != lb.Ready {
			t.Errorf("%s", says(web))
		}
		w.delete(web)
		w.settle()
		w.want("deleted")
	})
}

// Somebody attaches an address to a server of theirs while this cluster claims it: it
// stays there, and the Service gets another.
func TestAttachedByAnotherMeanwhile(t *testing.T) {
	play(t, simulated.Knobs{}, 1, 2, func(t *testing.T, w *world) {
		w.addNode("bastion", "dhcp")
		w.nodes = w.nodes[:1] // a server, and no node
		web := w.create("web")
		w.sim.Before("PUT", simulated.Servers, w.servers["worker-1"], func() { w.attach("bastion", "192.0.2.10") })
		w.settle()
		<-time.After(time.Minute)
		w.readPools()
		w.settle()
		w.want("it stays on their server", append(w.claimed("192.0.2.11", webTag, "worker-1"), "NIC bastion 192.0.2.10")...)
		if published(web) != "192.0.2.11" {
			t.Errorf("%q, %s", published(web), says(web))
		}
	})
}

// A Service is deleted whose address another cluster has tagged and attached to a node
// of its own: what the other has done stays.
func TestDeletedAfterAnotherTookIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(t, "dhcp", 1)
		web := a.create("web")
		a.settle()
		a.sim.AddTag("cluster:staging", "192.0.2.10")
		a.detach("prod-1")
		b.attach("staging-1", "192.0.2.10")
		a.backend.forget()
		a.delete(web)
		a.settle()
		a.want("the other's stays", "NIC staging-1 192.0.2.10", "tag cluster:staging 192.0.2.10", "tag managed-by:cloudsigma-ccm 192.0.2.10")
	})
}

// A cluster that yields an address which it has attached already takes it off its node.
func TestYieldsWithCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, a := two(t, "dhcp", 2) // the lower name keeps an address
		web := a.create("web")
		if _, err := a.look(web); err != nil {
			t.Fatal(err)
		}
		// It ended before it could publish the address, and the other one claimed it.
		web.Status = corev1.ServiceStatus{}
		a.sim.AddTag("cluster:prod", "192.0.2.10")
		theirs := b.create("api", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.10" })
		a.restart()
		a.settle()
		b.restart()
		b.settle()
		a.settle()
		a.want("in the end", append(a.claimed("192.0.2.11", webTag, "staging-1"), b.claimed("192.0.2.10", "service:shop-api", "prod-1")...)...)
		if published(web) != "192.0.2.11" || published(theirs) != "192.0.2.10" {
			t.Errorf("%q and %q", published(web), published(theirs))
		}
	})
}
