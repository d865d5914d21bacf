package agent

import (
	"net/netip"
	"strings"
	"testing"
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
