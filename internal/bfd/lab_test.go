package bfd

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
)

// lab is a switch with a node and two routers, FRR and BIRD, that expect sessions of it in
// three ways: IPv4, IPv6, and IPv6 link-local.
type lab struct {
	sw, node, frrNS, birdNS *netns.NS
	*frr
	*bird
}

// The addresses of the node and of both routers, by family.
var labAddrs = []struct{ node, frr, bird string }{
	{"192.0.2.11", "192.0.2.1", "192.0.2.2"},
	{"2001:db8::11", "2001:db8::1", "2001:db8::2"},
	{"fe80::11%eth0", "fe80::1%eth0", "fe80::22%eth0"},
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{sw: netns.New(t, "switch"), node: netns.New(t, "node"), frrNS: netns.New(t, "frr"), birdNS: netns.New(t, "bird")}
	l.sw.Run("ip", "link", "add", "br0", "type", "bridge")
	l.sw.Run("ip", "link", "set", "br0", "up")
	for i, host := range []*netns.NS{l.node, l.frrNS, l.birdNS} {
		n := []string{"11", "1", "2"}[i]
		port := "p-" + host.Name
		netns.Cable(netns.Plug{NS: l.sw, Interface: port}, netns.Plug{NS: host, Interface: "eth0", Addresses: []string{"192.0.2." + n + "/24", "2001:db8::" + n + "/64"}})
		l.sw.Run("ip", "link", "set", port, "master", "br0")
		host.Run("ip", "addr", "del", "fe80::2/64", "dev", "eth0")
		host.Run("ip", "addr", "add", "fe80::"+[]string{"11", "1", "22"}[i]+"/64", "dev", "eth0", "nodad")
	}
	return l
}

// routers starts both.
func (l *lab) routers(t *testing.T) {
	t.Helper()
	var frrConfig, birdConfig strings.Builder
	frrConfig.WriteString("bfd\n profile fast\n  detect-multiplier 3\n  receive-interval 50\n  transmit-interval 50\n !\n")
	birdConfig.WriteString(`protocol bfd { interface "eth0" { min rx interval 50 ms; min tx interval 50 ms; idle tx interval 200 ms; multiplier 3; };` + "\n")
	for _, a := range labAddrs {
		peer, _, _ := strings.Cut(a.node, "%")
		local, _, _ := strings.Cut(a.frr, "%")
		fmt.Fprintf(&frrConfig, " peer %s local-address %s interface eth0\n  profile fast\n !\n", peer, local)
		local, _, scoped := strings.Cut(a.bird, "%")
		if scoped {
			fmt.Fprintf(&birdConfig, "neighbor %s dev \"eth0\" local %s;\n", peer, local)
		} else {
			fmt.Fprintf(&birdConfig, "neighbor %s local %s;\n", peer, local)
		}
	}
	birdConfig.WriteString("}\n")
	l.frr = startFRR(t, l.frrNS, frrConfig.String())
	l.bird = startBIRD(t, l.birdNS, birdConfig.String())
}

// speaker starts one in a namespace.
func speakerIn(t *testing.T, ns *netns.NS) *Speaker {
	t.Helper()
	s := New(context.Background(), Options{Wire: wireIn(ns)})
	t.Cleanup(func() { closeNow(s) })
	return s
}

func wireIn(ns *netns.NS) *sockets {
	w := newSockets()
	w.enter = ns.Do
	return w
}

func closeNow(s *Speaker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.Close(ctx)
}

// calm is for sessions that must not fail while the machine is busy.
var calm = Profile{Transmit: 300 * time.Millisecond, Receive: 300 * time.Millisecond, Multiplier: 5}

// patient is how long anything may take on a busy machine.
const patient = time.Minute

func labPeer(local, remote string) Peer {
	return Peer{Local: netip.MustParseAddr(local), Remote: netip.MustParseAddr(remote)}
}

// all returns the node's sessions with both routers.
func all(p Profile) map[Peer]Profile {
	out := map[Peer]Profile{}
	for _, a := range labAddrs {
		out[labPeer(a.node, a.frr)] = p
		out[labPeer(a.node, a.bird)] = p
	}
	return out
}

func statusOf(t *testing.T, s *Speaker, p Peer) Status {
	t.Helper()
	for _, status := range s.Statuses() {
		if status.Peer == p {
			return status
		}
	}
	t.Fatalf("no session %+v", p)
	return Status{}
}

func eventually(t *testing.T, what string, s *Speaker, cond func(all []Status) bool) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			for _, status := range s.Statuses() {
				t.Logf("%+v", status)
			}
		}
	})
	netns.Eventually(t, patient, what, func() bool { return cond(s.Statuses()) })
}

func allUp(n int) func([]Status) bool {
	return func(all []Status) bool {
		for _, s := range all {
			if s.State != Up {
				return false
			}
		}
		return len(all) == n
	}
}

// One test for all that two routers and three kinds of addresses do, one after the other:
// starting them takes longest.
func TestRealRouters(t *testing.T) {
	l := newLab(t)
	l.routers(t)
	s := speakerIn(t, l.node)
	s.Set(all(calm))
	eventually(t, "all sessions are up", s, allUp(6))
	for _, r := range []router{l.frr, l.bird} {
		netns.Eventually(t, patient, "the router says so", func() bool {
			up := 0
			for _, state := range r.peers(t) {
				if state == r.isUp() {
					up++
				}
			}
			return up == 3
		})
	}

	t.Run("other intervals by poll", func(t *testing.T) {
		slower := Profile{Transmit: 520 * time.Millisecond, Receive: 530 * time.Millisecond, Multiplier: 4}
		before := s.Statuses()
		s.Set(all(slower))
		for _, a := range labAddrs {
			peer, _, _ := strings.Cut(a.node, "%")
			netns.Eventually(t, patient, "FRR knows the intervals", func() bool {
				p := l.frr.peer(t, peer, "show bfd peers json")
				return p.RemoteTransmit == 520 && p.RemoteReceive == 530 && p.RemoteMultiplier == 4
			})
		}
		eventually(t, "they count", s, func(all []Status) bool {
			for _, s := range all {
				if s.Interval != 520*time.Millisecond || s.Detection != 3*530*time.Millisecond {
					return false
				}
			}
			return true
		})
		s.Set(all(calm))
		l.frr.vtysh(t, "configure terminal", "bfd", "profile fast", "receive-interval 490", "transmit-interval 480")
		eventually(t, "FRR's intervals count", s, func([]Status) bool {
			p := statusOf(t, s, labPeer("192.0.2.11", "192.0.2.1"))
			return p.Interval == 490*time.Millisecond && p.Detection == 3*480*time.Millisecond
		})
		for i, now := range s.Statuses() {
			if now.State != Up || now.Downs != before[i].Downs {
				t.Errorf("%s went down %d times, now %s", now.Remote, now.Downs-before[i].Downs, now.State)
			}
		}
	})

	t.Run("disabled at the router", func(t *testing.T) {
		peer := labPeer("192.0.2.11", "192.0.2.1")
		before := statusOf(t, s, peer)
		l.frr.vtysh(t, "configure terminal", "bfd", "peer 192.0.2.11 local-address 192.0.2.1 interface eth0", "shutdown")
		eventually(t, "it is disabled", s, func([]Status) bool {
			p := statusOf(t, s, peer)
			return p.State == Down && p.Reason.Code == BFDAdminDown
		})
		if p := statusOf(t, s, peer); p.Downs != before.Downs {
			t.Error("counted as a failure")
		}
		l.frr.vtysh(t, "configure terminal", "bfd", "peer 192.0.2.11 local-address 192.0.2.1 interface eth0", "no shutdown")
		eventually(t, "it is up again", s, allUp(6))
	})

	t.Run("ended here", func(t *testing.T) {
		want := all(calm)
		delete(want, labPeer("192.0.2.11", "192.0.2.1"))
		s.Set(want)
		netns.Eventually(t, patient, "FRR knows why", func() bool {
			p := l.frr.peer(t, "192.0.2.11", "show bfd peers json")
			return p.Status == "down" && p.RemoteDiagnostic == "administratively down"
		})
		s.Set(all(calm))
		eventually(t, "it is up again", s, allUp(6))
	})

	t.Run("cable", func(t *testing.T) {
		for _, out := range []string{"p-frr", "p-bird"} {
			before := s.Statuses()
			l.sw.Run("ip", "link", "set", out, "down")
			eventually(t, "the router is lost", s, func(all []Status) bool {
				lost := 0
				for i := range all {
					if all[i].State == Down && all[i].Downs > before[i].Downs {
						lost++
					}
				}
				return lost == 3
			})
			l.sw.Run("ip", "link", "set", out, "up")
			eventually(t, "all are up again", s, allUp(6))
		}
	})

	t.Run("router is gone", func(t *testing.T) {
		l.bird.birdc("disable", "bfd1")
		peer := labPeer("192.0.2.11", "192.0.2.2")
		eventually(t, "it does not listen", s, func([]Status) bool {
			p := statusOf(t, s, peer)
			return p.State == Down && strings.Contains(p.Reason.Text, "does not listen on UDP port 3784")
		})
		l.bird.birdc("enable", "bfd1")
		eventually(t, "all are up again", s, allUp(6))
	})
}
