package nft_test

import (
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/nft"
)

// When an address moves, its connections go on at the node that has them, and new ones are the
// new node's.
func TestConnectionsGoOnAfterAMove(t *testing.T) {
	for name, bridged := range map[string]bool{"interface": false, "bridge": true} {
		t.Run(name, func(t *testing.T) {
			l := newMovedLAN(t, bridged)
			var tcp, udp []net.Conn
			for _, f := range lb.Families {
				for range 50 {
					tcp = append(tcp, l.dial("tcp", f))
				}
				for range 5 {
					udp = append(udp, l.dial("udp", f))
				}
			}
			old := append(slices.Clone(tcp), udp...)
			for _, c := range old {
				l.answers(c, "hello", "pod1")
			}
			to := l.nodes[1]
			l.prepare(to, to.carry)
			all := l.list(0, 1)
			if len(all) != len(old) {
				t.Fatalf("%d connections are listed, want %d", len(all), len(old))
			}
			l.must(to.carry.Update(all, nil))
			l.move(1)
			for _, c := range old {
				l.answers(c, "still there?", "pod1")
			}
			for _, c := range tcp {
				l.answers(c, strings.Repeat("x", 100_000), "pod1")
			}
			for _, c := range udp {
				l.answers(c, strings.Repeat("x", 4000), "pod1") // in fragments
			}
			for _, f := range lb.Families {
				for _, network := range []string{"tcp", "udp"} {
					c := l.dial(network, f)
					l.answers(c, "hello", "pod2")
					l.answers(c, strings.Repeat("x", 4000), "pod2")
				}
			}
			if n := l.packets(to); n < uint64(2*len(old)) {
				t.Errorf("%d packets were carried for %d connections", n, len(old))
			}
			t.Log(to.Run("nft", "list", "table", "netdev", nft.CarriedName))
			// The former node is dead: what it had is reset.
			l.must(to.carry.Update(nil, all))
			for _, c := range tcp {
				l.isReset(c)
			}
		})
	}
}

var _ = maps.Keys[map[conntrack.Conn]bool]
