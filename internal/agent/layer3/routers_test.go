package layer3

import (
	"net/netip"
	"testing"

	"fairlead.io/internal/bgp"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func linkOf(name string, change func(*link.Link), prefixes ...string) link.Link {
	l := link.Link{Name: name, Up: true}
	for _, p := range prefixes {
		l.Prefixes = append(l.Prefixes, netip.MustParsePrefix(p))
	}
	if change != nil {
		change(&l)
	}
	return l
}

// node has a LAN with both families, and a loopback address for router IDs.
func node() []link.Link {
	return []link.Link{linkOf("lo", nil, "10.0.0.11/32"), linkOf("eth0", nil, "192.0.2.11/24", "2001:db8::11/64", "fe80::1/64"), linkOf("eth1", nil, "2001:db8:1::11/64")}
}

// How BFD watches a session: a router that is not on a network of the node is watched over
// several hops.
func TestPath(t *testing.T) {
	for name, c := range map[string]struct {
		peer   lb.Peer
		remote string
		as     uint32
		far    bool
	}{
		"on the LAN":                  {lb.Peer{LocalAS: 65010}, "192.0.2.1", 65001, false},
		"on the LAN, of our AS":       {lb.Peer{LocalAS: 65010}, "192.0.2.1", 65010, false},
		"far, of our AS":              {lb.Peer{LocalAS: 65010}, "198.51.100.1", 65010, true},
		"far, not said so":            {lb.Peer{LocalAS: 65010}, "198.51.100.1", 65001, false},
		"far":                         {lb.Peer{LocalAS: 65010, Multihop: true}, "198.51.100.1", 65001, true},
		"multihop on the LAN, our AS": {lb.Peer{LocalAS: 65010, Multihop: true}, "192.0.2.1", 65010, false},
		"on the LAN, IPv6":            {lb.Peer{LocalAS: 65010}, "2001:db8::1", 65010, false},
		"unnumbered":                  {lb.Peer{LocalAS: 65010, Interface: "eth0"}, "fe80::2%eth0", 65010, false},
	} {
		r := &Routers{links: node()}
		got := r.path(&peer{Peer: c.peer}, &bgp.Status{Local: addr("192.0.2.11"), Remote: addr(c.remote), PeerAS: c.as})
		if got.Multihop != c.far || got.Remote != addr(c.remote) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// What becomes of a peer that names interfaces instead of addresses.
func TestSession(t *testing.T) {
	for name, c := range map[string]struct {
		peer       lb.Peer
		id, source string
		wrong      string
	}{
		"the node's ID":            {peer: lb.Peer{Address: addr("192.0.2.1")}, id: "10.9.9.9"},
		"its own ID":               {peer: lb.Peer{Address: addr("192.0.2.1"), RouterID: addr("10.1.1.1"), RouterIDInterface: "lo"}, id: "10.1.1.1"},
		"ID of an interface":       {peer: lb.Peer{Address: addr("192.0.2.1"), RouterIDInterface: "lo"}, id: "10.0.0.11"},
		"ID of none":               {peer: lb.Peer{Address: addr("192.0.2.1"), RouterIDInterface: "eth9"}, wrong: "interface eth9 does not exist"},
		"ID of one without IPv4":   {peer: lb.Peer{Address: addr("192.0.2.1"), RouterIDInterface: "eth1"}, wrong: "interface eth1 has no IPv4 address"},
		"source":                   {peer: lb.Peer{Address: addr("192.0.2.1"), SourceInterface: "eth0"}, id: "10.9.9.9", source: "192.0.2.11"},
		"source, IPv6":             {peer: lb.Peer{Address: addr("2001:db8::1"), SourceInterface: "eth0"}, id: "10.9.9.9", source: "2001:db8::11"},
		"source without IPv4":      {peer: lb.Peer{Address: addr("192.0.2.1"), SourceInterface: "eth1"}, wrong: "interface eth1 has no IPv4 address"},
		"an address counts more":   {peer: lb.Peer{Address: addr("192.0.2.1"), Source: addr("192.0.2.12"), SourceInterface: "eth0"}, id: "10.9.9.9", source: "192.0.2.12"},
		"unnumbered has no source": {peer: lb.Peer{Interface: "eth0", SourceInterface: "eth0"}, id: "10.9.9.9"},
	} {
		r := &Routers{links: node(), routerID: addr("10.9.9.9")}
		got, err := r.session(&c.peer)
		if c.wrong != "" {
			if err == nil || err.Error() != c.wrong {
				t.Errorf("%s: error %v, want %s", name, err, c.wrong)
			}
			continue
		}
		source := ""
		if got.Source.IsValid() {
			source = got.Source.String()
		}
		if err != nil || got.RouterID.String() != c.id || source != c.source {
			t.Errorf("%s: ID %v, source %q, %v", name, got.RouterID, source, err)
		}
	}
}

// Packets of clients are dropped where rp_filter is strict and the way back leads elsewhere.
func TestFiltered(t *testing.T) {
	strict := func(l *link.Link) { l.Strict = true }
	home := func(l *link.Link) { l.Strict, l.Default[lb.IPv4] = true, true }
	for name, c := range map[string]struct {
		link  link.Link
		local string
		want  string
	}{
		"loose":         {linkOf("eth0", nil, "192.0.2.11/24"), "192.0.2.11", ""},
		"strict":        {linkOf("eth0", strict, "192.0.2.11/24"), "192.0.2.11", "eth0"},
		"default route": {linkOf("eth0", home, "192.0.2.11/24"), "192.0.2.11", ""},
		"another":       {linkOf("eth1", strict, "192.0.2.12/24"), "192.0.2.11", ""},
		"unnumbered":    {linkOf("eth0", strict), "fe80::1%eth0", "eth0"},
	} {
		if got := filtered([]link.Link{c.link}, addr(c.local)); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
