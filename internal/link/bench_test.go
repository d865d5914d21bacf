package link_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// A round of renewal of all addresses of a node, which is due every 20 s.
func BenchmarkRenew(b *testing.B) {
	for _, f := range lb.Families {
		for _, n := range []int{10, 100, 1000} {
			b.Run(fmt.Sprintf("%v-%d", f, n), func(b *testing.B) {
				_, node := lab(b)
				links := watch(b, node)
				var all []link.Address
				for i := range n {
					raw := pair("10.0.0.0", "2001:db8:1::1:0")[f].AsSlice()
					binary.BigEndian.PutUint16(raw[len(raw)-2:], uint16(i))
					addr, _ := netip.AddrFromSlice(raw)
					all = append(all, link.Address{Interface: "eth0", Addr: addr})
					if err := links.Add("eth0", addr); err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					if missing, err := links.Renew(all); err != nil || len(missing) > 0 {
						b.Fatal(missing, err)
					}
				}
			})
		}
	}
}
