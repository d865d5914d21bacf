package cloudsigma

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	dialect "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudsigma"
)

// two are two clusters in one account, with a node each.
func two(t *testing.T, mode string, addresses int) (a, b *world) {
	t.Helper()
	a = newWorld(t, simulated.Knobs{}, 0, addresses)
	b = clusterIn(t, a.sim, "staging")
	a.addNode("prod-1", mode)
	b.addNode("staging-1", mode)
	return a, b
}

// Two clusters with Services of the same names have each its own addresses, and what
// one does leaves the other's alone.
func TestTwoClusters(t *testing.T) {
	for _, mode := range []string{"dhcp", "manual"} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := two(t, mode, 3)
				on := func(node string) string {
					if mode == "manual" {
						return ""
					}
					return node
				}
				first := a.create("web")
				a.settle()
				b.readPools()
				second := b.create("web")
				b.settle()
				one, other := a.claimed("192.0.2.10", webTag, on("prod-1")), b.claimed("192.0.2.11", webTag, on("staging-1"))
				a.want("both", slices.Concat(one, other)...)
				if published(first) != "192.0.2.10" || published(second) != "192.0.2.11" {
					t.Errorf("%s and %s", published(first), published(second))
				}
				a.restart()
				a.settle()
				a.want("after a restart", slices.Concat(one, other)...)
				a.delete(first)
				a.settle()
				a.want("one deleted", other...)
				b.restart()
				b.settle()
				b.delete(second)
				b.settle()
				a.want("both deleted")
			})
		})
	}
}

// Both claim one address at the same time: one keeps it, the other gets another, and
// nobody publishes what the other has.
func TestClaimedAtTheSameTime(t *testing.T) {
	for _, mode := range []string{"dhcp", "manual"} {
		for when := range 6 {
			t.Run(fmt.Sprint(mode, when), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					a, b := two(t, mode, 3)
					// Their tag is one or two.
					one, other := a.create("web"), b.create([]string{"api", "web"}[when%2])
					if when == 5 {
						a, b, one, other = b, a, other, one
					}
					// b looks in the middle of a look of a.
					method, kind := "POST", simulated.Tags
					switch when {
					case 1:
						method = "GET"
					case 2:
						method, kind = "PUT", simulated.Servers
					case 3:
						method, kind = "GET", simulated.Servers
					}
					a.sim.Before(method, kind, "", func() { _, _ = b.look(other) })
					_, _ = a.look(one)
					if when == 4 {
						_, _ = b.look(other)
						_, _ = a.look(one)
					}
					for range 6 {
						both := published(one) != "" && published(one) == published(other)
						if both {
							t.Fatalf("both have %s\n%s", published(one), a.requests())
						}
						a.settle()
						b.settle()
						<-time.After(time.Minute)
						a.readPools()
						b.readPools()
					}
					if published(one) == "" || published(other) == "" || published(one) == published(other) {
						t.Fatalf("%s (%s) and %s (%s)\n%s", published(one), says(one), published(other), says(other), a.requests())
					}
					nodeOf := func(w *world) string {
						if mode == "manual" {
							return ""
						}
						return w.nodes[0].Name
					}
					a.want("in the end", slices.Concat(a.claimed(published(one), dialect.ServiceTag(key(one)), nodeOf(a)), b.claimed(published(other), dialect.ServiceTag(key(other)), nodeOf(b)))...)
				})
			})
		}
	}
}

// A Service goes while its address is contested: another cluster, whose Service has the
// same name, has published and attached it. All that is there stays, but our claim.
func TestDeletedWhileContested(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := two(t, "dhcp", 1)
		b.create("web")
		b.settle()
		theirs := b.claimed("192.0.2.10", webTag, "staging-1")
		a.want("theirs", theirs...)
		a.sim.AddTag("cluster:prod", "192.0.2.10") // at the same moment
		web := a.create("web", func(s *corev1.Service) { s.Finalizers = []string{lb.CleanupFinalizer} })
		a.restart()
		a.delete(web)
		a.settle()
		a.want("our Service is gone", theirs...)
		if len(a.services) > 0 {
			t.Errorf("left: %v", a.services)
		}
	})
}

// An address that was asked for and is somebody else's is not touched, and the
// Service says whose it is. It gets it when it is free.
func TestTakenAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		do  func(w *world)
		why string
	}{
		"another cluster's":  {func(w *world) { w.sim.AddTag("cluster:staging", "192.0.2.11") }, `cluster "staging" has it`},
		"of a manual mode":   {func(w *world) { w.sim.AddTag("service:a-b", "192.0.2.11") }, "it has the tag of a Service, and of no cluster"},
		"of another server":  {func(w *world) { w.addServer("db", "static", "192.0.2.11") }, `server "db" has it`},
		"not of the account": {func(*world) {}, "the CloudSigma account does not have it"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, simulated.Knobs{}, 1, 1, func(t *testing.T, w *world) {
				if name != "not of the account" && name != "of another server" {
					w.sim.Subscribe(netip.MustParseAddr("192.0.2.11"))
				}
				test.do(w)
				w.readPools()
				before := w.state()
				web := w.create("web", func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.11" })
				w.sim.ResetLog()
				w.settle()
				if published(web) != "" || says(web) != AddressTaken || !strings.Contains(web.Status.Conditions[0].Message, test.why) {
					t.Errorf("%q, %v", published(web), web.Status.Conditions)
				}
				if w.sim.Writes() != 0 || !slices.Equal(before, w.state()) {
					t.Errorf("written:\n%s", w.requests())
				}
			})
		})
	}
}

// What a Service has is not taken from it by another cluster's tag; it says so.
func TestTaggedTwice(t *testing.T) {
	play(t, simulated.Knobs{}, 1, 1, func(t *testing.T, w *world) {
		web := w.create("web")
		w.settle()
		w.sim.AddTag("cluster:a-first-one", "192.0.2.10")
		w.backend.forget()
		w.readPools()
		w.settle()
		if published(web) != "192.0.2.10" || !strings.Contains(w.toldOf(AddressTaggedTwice), `"a-first-one"`) {
			t.Errorf("%s, told %q", published(web), w.toldOf(AddressTaggedTwice))
		}
		w.delete(web)
		w.settle()
		w.want("deleted: the others' tags stay", "tag cluster:a-first-one 192.0.2.10", "tag managed-by:cloudsigma-ccm 192.0.2.10")
	})
}

// Services of one cluster that share an address, and two whose tag is the same.
func TestSharing(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 2, func(t *testing.T, w *world) {
		share := annotated("fairlead.io/share", "key")
		one := w.create("one", share)
		w.settle()
		two := w.create("two", share, func(s *corev1.Service) { s.Spec.Ports[0].Port = 443 })
		w.settle()
		both := append(w.claimed("192.0.2.10", "service:shop-one", "worker-1"), "tag service:shop-two 192.0.2.10")
		w.want("shared", both...)
		if published(two) != published(one) || placed(two) != placed(one) {
			t.Errorf("%s on %s, %s on %s", published(one), placed(one), published(two), placed(two))
		}
		w.restart()
		w.delete(one)
		w.settle()
		w.want("one is gone", w.claimed("192.0.2.10", "service:shop-two", "worker-1")...)
		w.delete(two)
		w.settle()
		w.want("both are gone")
	})
	play(t, simulated.Knobs{}, 2, 2, func(t *testing.T, w *world) {
		one := w.create("a-b/c")
		w.settle()
		two := w.create("a/b-c")
		w.settle()
		both := append(w.claimed("192.0.2.10", "service:a-b-c", "worker-1"), w.claimed("192.0.2.11", "service:a-b-c", "worker-2")...)
		w.want("one tag", both...)
		w.restart()
		w.settle()
		w.want("after a restart", both...)
		if published(one) != "192.0.2.10" || published(two) != "192.0.2.11" {
			t.Errorf("%s, %s", published(one), published(two))
		}
		w.delete(one)
		w.settle()
		w.want("one is gone", w.claimed("192.0.2.11", "service:a-b-c", "worker-2")...)
	})
}

// The annotation changes nothing for a Service that has an address, unless it is to be
// moved.
func TestReallocate(t *testing.T) {
	play(t, simulated.Knobs{Unowned: "accept"}, 1, 2, func(t *testing.T, w *world) {
		web := w.create("web")
		w.settle()
		if err := w.sim.EndSubscription(netip.MustParseAddr("192.0.2.11")); err != nil {
			t.Fatal(err)
		}
		w.sim.AddDynamic(netip.MustParseAddr("203.0.113.77"))
		w.readPools()
		web.Annotations[dialect.AnnotationPool] = dialect.Dynamic
		w.settle()
		if published(web) != "192.0.2.10" {
			t.Errorf("moved to %s", published(web))
		}
		web.Annotations["fairlead.io/reallocate"] = "true"
		w.settle()
		w.want("moved", w.claimed("203.0.113.77", webTag, "worker-1")...)
		if published(web) != "203.0.113.77" || w.toldOf(DynamicAddress) == "" {
			t.Errorf("%s, %s", published(web), says(web))
		}
	})
}

// What a Service waits for comes, and what nobody knows is a warning.
func TestPoolsOfAService(t *testing.T) {
	play(t, simulated.Knobs{}, 1, 0, func(t *testing.T, w *world) {
		web := w.create("web", annotated(dialect.AnnotationPool, "moon"))
		w.settle()
		if says(web) != lb.FamilyUnavailable && says(web) != lb.PoolExhausted || published(web) != "" || w.sim.Writes() != 0 {
			t.Errorf("%s, %q", says(web), published(web))
		}
		if text := w.toldOf(UnknownAddressPool); !strings.Contains(text, `"moon"`) {
			t.Errorf("told %q", text)
		}
		w.sim.Subscribe(netip.MustParseAddr("192.0.2.44"))
		w.readPools()
		w.settle()
		w.want("served", w.claimed("192.0.2.44", webTag, "worker-1")...)
	})
}

// A dry run tells the plan, and writes nothing.
func TestDryRun(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 1, func(t *testing.T, w *world) {
		web := w.create("web", annotated("fairlead.io/dry-run", "true"))
		w.sim.ResetLog()
		out, err := w.look(web)
		want := "assign tags cluster:prod, service:shop-web, managed-by:cloudsigma-ccm of 192.0.2.10; create NIC 192.0.2.10 of server worker-1; impact: none"
		if err != nil || out.Reason.Code != lb.ChangesPlanned || out.Plan.String() != want || w.sim.Writes() != 0 || len(web.Finalizers) != 0 {
			t.Errorf("%v, %s\n%s", err, out.Reason, out.Plan)
		}
		delete(web.Annotations, "fairlead.io/dry-run")
		w.settle()
		web.Annotations["fairlead.io/dry-run"] = "true"
		w.node("worker-1").Ready = false
		out, err = w.look(web)
		want = "delete NIC 192.0.2.10 of server worker-1 (seconds); create NIC 192.0.2.10 of server worker-2 (seconds); impact: seconds"
		if err != nil || out.Plan.String() != want {
			t.Errorf("%v, %s", err, out.Plan)
		}
		w.want("nothing was done", w.claimed("192.0.2.10", webTag, "worker-1")...)
	})
}

// Somebody else removes what we made: it is put back.
func TestDrift(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 1, func(t *testing.T, w *world) {
		web := w.create("web")
		w.settle()
		for _, tag := range w.sim.Tags() {
			if err := w.sim.Delete(simulated.Tags, tag.UUID); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(2 * time.Minute)
		w.settle()
		w.want("tags are back", w.claimed("192.0.2.10", webTag, "worker-1")...)
		w.detach("worker-1")
		<-time.After(2 * time.Minute)
		w.settle()
		w.want("the NIC is back", w.claimed("192.0.2.10", webTag, "worker-1")...)
		if published(web) != "192.0.2.10" {
			t.Error(published(web))
		}
	})
}

// A Service that the original made is taken over as it is.
func TestTakeOver(t *testing.T) {
	play(t, simulated.Knobs{}, 2, 3, func(t *testing.T, w *world) {
		w.attach("worker-2", "192.0.2.12")
		web := w.create("web", func(s *corev1.Service) {
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.12"}}
		})
		for _, tag := range []string{"cluster:prod", webTag, "managed-by:cloudsigma-ccm"} {
			w.sim.AddTag(tag, "192.0.2.12")
		}
		w.restart()
		w.sim.ResetLog()
		w.settle()
		if w.sim.Writes() != 0 || published(web) != "192.0.2.12" || placed(web) != "192.0.2.12: worker-2" {
			t.Errorf("%s on %s\n%s", published(web), placed(web), w.requests())
		}
		// Its tags may have failed, which it only logged.
		for _, tag := range w.sim.Tags() {
			_ = w.sim.Delete(simulated.Tags, tag.UUID)
		}
		w.restart()
		w.settle()
		w.want("claimed", w.claimed("192.0.2.12", webTag, "worker-2")...)
	})
}
