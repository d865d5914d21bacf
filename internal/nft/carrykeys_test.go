package nft

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"fairlead.io/internal/conntrack"
	"fairlead.io/internal/lb"
)

// FuzzDecodeCarried: an element of any shape is read, and what is taken for one of ours is
// what we would have written.
func FuzzDecodeCarried(f *testing.F) {
	for _, ends := range [][3]string{{"192.0.2.1:4711", "192.0.2.100:80", "192.0.2.11"}, {"[2001:db8::1]:1", "[2001:db8::100]:65535", "fe80::11"}} {
		c := Carried{Conn: conntrack.Conn{Protocol: unix.IPPROTO_UDP, Client: netip.MustParseAddrPort(ends[0]), Service: netip.MustParseAddrPort(ends[1])},
			Via: netip.MustParseAddr(ends[2]), Interface: "eth0"}
		want, _, out := encodeCarried([]Carried{c}, nil)
		if len(out.Carried) > 0 {
			f.Fatal(out.Why)
		}
		for k, via := range want {
			f.Add(k.set, []byte(k.key), []byte(via))
			if got, ok := decodeCarried(k.set, []byte(k.key), []byte(via)); ok != k.isConnection() || ok && got != c {
				f.Errorf("%s: read as %v, %t", k.set, got, ok)
			}
			if family, service := k.service(); service != string(c.Service.Addr().AsSlice()) || family != lb.FamilyOf(c.Via) {
				f.Errorf("%s: the Service is %q", k.set, service)
			}
		}
	}
	f.Fuzz(func(t *testing.T, set string, key, via []byte) {
		c, ok := decodeCarried(set, key, via)
		if !ok {
			return
		}
		want, _, out := encodeCarried([]Carried{c}, nil)
		if len(out.Carried) > 0 {
			// An address that is an IPv4 one in disguise is none of ours.
			if c.Service.Addr().Is4In6() || c.Client.Addr().Is4In6() || c.Via.Is4In6() {
				return
			}
			t.Fatalf("%v: %v", c, out.Why)
		}
		if want[carryKey{set, string(key)}] != string(via) {
			t.Errorf("%s %x %x is read as %v", set, key, via, c)
		}
	})
}

// One that cannot be carried does not stop the others.
func TestEncodeBadOnes(t *testing.T) {
	good := Carried{Conn: conntrack.Conn{Protocol: unix.IPPROTO_TCP, Client: netip.MustParseAddrPort("192.0.2.1:4711"), Service: netip.MustParseAddrPort("192.0.2.100:80")},
		Via: netip.MustParseAddr("192.0.2.11"), Interface: "eth0"}
	sctp, nowhere := good, good
	sctp.Protocol = unix.IPPROTO_SCTP
	nowhere.Via = netip.MustParseAddr("fe80::11")
	want, gone, out := encodeCarried([]Carried{sctp, good, nowhere}, []Carried{sctp})
	if len(want) != 2 || len(gone) != 0 || len(out.Carried) != 2 || out.Why == nil {
		t.Errorf("%d elements, %d to go, left out are %v (%v)", len(want), len(gone), out.Carried, out.Why)
	}
}
