package wire

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// A host is asked directly whether it is there: it answers for its own addresses, and nobody
// answers for another.
func TestReach(t *testing.T) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			hosts := lan(t, 2)
			hosts[0].add(t, f.owner)
			hosts[1].add(t, f.client)
			a, b := hosts[0].open(t), hosts[1].open(t)
			owner, _, _ := strings.Cut(f.owner, "/")
			client, _, _ := strings.Cut(f.client, "/")
			q := Question{Addr: netip.MustParseAddr(owner), From: netip.MustParseAddr(client)}
			at, err := a.MAC()
			if err != nil {
				t.Fatal(err)
			}
			for name, to := range map[string]net.HardwareAddr{"directly": at, "all": nil} {
				if mac, err := b.Reach(t.Context(), q, to, 10*time.Second); err != nil || mac.String() != at.String() {
					t.Errorf("%s: %s answers, not %s: %v", name, mac, at, err)
				}
			}
			stranger := net.HardwareAddr{2, 0, 0, 0, 0xff, 1}
			if mac, err := b.Reach(t.Context(), q, stranger, 100*time.Millisecond); err != nil || mac != nil {
				t.Errorf("a frame to another host is answered by %s: %v", mac, err)
			}
			if mac, err := b.Reach(t.Context(), Question{Addr: f.another, From: q.From}, nil, 100*time.Millisecond); err != nil || mac != nil {
				t.Errorf("an address that nobody has is at %s: %v", mac, err)
			}
			if _, err := b.Reach(t.Context(), Question{Addr: q.Addr}, at, time.Second); err == nil {
				t.Error("a question without an own address is asked")
			}
		})
	}
}
