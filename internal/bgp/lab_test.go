package bgp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/router"
)

// patience is how long anything may take on a busy machine.
const patience = time.Minute

// lab is a node with a cable to a router.
type lab struct {
	t      *testing.T
	node   *netns.NS
	router *netns.NS
	frr    *router.FRR
	bird   *router.BIRD
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, node: netns.New(t, "node"), router: netns.New(t, "router")}
	netns.Cable(
		netns.Plug{NS: l.router, Interface: "eth0", Addresses: []string{"192.0.2.1/24", "2001:db8::1/64"}},
		netns.Plug{NS: l.node, Interface: "eth0", Addresses: []string{"192.0.2.11/24", "192.0.2.12/24", "2001:db8::11/64"}},
	)
	return l
}

// frrConfig is a router of AS 65001; %s are lines about neighbours, and about them in both
// families.
const frrConfig = `
router bgp 65001
 bgp router-id 192.0.2.1
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 bgp graceful-restart
%s
 address-family ipv4 unicast
%s
 exit-address-family
 address-family ipv6 unicast
%s
 exit-address-family
`

// useFRR starts FRR with one neighbour; lines are what else is said about it.
func (l *lab) useFRR(neighbour, as string, lines ...string) {
	l.t.Helper()
	all := " neighbor " + neighbour + " remote-as " + as + "\n"
	for _, line := range lines {
		all += " neighbor " + neighbour + " " + line + "\n"
	}
	activate := "  neighbor " + neighbour + " activate\n"
	l.frr = router.StartFRR(l.t, l.router, fmt.Sprintf(frrConfig, all, activate, activate), "bgpd")
}

// inside is the Kernel of a namespace.
type inside struct{ ns *netns.NS }

func (i inside) Dial(ctx context.Context, p Peer, to netip.AddrPort, source netip.Addr) (conn net.Conn, err error) {
	i.ns.Do(func() { conn, err = Kernel{}.Dial(ctx, p, to, source) })
	return conn, err
}

func (i inside) Addresses(local netip.Addr) (list []netip.Addr, err error) {
	i.ns.Do(func() { list, err = Kernel{}.Addresses(local) })
	return list, err
}

func (i inside) Link(ctx context.Context, name string) (link Link, err error) {
	i.ns.Do(func() { link, err = Kernel{}.Link(ctx, name) })
	return link, err
}

// agent is a speaker on the node.
type agent struct {
	*Speaker
	t     *testing.T
	alive atomic.Bool
	die   func() // as a crash
}

func (l *lab) speak(p Peer, inherited map[string]*Frozen) *agent {
	l.t.Helper()
	if err := p.Check(); err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &agent{t: l.t}
	a.alive.Store(true)
	a.Speaker = Start(ctx, Config{Network: inside{l.node}, Alive: a.alive.Load, Log: slog.New(slog.NewTextHandler(l.t.Output(), nil))})
	a.die = func() {
		cancel()
		a.Wait()
	}
	l.t.Cleanup(func() {
		if st, _ := a.Status("r1"); l.t.Failed() {
			l.t.Logf("status: %+v", st)
		}
		a.die()
	})
	a.Continue(inherited)
	a.SetPeers(map[string]Peer{"r1": p})
	return a
}

func (a *agent) until(what string, is func(Status) bool) Status {
	a.t.Helper()
	var st Status
	netns.Eventually(a.t, patience, what, func() bool {
		st, _ = a.Status("r1")
		return is(st)
	})
	return st
}

func (a *agent) synced() Status {
	a.t.Helper()
	return a.until("the router has been told everything", func(st Status) bool { return st.State == Established && st.Synced })
}

func (a *agent) fails(kind Kind) *Failure {
	a.t.Helper()
	return a.until("failure "+kind.String(), func(st Status) bool { return st.Failure != nil && st.Failure.Kind == kind }).Failure
}

// route is what the router's kernel has for a prefix.
func (l *lab) route(prefix string) string {
	l.t.Helper()
	family := "-4"
	if strings.Contains(prefix, ":") {
		family = "-6"
	}
	return strings.TrimSpace(l.router.Run("ip", family, "route", "show", prefix))
}

func (l *lab) has(prefix, via string) {
	l.t.Helper()
	netns.Eventually(l.t, patience, prefix+" "+via, func() bool { return strings.Contains(l.route(prefix), via) })
}

func (l *lab) hasNot(prefix string) {
	l.t.Helper()
	netns.Eventually(l.t, patience, "no route to "+prefix, func() bool { return l.route(prefix) == "" })
}

// neighbour is what FRR says about its only neighbour.
func (l *lab) neighbour() map[string]any {
	l.t.Helper()
	var all map[string]map[string]any
	if err := json.Unmarshal([]byte(l.frr.Show("show bgp neighbors json")), &all); err != nil {
		l.t.Fatal(err)
	}
	for _, n := range all {
		return n
	}
	l.t.Fatal("FRR has no neighbour")
	return nil
}

// quick is a peer whose timers are short.
func quick() Peer {
	p := node()
	p.Hold, p.Keepalive = 9*time.Second, 3*time.Second
	return p
}

func TestFRRHasTheRoutes(t *testing.T) {
	l := newLab(t)
	l.useFRR("192.0.2.11", "65010")
	a := l.speak(quick(), nil)
	want := table("203.0.113.0/24", "203.0.113.7/32", "2001:db8:9::7/128")
	a.Set("r1", want)
	st := a.synced()
	if st.Local != netip.MustParseAddr("192.0.2.11") || st.PeerAS != 65001 || st.RouterID != netip.MustParseAddr("192.0.2.1") || st.Hold != 9*time.Second || !st.GracefulRestart {
		t.Errorf("status: %+v", st)
	}
	l.has("203.0.113.7", "via 192.0.2.11")
	l.has("203.0.113.0/24", "via 192.0.2.11")
	l.has("2001:db8:9::7", "2001:db8::11")
	// Attributes change, and with them one route.
	want = table("203.0.113.0/24", "2001:db8:9::7/128")
	want[netip.MustParsePrefix("203.0.113.7/32")] = Attributes{
		LocalPref: 300, Communities: []Community{64500<<16 | 7}, LargeCommunities: []LargeCommunity{{64500, 1, 2}}, Draining: true,
	}
	a.Set("r1", want)
	netns.Eventually(t, patience, "FRR has the attributes", func() bool {
		out := l.frr.Show("show bgp ipv4 unicast 203.0.113.7/32")
		return strings.Contains(out, "64500:7") && strings.Contains(out, "Large Community: 64500:1:2") && strings.Contains(strings.ToLower(out), "graceful") && strings.Contains(out, "localpref 0") && strings.Contains(out, "\n  65010\n")
	})
	if st := a.synced(); st.Sent.Updates != 2+2+1 {
		t.Errorf("%d UPDATEs for two families, two End-of-RIBs and one change", st.Sent.Updates)
	}
	// The router asks for all of one family again.
	l.frr.Show("clear bgp ipv4 unicast 192.0.2.11 soft in")
	a.until("the routes have been sent again", func(st Status) bool { return st.Received.Refreshes == 1 && st.Sent.Updates == 7 })
	a.Set("r1", table("203.0.113.0/24"))
	l.hasNot("203.0.113.7")
	l.hasNot("2001:db8:9::7")
	l.has("203.0.113.0/24", "via 192.0.2.11")
	// Leaving has a reason, which the router repeats.
	a.Stop(t.Context(), "node1 is drained")
	l.hasNot("203.0.113.0/24")
	if n := l.neighbour(); !strings.Contains(fmt.Sprint(n), "node1 is drained") {
		t.Errorf("FRR says: %v", n)
	}
}

func TestFRRHasWordsOfItsOwn(t *testing.T) {
	l := newLab(t)
	l.useFRR("192.0.2.11", "65010")
	a := l.speak(quick(), nil)
	a.Set("r1", table("203.0.113.7/32"))
	a.synced()
	l.frr.Configure("router bgp 65001", "neighbor 192.0.2.11 shutdown message maintenance until nine")
	if f := a.fails(Refused); f.Code != 6 || f.Subcode != 2 || f.Words != "maintenance until nine" {
		t.Errorf("failure: %+v", f)
	}
	l.frr.Configure("router bgp 65001", "no neighbor 192.0.2.11 shutdown")
	a.Retry("r1")
	a.synced()
	l.has("203.0.113.7", "via 192.0.2.11")
	// bgpd dies and comes back.
	l.frr.Kill("bgpd")
	a.until("the session is gone", func(st Status) bool { return st.State != Established })
	l.frr.Start("bgpd")
	a.synced()
	l.has("203.0.113.7", "via 192.0.2.11")
}

func TestFRRRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		as     string
		lines  []string
		change func(*Peer)
		kind   Kind
		text   string
	}{
		"our AS":             {as: "65099", kind: Refused, text: "bad peer AS (2/2)"},
		"its AS":             {as: "65010", change: func(p *Peer) { p.PeerAS = 65002 }, kind: Rejected, text: "says it is AS 65001; configured is AS 65002"},
		"the wrong password": {as: "65010", lines: []string{"password right"}, change: func(p *Peer) { p.Password = "wrong" }, kind: Silent, text: "A wrong password (TCP-MD5) looks the same"},
		"no such device":     {as: "65010", change: func(p *Peer) { p.VRF = "red" }, kind: Unreachable, text: `no device "red"`},
		"the port":           {as: "65010", change: func(p *Peer) { p.Port = 1790 }, kind: Unreachable, text: "refuses connections to port 1790"},
		"too many prefixes":  {as: "65010", lines: []string{"maximum-prefix 10"}, kind: Full, text: "It takes at most 10 prefixes"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			if name == "too many prefixes" {
				l.useFRR("192.0.2.11", test.as)
				l.frr.Configure("router bgp 65001", "address-family ipv4 unicast", "neighbor 192.0.2.11 maximum-prefix 10")
			} else {
				l.useFRR("192.0.2.11", test.as, test.lines...)
			}
			p := quick()
			if test.change != nil {
				test.change(&p)
			}
			a := l.speak(p, nil)
			want := Table{}
			for i := range 20 {
				want[netip.MustParsePrefix(fmt.Sprintf("203.0.113.%d/32", i))] = Attributes{}
			}
			a.Set("r1", want)
			if f := a.fails(test.kind); !strings.Contains(f.Text, test.text) {
				t.Errorf("failure: %+v", f)
			}
			if test.kind != Full {
				return
			}
			// With a maximum of ours, the router takes as many.
			p.MaxPrefixes = 8
			a.SetPeers(map[string]Peer{"r1": p})
			l.frr.Show("clear bgp 192.0.2.11")
			a.Retry("r1")
			if st := a.synced(); st.Prefixes != 8 || len(st.Withheld) != 12 {
				t.Errorf("status: %+v", st)
			}
		})
	}
}

func TestKindsOfSessionsWithFRR(t *testing.T) {
	v6 := netip.MustParseAddr("2001:db8::1")
	for name, test := range map[string]struct {
		neighbour, as string
		lines         []string
		change        func(*Peer)
		via4, via6    string
	}{
		"password":           {"192.0.2.11", "65010", []string{"password secret"}, func(p *Peer) { p.Password = "secret" }, "192.0.2.11", "2001:db8::11"},
		"source address":     {"192.0.2.12", "65010", nil, func(p *Peer) { p.Source = netip.MustParseAddr("192.0.2.12") }, "192.0.2.12", "2001:db8::11"},
		"TTL security":       {"192.0.2.11", "65010", []string{"ttl-security hops 1"}, nil, "192.0.2.11", "2001:db8::11"},
		"multihop":           {"192.0.2.11", "65010", []string{"ebgp-multihop 255"}, nil, "192.0.2.11", "2001:db8::11"},
		"bound to a device":  {"192.0.2.11", "65010", nil, func(p *Peer) { p.VRF = "eth0" }, "192.0.2.11", "2001:db8::11"},
		"large AS":           {"192.0.2.11", "4200000010", nil, func(p *Peer) { p.LocalAS = 4200000010 }, "192.0.2.11", "2001:db8::11"},
		"any external AS":    {"192.0.2.11", "external", nil, func(p *Peer) { p.PeerAS, p.ASRule = 0, ExternalAS }, "192.0.2.11", "2001:db8::11"},
		"internal":           {"192.0.2.11", "internal", nil, func(p *Peer) { p.LocalAS, p.PeerAS, p.ASRule = 65001, 0, InternalAS }, "192.0.2.11", "2001:db8::11"},
		"over IPv6":          {"2001:db8::11", "65010", nil, func(p *Peer) { p.Address = v6 }, "192.0.2.11", "2001:db8::11"},
		"no keepalives":      {"192.0.2.11", "65010", []string{"timers 0 0"}, func(p *Peer) { p.Hold, p.Keepalive = 0, 0 }, "192.0.2.11", "2001:db8::11"},
		"password over IPv6": {"2001:db8::11", "65010", []string{"password secret"}, func(p *Peer) { p.Address, p.Password = v6, "secret" }, "192.0.2.11", "2001:db8::11"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.useFRR(test.neighbour, test.as, test.lines...)
			p := quick()
			if test.change != nil {
				test.change(&p)
			}
			a := l.speak(p, nil)
			want := table("2001:db8:9::7/128")
			want[netip.MustParsePrefix("203.0.113.7/32")] = Attributes{LocalPref: 300}
			a.Set("r1", want)
			a.synced()
			l.has("203.0.113.7", "via "+test.via4)
			l.has("2001:db8:9::7", test.via6)
			out := l.frr.Show("show bgp ipv4 unicast 203.0.113.7/32")
			if internal := p.ASRule == InternalAS; strings.Contains(out, "localpref 300") != internal {
				t.Errorf("FRR has\n%s", out)
			}
			if p.LocalAS == 4200000010 && !strings.Contains(out, "4200000010") {
				t.Errorf("FRR has\n%s", out)
			}
		})
	}
}

func TestExtendedNextHopWithFRR(t *testing.T) {
	l := newLab(t)
	l.node.Run("ip", "addr", "flush", "dev", "eth0", "scope", "global")
	l.node.Run("ip", "addr", "add", "2001:db8::11/64", "dev", "eth0", "nodad")
	l.useFRR("2001:db8::11", "65010", "capability extended-nexthop")
	p := quick()
	p.Address = netip.MustParseAddr("2001:db8::1")
	a := l.speak(p, nil)
	a.Set("r1", table("203.0.113.7/32", "2001:db8:9::7/128"))
	// Without it there is no next hop for IPv4.
	st := a.synced()
	if len(st.Withheld) != 1 || st.Withheld[0].Why != NoNextHop {
		t.Errorf("withheld: %v", st.Withheld)
	}
	p.ExtendedNextHop = true
	a.SetPeers(map[string]Peer{"r1": p})
	l.has("203.0.113.7", "via inet6")
	l.has("2001:db8:9::7", "via 2001:db8::11")
	a.Set("r1", table("2001:db8:9::7/128"))
	l.hasNot("203.0.113.7")
}

func TestUnnumberedWithFRR(t *testing.T) {
	l := newLab(t)
	for _, ns := range []*netns.NS{l.node, l.router} {
		ns.Run("ip", "addr", "flush", "dev", "eth0", "scope", "global")
	}
	l.frr = router.StartFRR(t, l.router, fmt.Sprintf(frrConfig,
		" neighbor eth0 interface remote-as external\n neighbor eth0 capability extended-nexthop\n", "  neighbor eth0 activate\n", "  neighbor eth0 activate\n"), "bgpd")
	p := quick()
	p.Address, p.Interface, p.PeerAS, p.ASRule = netip.Addr{}, "eth0", 0, ExternalAS
	a := l.speak(p, nil)
	a.Set("r1", table("203.0.113.7/32", "2001:db8:9::7/128"))
	a.synced()
	l.has("203.0.113.7", "via inet6 fe80::2")
	l.has("2001:db8:9::7", "via fe80::2")
	a.Set("r1", nil)
	l.hasNot("203.0.113.7")
	l.hasNot("2001:db8:9::7")
}
