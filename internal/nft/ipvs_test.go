package nft

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// The kernel's list of virtual servers, as mode ipvs fills it: one without a server behind it
// forwards nothing.
func TestVirtualServers(t *testing.T) {
	const list = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  C0000207:0050 rr
  -> 0A4D0001:46A0      Masq    1      0          0
TCP  C0000208:0050 rr
UDP  [2001:0db8:0000:0000:0000:0000:0000:0007]:0035 rr persistent 10800
  -> [fd77:0000:0000:0000:0000:0000:0000:0001]:46A0      Masq    1      0          0
FWM  00000001 rr
  -> 0A4D0001:46A0      Masq    1      0          0
`
	got := slices.SortedFunc(maps.Keys(virtualServers(strings.NewReader(list))), netip.Addr.Compare)
	if want := []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}; !slices.Equal(got, want) {
		t.Errorf("served are %v, want %v", got, want)
	}
}

// FuzzLegacyDestinations: a dump of any shape is read to its end.
func FuzzLegacyDestinations(f *testing.F) {
	f.Add(make([]byte, 300), false)
	f.Fuzz(func(t *testing.T, dump []byte, six bool) {
		length := 4
		if six {
			length = 16
		}
		if n := len(legacyDestinations(dump, length)); n > len(dump)/length {
			t.Errorf("%d addresses in %d bytes", n, len(dump))
		}
	})
}
