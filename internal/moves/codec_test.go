package moves

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"fairlead.io/internal/conntrack"
)

var (
	vip4 = netip.MustParseAddr("192.0.2.7")
	vip6 = netip.MustParseAddr("2001:db8::7")
)

// conn is connection number i to an address.
func conn(to netip.Addr, i int) conntrack.Conn {
	client := netip.MustParseAddr("198.51.100.1")
	if to.Is6() {
		client = netip.MustParseAddr("2001:db8:1::1")
	}
	protocol := uint8(6)
	if i%5 == 0 {
		protocol = 17
	}
	return conntrack.Conn{Protocol: protocol, Client: netip.AddrPortFrom(client, uint16(1024+i)), Service: netip.AddrPortFrom(to, 80)}
}

func conns(to netip.Addr, from, n int) (out []conntrack.Conn) {
	for i := range n {
		out = append(out, conn(to, from+i))
	}
	return out
}

func TestCodec(t *testing.T) {
	for name, m := range map[string]interface{ Encode() []byte }{
		"nothing wanted": Want{Stream: 7, Addresses: map[netip.Addr]uint64{}},
		"want":           Want{Stream: 1 << 63, Addresses: map[netip.Addr]uint64{vip4: 3, vip6: 1 << 40}},
		"empty page":     Page{Stream: 7, Series: 1 << 60, Number: 12},
		"page": Page{Stream: 7, Neighbours: []Neighbour{{netip.MustParseAddr("192.0.2.1"), [6]byte{2, 0, 0, 0, 0, 1}}, {netip.MustParseAddr("fe80::1"), [6]byte{2}}},
			Parts: []Part{
				{Address: vip4, Epoch: 4, Whole: true, Done: true, Released: -1, Add: conns(vip4, 1, 3)},
				{Address: vip6, Epoch: 9, Done: true, Final: true, Over: true, Released: 1500 * time.Millisecond, Remove: conns(vip6, 1, 2)},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(m.Encode())
			if err != nil || !reflect.DeepEqual(got, m) {
				t.Errorf("%+v became %+v: %v", m, got, err)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	good := Page{Stream: 7, Parts: []Part{{Address: vip4, Epoch: 4, Released: -1, Add: conns(vip4, 1, 3)}}}.Encode()
	for end := range len(good) {
		if m, err := Decode(good[:end]); err == nil {
			if p, ok := m.(Page); ok && len(p.Parts) > 0 && len(p.Parts[0].Add) > 0 {
				t.Errorf("the first %d bytes are read as %+v", end, m)
			}
		}
	}
	other := append([]byte{version + 1}, good[1:]...)
	if _, err := Decode(other); err == nil {
		t.Error("another version is read")
	}
}

// A connection that cannot be handed on is skipped; the others of its page count.
func TestUnknownConnections(t *testing.T) {
	good := conns(vip6, 1, 2)
	sctp, disguised := good[0], good[1]
	sctp.Protocol = 132
	disguised.Client = netip.MustParseAddrPort("[::ffff:192.0.2.1]:4711")
	all := []conntrack.Conn{good[0], sctp, disguised, good[1]}
	m, err := Decode(Page{Stream: 7, Parts: []Part{{Address: vip6, Epoch: 4, Released: -1, Add: all, Remove: all}}}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if p := m.(Page).Parts; len(p) != 1 || !slices.Equal(p[0].Add, good) || !slices.Equal(p[0].Remove, good) {
		t.Errorf("read as %+v", p)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Want{Stream: 7, Addresses: map[netip.Addr]uint64{vip4: 3}}.Encode())
	f.Add(Page{Stream: 7, Number: 3, Parts: []Part{{Address: vip6, Epoch: 9, Done: true, Released: time.Second, Add: conns(vip6, 1, 2), Remove: conns(vip6, 5, 1)}}}.Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Decode(b)
		if err != nil {
			return
		}
		again, err := Decode(m.(interface{ Encode() []byte }).Encode())
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Errorf("%+v became %+v: %v", m, again, err)
		}
		k := NewKeeper()
		k.Members(map[string]bool{"b": true})
		k.Take(vip6, Claim{Epoch: 9, Limit: time.Minute})
		wants := k.Wants(time.Unix(1, 0), func() uint64 { return 7 })
		l := NewLister()
		switch m := m.(type) {
		case Want:
			l.Want("b", m)
			l.Begin()
			l.Read(l.Following(), nil, time.Unix(1, 0))
			l.Pages("b", nil, time.Unix(1, 0))
		case Page:
			if len(wants) == 0 {
				t.Error("nothing is asked")
			}
			k.Page("b", m, time.Unix(1, 0))
			k.Flows(vip6, l.Has)
		}
	})
}
