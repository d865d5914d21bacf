package failover

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
)

// steady watches that a router leads a prefix to the same nodes all the time. What it returns
// ends that.
func (r *routers) steady(prefix netip.Prefix) (stop func()) {
	r.t.Helper()
	want := nextHops(r.ns, prefix)
	done := make(chan struct{})
	var watching sync.WaitGroup
	var seen [][]string
	watching.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(50 * time.Millisecond):
			}
			if got := nextHops(r.ns, prefix); !slices.Equal(got, want) && (len(seen) == 0 || !slices.Equal(got, seen[len(seen)-1])) {
				seen = append(seen, got)
			}
		}
	})
	return func() {
		r.t.Helper()
		close(done)
		watching.Wait()
		if len(seen) > 0 {
			r.t.Errorf("%s was led to %q, and meanwhile to %q", prefix, want, seen)
		}
	}
}

// connect makes new connections from the client behind FRR until it is stopped, and returns
// how many were made, and what failed.
func (r *routers) connect(addr netip.Addr) (stop func() (made int, failed []string)) {
	done := make(chan struct{})
	var trying sync.WaitGroup
	var made int
	var failed []string
	began := time.Now()
	trying.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
			at := time.Since(began).Round(time.Millisecond)
			if err := r.dial(addr, 80); err != nil {
				failed = append(failed, fmt.Sprintf("%v: %v", at, err))
			} else {
				made++
			}
		}
	})
	return func() (int, []string) {
		close(done)
		trying.Wait()
		return made, failed
	}
}

// forwarded waits until kube-proxy forwards on all nodes: some connections in a row, over which
// the router spreads them, are made.
func (r *routers) forwarded(addr netip.Addr) {
	r.t.Helper()
	eventually(r.t, func() error {
		for range 50 {
			if err := r.dial(addr, 80); err != nil {
				return err
			}
		}
		return nil
	})
}

// An agent that is told to end fails no new connection. One that crashes and comes back is
// bridged by graceful restart.
func TestBGPAgentEnds(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	p := hostPrefix(addrs[0])
	r.forwarded(addrs[0])
	stop := r.connect(addrs[0])
	leaver := running["node1"]
	leaver.terminate(t)
	r.leadsTo(p, "node2", "node3")
	made, failed := stop()
	t.Logf("%d new connections while the agent of node1 ended", made)
	if len(failed) > 0 || made == 0 {
		t.Errorf("%d connections were made, and these failed: %q", made, failed)
	}
	if out := r.frr.Show("show bgp neighbors " + addressOfNode(t, "node1", false)); strings.Contains(out, "Established") {
		t.Errorf("FRR still has a session:\n%s", out)
	}
	agentsRun(t, nodes...)
	r.leadsTo(p, nodes...)

	// A crash.
	unchanged := r.steady(p)
	running["node2"].kill(t)
	agentsRun(t, nodes...)
	eventually(t, func() error { return r.established("node2") })
	unchanged()
	r.leadsTo(p, nodes...)
}

// established says whether FRR has a session with a node.
func (r *routers) established(node string) error {
	out := r.frr.Show("show bgp neighbors " + addressOfNode(r.t, node, false) + " json")
	if !strings.Contains(out, `"bgpState":"Established"`) {
		return fmt.Errorf("no session with %s: %.300s", node, out)
	}
	return nil
}

// sessions is how many FRR has had with a node.
func (r *routers) sessions(node string) string {
	return between(r.frr.Show("show bgp neighbors "+addressOfNode(r.t, node, false)+" json"), `"connectionsEstablished":`, ",")
}

// BFD finds a cable that is out, and an agent that stands still; both come back.
func TestBGPWithBFD(t *testing.T) {
	r, _, addrs := bgpWorld(t)
	p := hostPrefix(addrs[0])
	// Passive from the start: routers speak first.
	bgpObject(t, "BFDProfile", "fast", `{receiveInterval: 300, transmitInterval: 300, detectMultiplier: 3, passiveMode: true}`)
	bgpObject(t, "BGPPeer", "tor", strings.Replace(tor, "{", "{bfdProfile: fast, ", 1))
	for _, node := range nodes {
		eventually(t, func() error {
			if out := r.frr.Show("show bfd peer " + addressOfNode(t, node, false)); !strings.Contains(out, "Status: up") {
				return errors.New(out)
			}
			return nil
		})
	}
	r.leadsTo(p, nodes...)
	bgpObject(t, "BFDProfile", "fast", `{receiveInterval: 300, transmitInterval: 300, detectMultiplier: 3}`)

	// Another profile: routers hear of it, and no session is reset.
	unchanged := r.steady(p)
	counters := func(field string) string {
		return between(r.frr.Show("show bfd peer "+addressOfNode(t, "node1", false)+" counters"), field, "\n")
	}
	downs := counters("Session down events:")
	bgpObject(t, "BFDProfile", "fast", `{receiveInterval: 250, transmitInterval: 200, detectMultiplier: 4, passiveMode: true}`)
	eventually(t, func() error {
		out := r.frr.Show("show bfd peer " + addressOfNode(t, "node1", false))
		_, remote, _ := strings.Cut(out, "Remote timers:")
		return saysAll(remote, "Detect-multiplier: 4", "Receive interval: 250ms", "Transmission interval: 200ms")
	})
	if now := counters("Session down events:"); now != downs {
		t.Errorf("BFD went down %s times before, and %s now", downs, now)
	}
	unchanged()
	bgpObject(t, "BFDProfile", "fast", `{receiveInterval: 300, transmitInterval: 300, detectMultiplier: 3, passiveMode: true}`)

	heard := r.hears(addrs[0])
	running["node1"].signal(t, syscall.SIGSTOP)
	began := time.Now()
	r.leadsTo(p, "node2", "node3")
	within(t, "an agent that stands still is left", heard().Sub(began), 900*time.Millisecond)
	running["node1"].signal(t, syscall.SIGCONT)
	r.leadsTo(p, nodes...)

	heard = r.hears(addrs[0])
	if err := cluster.Cut("node2"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Heal("node2") })
	began = time.Now()
	r.leadsTo(p, "node1", "node3")
	within(t, "a cable that is out is found", heard().Sub(began), 900*time.Millisecond)
	if err := cluster.Heal("node2"); err != nil {
		t.Fatal(err)
	}
	began = time.Now()
	r.leadsTo(p, nodes...)
	within(t, "a node is led to again when its cable is back", time.Since(began), 3*time.Second)

	// BFD that is switched off on the router ends no session. FRR 8.4 sometimes loses a dynamic
	// neighbour that came back ("bgpNoSuchNeighbor"), and its BFD, although the session works: the
	// agents are asked instead.
	before := map[string]v1alpha1.Peer{}
	for node, sessions := range map[string]int64{"node1": 2, "node2": 2, "node3": 1} { // reports come later
		eventually(t, func() error {
			peer, err := peerOf(t, node, "tor")
			if before[node] = peer; err == nil && (peer.State != "Established" || peer.Established < sessions) {
				err = fmt.Errorf("%s says %+v", node, peer)
			}
			return err
		})
	}
	unchanged = r.steady(p)
	r.frr.Configure("router bgp 65001", "no neighbor nodes bfd")
	during(t, 2*time.Second, func() error {
		for _, node := range nodes {
			peer, err := peerOf(t, node, "tor")
			if err != nil {
				return err
			}
			if was := before[node]; peer.State != was.State || peer.Established != was.Established {
				return fmt.Errorf("%s said %+v, and says %+v", node, was, peer)
			}
		}
		return nil
	})
	unchanged()

	// The router restarts.
	for connect, limit := range map[string]time.Duration{"": 6 * time.Second, "connectTime: 1s, ": 2 * time.Second} {
		bgpObject(t, "BGPPeer", "tor", strings.Replace(tor, "{", "{bfdProfile: fast, "+connect, 1))
		r.leadsTo(p, nodes...)
		r.frr.Kill("bgpd")
		r.frr.Start("bgpd")
		began = time.Now()
		for _, node := range nodes {
			eventually(t, func() error { return r.established(node) })
		}
		r.leadsTo(p, nodes...)
		within(t, "all nodes are led to after bgpd is back, "+connect, time.Since(began), limit)
	}
}

// within checks that something took no longer than a few times what it should: a busy machine is
// slow.
func within(t *testing.T, what string, took, target time.Duration) {
	t.Helper()
	t.Logf("%s after %v (%v is good)", what, took, target)
	if took > 4*target {
		t.Errorf("%s after %v, which should be %v", what, took, target)
	}
}

// An agent's upgrade hands its sessions to the next agent: routers notice nothing, with BFD as
// well, and with a password in a Secret.
func TestBGPUpgrade(t *testing.T) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metallbNamespace, Name: "tor"}, Type: corev1.SecretTypeBasicAuth,
		StringData: map[string]string{"username": "", "password": "secret"}}
	r, _, addrs := bgpWorldWith(t, strings.Replace(tor, "{", "{bfdProfile: fast, passwordSecret: {name: tor}, ", 1), func(r *routers) {
		create(t, secret)
		r.frr.Configure("router bgp 65001", "neighbor nodes password secret")
		r.frr.Configure("bfd", "profile fast", "receive-interval 50", "transmit-interval 50")
	})
	p := hostPrefix(addrs[0])
	// So short that a handover must not take long.
	bgpObject(t, "BFDProfile", "fast", `{receiveInterval: 50, transmitInterval: 50, detectMultiplier: 3}`)
	eventually(t, func() error {
		_, remote, _ := strings.Cut(r.frr.Show("show bfd peer "+addressOfNode(t, "node1", false)), "Remote timers:")
		return saysAll(remote, "Receive interval: 50ms", "Transmission interval: 50ms")
	})
	up := func(node string) {
		t.Helper()
		eventually(t, func() error {
			if out := r.frr.Show("show bfd peer " + addressOfNode(t, node, false)); !strings.Contains(out, "Status: up") {
				return errors.New(out)
			}
			return r.established(node)
		})
	}
	for _, node := range nodes {
		up(node)
	}
	r.leadsTo(p, nodes...)
	r.forwarded(addrs[0])
	bfds := func() string {
		return between(r.frr.Show("show bfd peer "+addressOfNode(t, "node1", false)+" counters"), "Session down events:", "\n")
	}
	before, downs := r.sessions("node1"), bfds()
	unchanged, stop := r.steady(p), r.connect(addrs[0])
	old := running["node1"]
	next := launch(t, "node1")
	next.awaitReady(t)
	running["node1"] = next
	old.terminate(t)
	running["node1"] = next
	eventually(t, func() error {
		got, err := peerOf(t, "node1", "tor")
		if err == nil && !strings.Contains(next.log.String(), "continuing BGP sessions") {
			err = fmt.Errorf("nothing was handed over; the agent says %+v", got)
		}
		return err
	})
	during(t, 5*time.Second, func() error { return r.established("node1") })
	made, failed := stop()
	unchanged()
	t.Logf("%d new connections during the upgrade", made)
	if len(failed) > 0 {
		t.Errorf("connections failed: %q", failed)
	}
	if after := r.sessions("node1"); after != before {
		t.Errorf("FRR had %s sessions with node1 before and %s after", before, after)
	}
	if after := bfds(); after != downs {
		t.Errorf("BFD of node1 went down: %s before, %s after", downs, after)
	}

	// The next agent withdraws in the session that it has inherited.
	next.terminate(t)
	r.leadsTo(p, "node2", "node3")
	agentsRun(t, nodes...)
	r.leadsTo(p, nodes...)
}

// between is what is in a text between two others.
func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	found, _, _ := strings.Cut(rest, to)
	return strings.TrimSpace(found)
}
