package agent

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/bfd"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/lb"
)

// What the Agent object says about a session: the worst first.
func TestPeerReport(t *testing.T) {
	established := func(change func(*PeerStatus)) PeerStatus {
		s := PeerStatus{Name: "tor", Peer: lb.Peer{Address: netip.MustParseAddr("192.0.2.1"), PeerAS: 65001}}
		s.State, s.Remote, s.PeerAS, s.Prefixes, s.Since = bgp.Established, netip.MustParseAddr("192.0.2.1"), 65001, 2, time.Unix(1000, 0)
		if change != nil {
			change(&s)
		}
		return s
	}
	held := func(why bgp.Why, prefixes ...string) []bgp.Withheld {
		var out []bgp.Withheld
		for _, p := range prefixes {
			out = append(out, bgp.Withheld{Prefix: netip.MustParsePrefix(p), Why: why})
		}
		return out
	}
	for name, c := range map[string]struct {
		status PeerStatus
		reason lb.Code
		text   string
	}{
		"well":             {established(nil), lb.PeerReady, ""},
		"not usable":       {PeerStatus{Invalid: "interface eth7 does not exist"}, lb.PeerUnusable, "eth7"},
		"connecting":       {PeerStatus{}, lb.PeerDown, "connecting"},
		"refused":          {PeerStatus{Status: bgp.Status{Failure: &bgp.Failure{Kind: bgp.Refused, Text: "bad peer AS (2/2)"}}}, lb.PeerRefused, "bad peer AS (2/2)"},
		"conflict":         {PeerStatus{Status: bgp.Status{Failure: &bgp.Failure{Kind: bgp.Conflict, Text: "6/7"}}}, lb.PeerConflict, "6/7"},
		"full":             {PeerStatus{Status: bgp.Status{Failure: &bgp.Failure{Kind: bgp.Full, Text: "at most 10"}}}, lb.PeerFull, "at most 10"},
		"other source":     {established(func(s *PeerStatus) { s.SourceMissing, s.Peer.Source = true, netip.MustParseAddr("192.0.2.9") }), lb.PeerSourceMissing, "192.0.2.9"},
		"over the maximum": {established(func(s *PeerStatus) { s.Withheld = held(bgp.OverMaximum, "192.0.2.7/32", "192.0.2.8/32") }), lb.PeerFull, "the first of 2 is 192.0.2.7/32"},
		"no next hop":      {established(func(s *PeerStatus) { s.Withheld = held(bgp.NoNextHop, "2001:db8::7/128") }), lb.NoNextHop, "2001:db8::7/128"},
		"dropped":          {established(func(s *PeerStatus) { s.Filtered = "eth1" }), lb.ReversePathFiltered, "net.ipv4.conf.eth1.rp_filter"},
		"BFD is up":        {established(func(s *PeerStatus) { s.BFD = &bfd.Status{}; s.BFD.State = bfd.Up }), lb.PeerReady, ""},
		"BFD is down": {established(func(s *PeerStatus) {
			s.BFD = &bfd.Status{Reason: &lb.Reason{Code: bfd.BFDDown, Text: "nothing was heard"}}
		}), bfd.BFDDown, "nothing was heard"},
		"a worse thing":     {established(func(s *PeerStatus) { s.Filtered, s.Withheld = "eth1", held(bgp.NoNextHop, "2001:db8::7/128") }), lb.NoNextHop, "2001:db8::7/128"},
		"before it is here": {PeerStatus{Peer: lb.Peer{Address: netip.MustParseAddr("192.0.2.1"), PeerAS: 65001}}, lb.PeerDown, "connecting"},
	} {
		got := peerReport(&c.status)
		if got.Reason != string(c.reason) || !strings.Contains(got.Message, c.text) || (c.text == "") != (got.Message == "") {
			t.Errorf("%s: %s %q", name, got.Reason, got.Message)
		}
		if c.status.Peer.Address.IsValid() && (got.Address != "192.0.2.1" || got.ASN != 65001) {
			t.Errorf("%s: %s AS %d", name, got.Address, got.ASN)
		}
	}
}

// speakers has real sessions, with routers that never agree.
type speakers struct {
	fakeRouters
	*bgp.Speaker
}

func (s *speakers) Close()                                 {}
func (s *speakers) News() <-chan struct{}                  { return s.Speaker.News() }
func (s *speakers) Stop(context.Context, string)           {}
func (s *speakers) Freeze(context.Context) ([]byte, []int) { return nil, nil }
func (s *speakers) Continue([]byte, []int)                 {}
func (s *speakers) Set(id netip.Addr, peers []lb.Peer, tables map[string]bgp.Table) {
	s.fakeRouters.Set(id, peers, tables)
	want := map[string]bgp.Peer{}
	for _, p := range peers {
		want[p.Name] = bgp.Peer{Address: p.Address, LocalAS: 65010, PeerAS: 65001, RouterID: netip.MustParseAddr("192.0.2.1"), Hold: 90 * time.Second}
	}
	s.SetPeers(want)
	for name := range want {
		s.Speaker.Set(name, tables[name])
	}
}

func (s *speakers) Statuses() (out []PeerStatus) {
	for _, p := range s.fakeRouters.Statuses() {
		p.Status, _ = s.Status(p.Name)
		out = append(out, p)
	}
	return out
}

// hangsUp is a network with a router that reads an OPEN and closes the connection.
type hangsUp struct{ dials atomic.Int32 }

func (n *hangsUp) Addresses(netip.Addr) ([]netip.Addr, error)     { return nil, nil }
func (n *hangsUp) Link(context.Context, string) (bgp.Link, error) { return nil, syscall.ENODEV }
func (n *hangsUp) Dial(_ context.Context, _ bgp.Peer, to netip.AddrPort, _ netip.Addr) (net.Conn, error) {
	n.dials.Add(1)
	ours, theirs := net.Pipe()
	go func() {
		_, _ = theirs.Read(make([]byte, 4096))
		<-time.After(50 * time.Millisecond)
		_ = theirs.Close()
	}()
	return addressed{ours, to}, nil
}

// addressed is a connection with addresses.
type addressed struct {
	net.Conn
	to netip.AddrPort
}

func (c addressed) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.1:40000"))
}
func (c addressed) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.to) }

// A router that is away for long is reported once, not with every attempt to connect.
func TestPeersThatAreDownAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &hangsUp{}
		ctx, cancel := context.WithCancel(t.Context())
		routers := &speakers{Speaker: bgp.Start(ctx, bgp.Config{Network: network})}
		defer routers.Wait()
		defer cancel()
		r := start(t, newCluster(), []string{"b"}, func(p *parts) { p.routers = routers })
		r.poolsAre(routedPools([]lb.Route{plainRoute()}, lb.Peer{Name: "tor", Address: netip.MustParseAddr("192.0.2.254")}))
		after(time.Minute)
		since := r.status().Peers[0].Since.Time
		tried := network.dials.Load()
		writes := 0
		over := make(chan struct{})
		go func() { // instead of the API server
			for {
				select {
				case <-over:
					return
				case <-r.reporter.arrived:
					r.reporter.mu.Lock()
					r.reporter.have = r.reporter.status
					r.reporter.mu.Unlock()
					writes++
				}
			}
		}()
		after(10 * time.Minute)
		close(over)
		synctest.Wait()
		if network.dials.Load()-tried < 100 {
			t.Errorf("%d attempts to connect", network.dials.Load()-tried)
		}
		if writes > 2 {
			t.Errorf("the Agent object was written %d times in ten minutes", writes)
		}
		if p := r.status().Peers[0]; p.State != "Idle" || !p.Since.Time.Equal(since) || p.Reason != string(lb.PeerDown) || p.Address != "192.0.2.254" {
			t.Errorf("the peer is reported as %+v", p)
		}
	})
}

// The router ID is the node's first IPv4 address; without one, a number that stays.
func TestRouterID(t *testing.T) {
	four := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.11"}
	six := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "2001:db8::11"}
	for name, c := range map[string]struct {
		addresses []corev1.NodeAddress
		want      string
	}{
		"IPv4":           {[]corev1.NodeAddress{six, four}, "192.0.2.11"},
		"not its own":    {[]corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "198.51.100.1"}, four}, "192.0.2.11"},
		"IPv6 only":      {[]corev1.NodeAddress{six}, "67.190.183.232"}, // CRC-32 of its name, the lowest byte first
		"no address yet": {nil, "67.190.183.232"},
	} {
		n := &corev1.Node{}
		n.Name, n.Status.Addresses = "a", c.addresses
		if got := routerID(n); got.String() != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
