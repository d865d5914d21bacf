package bgp

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/router"
)

// birdConfig is a router of AS 65002; %s are lines for the neighbour and other protocols.
const birdConfig = `
router id 192.0.2.1;
protocol device { }
protocol kernel k4 { ipv4 { export all; }; merge paths on; }
protocol kernel k6 { ipv6 { export all; }; merge paths on; }
protocol bgp node {
  local 192.0.2.1 as 65001;
  neighbor 192.0.2.11 as 65010;
  graceful restart on;
  error wait time 1, 2;
  error forget time 3;
%s
}
%s
`

func (l *lab) useBIRD(neighbour, others string) {
	l.t.Helper()
	l.bird = router.StartBIRD(l.t, l.router, fmt.Sprintf(birdConfig, neighbour, others))
}

// channels of both families; GSHUT is for BIRD to heed by a filter.
const channels = `
  ipv4 { import filter { if (65535,0) ~ bgp_community then bgp_local_pref = 0; accept; }; export none; };
  ipv6 { import all; export none; };
`

func TestBIRDHasTheRoutes(t *testing.T) {
	l := newLab(t)
	l.useBIRD(channels, "")
	a := l.speak(quick(), nil)
	want := table("203.0.113.0/24", "2001:db8:9::7/128")
	want[netip.MustParsePrefix("203.0.113.7/32")] = Attributes{Communities: []Community{64500<<16 | 7}, LargeCommunities: []LargeCommunity{{64500, 1, 2}}}
	a.Set("r1", want)
	if st := a.synced(); st.PeerAS != 65001 || !st.GracefulRestart || st.Families != both {
		t.Errorf("status: %+v", st)
	}
	l.has("203.0.113.0/24", "via 192.0.2.11")
	l.has("203.0.113.7", "via 192.0.2.11")
	l.has("2001:db8:9::7", "2001:db8::11")
	out := l.bird.Show("show route all 203.0.113.7/32")
	for _, word := range []string{"BGP.as_path: 65010", "BGP.community: (64500,7)", "BGP.large_community: (64500, 1, 2)", "BGP.origin: IGP"} {
		if !strings.Contains(out, word) {
			t.Errorf("no %q in\n%s", word, out)
		}
	}
	want[netip.MustParsePrefix("203.0.113.7/32")] = Attributes{Draining: true}
	a.Set("r1", want)
	netns.Eventually(t, patience, "the route is drained", func() bool {
		out := l.bird.Show("show route all 203.0.113.7/32")
		return strings.Contains(out, "(65535,0)") && strings.Contains(out, "BGP.local_pref: 0")
	})
	l.bird.Show("reload in node")
	a.until("the routes have been sent again", func(st Status) bool { return st.Received.Refreshes == 2 })
	a.Set("r1", nil)
	l.hasNot("203.0.113.7")
	l.hasNot("2001:db8:9::7")
	l.bird.Show("disable node")
	if f := a.fails(Refused); f.Code != codeCease {
		t.Errorf("failure: %+v", f)
	}
	l.bird.Show("enable node")
	a.Retry("r1")
	a.synced()
}

// TestFullTableOfBIRD: what a router announces costs no memory.
func TestFullTableOfBIRD(t *testing.T) {
	l := newLab(t)
	var static strings.Builder
	static.WriteString("protocol static s4 { ipv4; \n")
	const routes = 20000
	for i := range routes {
		fmt.Fprintf(&static, "route 10.%d.%d.%d/32 blackhole;\n", i>>16, i>>8&255, i&255)
	}
	static.WriteString("}\n")
	l.useBIRD("  ipv4 { import all; export all; };\n  ipv6 { import all; export all; };\n", static.String())
	a := l.speak(quick(), nil)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	a.Set("r1", table("203.0.113.7/32"))
	st := a.until("BIRD has sent its table", func(st Status) bool { return st.State == Established && st.Received.Bytes > 5*routes })
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 200_000 {
		t.Errorf("%d bytes after %d bytes of routes", grown, st.Received.Bytes)
	}
	l.has("203.0.113.7", "via 192.0.2.11")
}

// changes records what happens to one route in the router's kernel.
func (l *lab) changes(prefix string) (stop func() string) {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "ip", "monitor", "route")
	var out bytes.Buffer
	cmd.Stdout = &out
	l.router.Do(func() {
		if err := cmd.Start(); err != nil {
			l.t.Fatal(err)
		}
	})
	once := sync.OnceFunc(func() {
		cancel()
		_ = cmd.Wait()
	})
	l.t.Cleanup(once)
	return func() string {
		once()
		var lines []string
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, prefix) {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
}

func TestGracefulRestartWithFRR(t *testing.T) {
	l := newLab(t)
	l.useFRR("192.0.2.11", "65010")
	want := table("203.0.113.7/32", "203.0.113.8/32", "2001:db8:9::7/128")
	a := l.speak(quick(), nil)
	a.Set("r1", want)
	a.synced()
	l.has("203.0.113.7", "via 192.0.2.11")
	changes := l.changes("203.0.113.7")
	a.die()
	netns.Eventually(t, patience, "FRR has seen it", func() bool { return l.neighbour()["bgpState"] != "Established" })
	// It comes back with one route less: what was not announced again goes.
	a = l.speak(quick(), nil)
	a.Set("r1", table("203.0.113.7/32", "2001:db8:9::7/128"))
	a.synced()
	l.hasNot("203.0.113.8")
	if seen := changes(); seen != "" {
		t.Errorf("the route changed:\n%s", seen)
	}
	// Without graceful restart the route goes with the process.
	p := quick()
	p.GracefulRestart = false
	a.SetPeers(map[string]Peer{"r1": p})
	a.until("the session is another", func(st Status) bool { return st.State == Established && st.Synced && !st.GracefulRestart })
	l.has("203.0.113.7", "via 192.0.2.11")
	a.die()
	l.hasNot("203.0.113.7")
}

// TestFRRNoticesNoSuccessor: the session outlives the process, also with a password.
func TestFRRNoticesNoSuccessor(t *testing.T) {
	l := newLab(t)
	l.useFRR("192.0.2.11", "65010", "password secret")
	p := quick()
	p.GracefulRestart, p.Password = false, "secret"
	want := many(lb.IPv4, 1000)
	a := l.speak(p, nil)
	a.Set("r1", want)
	a.synced()
	l.has("203.0.0.7", "via 192.0.2.11")
	l.has("203.0.3.231", "via 192.0.2.11")
	changes := l.changes("203.0.0.7")
	for range 3 {
		frozen := posted(t, a.Freeze(t.Context()))
		if len(frozen) != 1 {
			t.Fatalf("frozen: %v", frozen)
		}
		a = l.speak(p, frozen)
		a.Set("r1", want)
		if st := a.synced(); st.Sent.Updates != 0 || st.Established != 1 {
			t.Errorf("status: %+v", st)
		}
	}
	// The successor can withdraw, and its keepalives count.
	delete(want, netip.MustParsePrefix("203.0.3.231/32"))
	a.Set("r1", want)
	l.hasNot("203.0.3.231")
	a.until("keepalives went both ways", func(st Status) bool { return st.Sent.Keepalives >= 3 && st.Received.Keepalives >= 2 })
	if n := l.neighbour(); n["bgpState"] != "Established" || n["connectionsEstablished"] != 1.0 {
		t.Errorf("FRR says: %v, %v connections", n["bgpState"], n["connectionsEstablished"])
	}
	if seen := changes(); seen != "" {
		t.Errorf("the route changed:\n%s", seen)
	}
}

// TestFRRDropsANodeThatStandsStill: a process that answers without deciding anything is as good
// as dead.
func TestFRRDropsANodeThatStandsStill(t *testing.T) {
	l := newLab(t)
	l.useFRR("192.0.2.11", "65010")
	p := quick()
	p.Hold, p.Keepalive = 3*time.Second, time.Second
	a := l.speak(p, nil)
	a.Set("r1", table("203.0.113.7/32"))
	a.synced()
	l.has("203.0.113.7", "via 192.0.2.11")
	a.alive.Store(false)
	l.hasNot("203.0.113.7")
	a.fails(Stalled)
	a.alive.Store(true)
	l.has("203.0.113.7", "via 192.0.2.11")
}

// TestAnotherSpeakerHasTheSession: it keeps it, and we say so.
func TestAnotherSpeakerHasTheSession(t *testing.T) {
	l := newLab(t)
	l.useFRR("192.0.2.11", "65010")
	other := router.StartBIRD(t, l.node, `
router id 192.0.2.11;
protocol device { }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol bgp r1 { local 192.0.2.11 as 65010; neighbor 192.0.2.1 as 65001; connect delay time 1; ipv4 { import none; export all; }; }
`)
	netns.Eventually(t, patience, "BIRD on the node has a session", func() bool {
		return strings.Contains(other.Show("show protocols r1"), "Established")
	})
	l.has("198.51.100.0/24", "via 192.0.2.11")
	a := l.speak(quick(), nil)
	a.Set("r1", table("203.0.113.7/32"))
	if f := a.fails(Conflict); !strings.Contains(f.Text, "Another BGP speaker on this node may have the session") {
		t.Errorf("failure: %+v", f)
	}
	if out := other.Show("show protocols r1"); !strings.Contains(out, "Established") {
		t.Errorf("BIRD lost its session:\n%s", out)
	}
	// Another source address is another session.
	l.frr.Configure("router bgp 65001", "neighbor 192.0.2.12 remote-as 65010", "address-family ipv4 unicast", "neighbor 192.0.2.12 activate")
	p := quick()
	p.Source = netip.MustParseAddr("192.0.2.12")
	a.SetPeers(map[string]Peer{"r1": p})
	a.synced()
	l.has("203.0.113.7", "via 192.0.2.12")
	l.has("198.51.100.0/24", "via 192.0.2.11")
}

// TestFRRListensForARange: routers often know only the network of their nodes.
func TestFRRListensForARange(t *testing.T) {
	l := newLab(t)
	l.frr = router.StartFRR(t, l.router, fmt.Sprintf(frrConfig,
		" neighbor nodes peer-group\n neighbor nodes remote-as external\n bgp listen range 192.0.2.0/24 peer-group nodes\n", "  neighbor nodes activate\n", "  neighbor nodes activate\n"), "bgpd")
	a := l.speak(quick(), nil)
	a.Set("r1", many(lb.IPv4, 1000))
	if st := a.synced(); st.Sent.Updates > 2+2 { // and two End-of-RIBs
		t.Errorf("%d UPDATEs for 1,000 prefixes", st.Sent.Updates)
	}
	l.has("203.0.3.231", "via 192.0.2.11")
}

// TestCableOut: the route comes back with the cable.
func TestCableOut(t *testing.T) {
	l := newLab(t)
	l.useFRR("192.0.2.11", "65010", "timers 1 3")
	a := l.speak(quick(), nil)
	a.Set("r1", table("203.0.113.7/32"))
	a.synced()
	l.has("203.0.113.7", "via 192.0.2.11")
	l.router.Run("ip", "link", "set", "eth0", "down")
	a.fails(HoldExpired)
	l.router.Run("ip", "link", "set", "eth0", "up")
	a.Retry("r1")
	l.has("203.0.113.7", "via 192.0.2.11")
}
