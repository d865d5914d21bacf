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
		want, _, err := encodeCarried([]Carried{c}, nil)
		if err != nil {
			f.Fatal(err)
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
		want, _, err := encodeCarried([]Carried{c}, nil)
		if err != nil {
			// An address that is an IPv4 one in disguise is none of ours.
			if c.Service.Addr().Is4In6() || c.Client.Addr().Is4In6() || c.Via.Is4In6() {
				return
			}
			t.Fatalf("%v: %v", c, err)
		}
		if want[carryKey{set, string(key)}] != string(via) {
			t.Errorf("%s %x %x is read as %v", set, key, via, c)
		}
	})
}
