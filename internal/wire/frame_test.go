package wire

import (
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/ndp"
)

var (
	testMAC = mac{2, 0, 0, 0, 0, 1}
	v4      = netip.MustParseAddr("192.0.2.1")
	v6      = netip.MustParseAddr("2001:db8::12:3456")
)

// Written by hand from RFC 826, 4861 and 8200, with checksums made by another
// program.
func TestFrames(t *testing.T) {
	must := func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, test := range []struct {
		name, want string
		frame      []byte
		says       sign
	}{
		{"gratuitous request",
			"ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 c0000201 000000000000 c0000201",
			must(announcement(v4, testMAC, Plain)), sign{addr: v4, mac: testMAC}},
		{"gratuitous reply",
			"ffffffffffff 020000000001 0806 0001 0800 06 04 0002 020000000001 c0000201 020000000001 c0000201",
			must(announcement(v4, testMAC, Reply)), sign{addr: v4, mac: testMAC}},
		{"ARP probe",
			"ffffffffffff 020000000001 0806 0001 0800 06 04 0001 020000000001 00000000 000000000000 c0000201",
			must(question(v4, testMAC)), sign{addr: v4, mac: testMAC, asks: true}},
		{"unsolicited advertisement", "333300000001 020000000001 86dd 60000000 0020 3a ff " +
			"20010db8000000000000000000123456 ff020000000000000000000000000001 " +
			"88 00 905c 20000000 20010db8000000000000000000123456 02 01 020000000001",
			must(announcement(v6, testMAC, Plain)), sign{addr: v6, mac: testMAC}},
		{"solicitation of DAD", "3333ff123456 020000000001 86dd 60000000 0018 3a ff " +
			"00000000000000000000000000000000 ff0200000000000000000001ff123456 " +
			"87 00 e41e 00000000 20010db8000000000000000000123456",
			must(question(v6, testMAC)), sign{addr: v6, mac: testMAC, asks: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := hex.EncodeToString(test.frame)
			want := strings.ReplaceAll(test.want, " ", "")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			for _, padding := range []int{0, 18} {
				if s, ok := decode(append(test.frame, make([]byte, padding)...)); !ok || s != test.says {
					t.Errorf("with %d bytes of padding: got %v, %v", padding, s, ok)
				}
			}
			for i := range test.frame {
				if _, ok := decode(test.frame[:i]); ok {
					t.Errorf("the first %d bytes say something", i)
				}
			}
		})
	}
}

func TestOtherFrames(t *testing.T) {
	other, peer := mac{2, 0, 0, 0, 0, 2}, netip.MustParseAddr("2001:db8::2")
	build := func(m ndp.Message, from netip.Addr) []byte {
		b, err := nd(m, from, allNodes, testMAC)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	damaged := func(b []byte, at int) []byte { b[at] ^= 1; return b }
	na := func() []byte { return build(&ndp.NeighborAdvertisement{TargetAddress: v6}, peer) }
	for _, test := range []struct {
		name  string
		frame []byte
		says  sign // nothing if zero
	}{
		{"advertisement without option", na(), sign{addr: v6, mac: testMAC}},
		{"advertisement for another MAC", build(&ndp.NeighborAdvertisement{TargetAddress: v6, Options: []ndp.Option{
			&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: other[:]}}}, peer), sign{addr: v6, mac: other}},
		{"solicitation by a user", build(&ndp.NeighborSolicitation{TargetAddress: v6, Options: []ndp.Option{
			&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: other[:]}}}, peer), sign{addr: peer, mac: other}},
		{"router solicitation", build(&ndp.RouterSolicitation{}, peer), sign{}},
		{"wrong checksum", damaged(na(), 57), sign{}},
		{"forwarded", damaged(na(), 21), sign{}},
		{"not ICMPv6", damaged(na(), 20), sign{}},
		{"ordinary ARP request", arp{op: arpRequest, senderMAC: other, sender: v4.Next(), target: v4}.broadcast(), sign{addr: v4.Next(), mac: other}},
		{"ARP reply to a host", arp{op: arpReply, senderMAC: other, sender: v4, target: v4.Next()}.broadcast(), sign{addr: v4, mac: other, answers: true}},
		{"ARP reply to a probe", arp{op: arpReply, senderMAC: other, sender: v4, target: netip.IPv4Unspecified()}.broadcast(), sign{addr: v4, mac: other, answers: true}},
		{"solicited advertisement", build(&ndp.NeighborAdvertisement{TargetAddress: v6, Solicited: true}, peer), sign{addr: v6, mac: testMAC, answers: true}},
		{"ARP reply from nowhere", arp{op: arpReply, senderMAC: other, sender: netip.IPv4Unspecified(), target: v4}.broadcast(), sign{}},
		{"ARP without sender's MAC", arp{op: arpReply, sender: v4, target: v4}.broadcast(), sign{}},
		{"ARP question for nothing", arp{op: arpRequest, senderMAC: other, sender: netip.IPv4Unspecified(), target: netip.IPv4Unspecified()}.broadcast(), sign{}},
		{"reverse ARP", arp{op: 3, senderMAC: other, sender: v4, target: v4}.broadcast(), sign{}},
	} {
		if s, ok := decode(test.frame); ok != (test.says != sign{}) || ok && s != test.says {
			t.Errorf("%s: got %v, %v; want %v", test.name, s, ok, test.says)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, addr := range []netip.Addr{v4, v6} {
		for form := range forms(addr) {
			b, err := announcement(addr, testMAC, form)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
		b, err := question(addr, testMAC)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		s, ok := decode(frame)
		if !ok {
			return
		}
		if !s.addr.IsValid() || s.addr.IsUnspecified() || s.mac == (mac{}) {
			t.Fatalf("%x says %v", frame, s)
		}
		if s.addr.Is4In6() {
			return // somebody's source address; nothing that we could send
		}
		// What was heard can be said.
		say := func() ([]byte, error) { return announcement(s.addr, s.mac, Plain) }
		if s.asks {
			say = func() ([]byte, error) { return question(s.addr, s.mac) }
		}
		again, err := say()
		if err != nil {
			t.Fatal(err)
		}
		if back, ok := decode(again); !ok || back != s {
			t.Fatalf("%v came back as %v, %v", s, back, ok)
		}
	})
}

// What is of no concern must cost nothing but a look.
func BenchmarkDecode(b *testing.B) {
	frame := arp{op: arpRequest, senderMAC: testMAC, sender: v4, target: v4.Next()}.broadcast()
	b.ReportAllocs()
	for b.Loop() {
		decode(frame)
	}
}
