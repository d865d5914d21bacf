package conntrack

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// message is one of a connection, as the kernel writes it.
type message struct {
	protocol uint8
	tcp      uint8 // 0: not there
	status   uint32
	zone     uint16
	six      bool
}

func (m message) encode() []byte {
	client, service := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.100")
	first := uint16(ipSource4)
	if m.six {
		client, service, first = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::100"), ipSource6
	}
	nested := func(e *netlink.AttributeEncoder, kind uint16, fill func(e *netlink.AttributeEncoder)) {
		e.Nested(kind, func(e *netlink.AttributeEncoder) error { fill(e); return nil })
	}
	e := netlink.NewAttributeEncoder()
	for direction, ends := range [][]netip.Addr{{client, service}, {service, client}} {
		nested(e, uint16(attrTupleOrig+direction), func(e *netlink.AttributeEncoder) {
			nested(e, tupleIP, func(e *netlink.AttributeEncoder) {
				e.Bytes(first, ends[0].AsSlice())
				e.Bytes(first+1, ends[1].AsSlice())
			})
			nested(e, tupleProto, func(e *netlink.AttributeEncoder) {
				e.Uint8(protoNumber, m.protocol)
				e.Bytes(protoSourcePort, []byte{0x12, 0x34})
				e.Bytes(protoDestinationPort, []byte{0, 80})
			})
		})
	}
	e.Bytes(attrStatus, []byte{byte(m.status >> 24), byte(m.status >> 16), byte(m.status >> 8), byte(m.status)})
	if m.tcp > 0 {
		nested(e, attrProtoInfo, func(e *netlink.AttributeEncoder) {
			nested(e, protoInfoTCP, func(e *netlink.AttributeEncoder) { e.Uint8(tcpState, m.tcp) })
		})
	}
	if m.zone > 0 {
		e.Bytes(attrZone, []byte{byte(m.zone >> 8), byte(m.zone)})
	}
	b, err := e.Encode()
	if err != nil {
		panic(err)
	}
	return append([]byte{unix.AF_INET, 0, 0, 0}, b...)
}

func TestWhichConnectionsGoOn(t *testing.T) {
	const kindNew, kindDelete = unix.NFNL_SUBSYS_CTNETLINK<<8 | msgNew, unix.NFNL_SUBSYS_CTNETLINK<<8 | msgDelete
	const tcp, udp = unix.IPPROTO_TCP, unix.IPPROTO_UDP
	for what, test := range map[string]struct {
		kind          uint16
		message       message
		goesOn, ended bool
	}{
		"SYN_SENT":               {kindNew, message{protocol: tcp, tcp: 1}, false, false},
		"SYN_RECV":               {kindNew, message{protocol: tcp, tcp: 2, status: seenReply}, true, false},
		"SYN_RECV, no answer":    {kindNew, message{protocol: tcp, tcp: 2}, false, false},
		"SYN_RECV, removed":      {kindDelete, message{protocol: tcp, tcp: 2, status: seenReply}, false, true},
		"ESTABLISHED":            {kindNew, message{protocol: tcp, tcp: 3, status: seenReply}, true, false},
		"ESTABLISHED, IPv6":      {kindNew, message{protocol: tcp, tcp: 3, status: seenReply, six: true}, true, false},
		"picked up, no answer":   {kindNew, message{protocol: tcp, tcp: 3}, false, false},
		"FIN_WAIT":               {kindNew, message{protocol: tcp, tcp: 4, status: seenReply}, true, false},
		"CLOSE_WAIT":             {kindNew, message{protocol: tcp, tcp: 5, status: seenReply}, true, false},
		"LAST_ACK":               {kindNew, message{protocol: tcp, tcp: 6, status: seenReply}, true, false},
		"TIME_WAIT":              {kindNew, message{protocol: tcp, tcp: 7, status: seenReply}, false, true},
		"CLOSE":                  {kindNew, message{protocol: tcp, tcp: 8, status: seenReply}, false, true},
		"CLOSE, refused":         {kindNew, message{protocol: tcp, tcp: 8}, false, false},
		"SYN_SENT2":              {kindNew, message{protocol: tcp, tcp: 9, status: seenReply}, false, false},
		"an update of something": {kindNew, message{protocol: tcp, status: seenReply}, false, false},
		"removed":                {kindDelete, message{protocol: tcp, tcp: 3, status: seenReply}, false, true},
		"removed, never open":    {kindDelete, message{protocol: tcp, tcp: 1}, false, false},
		"UDP, no answer":         {kindNew, message{protocol: udp}, false, false},
		"UDP":                    {kindNew, message{protocol: udp, status: seenReply}, true, false},
		"UDP, removed":           {kindDelete, message{protocol: udp, status: seenReply}, false, true},
		"ICMP":                   {kindNew, message{protocol: unix.IPPROTO_ICMP, status: seenReply}, false, false},
		"another zone":           {kindNew, message{protocol: udp, status: seenReply, zone: 7}, false, false},
		"another subsystem":      {unix.NFNL_SUBSYS_NFTABLES << 8, message{protocol: udp, status: seenReply}, false, false},
		"another message":        {kindNew + 1, message{protocol: udp, status: seenReply}, false, false},
	} {
		e, ok := decode(test.kind, test.message.encode(), func(netip.Addr) bool { return true })
		if got := ok && e.goesOn(); got != test.goesOn {
			t.Errorf("%s: goes on: %t", what, got)
		}
		if got := ok && e.ended(); got != test.ended {
			t.Errorf("%s: ended: %t", what, got)
		}
		if test.goesOn && (e.Client.Port() != 0x1234 || e.Service.Port() != 80 || e.Service.Addr().Is6() != test.message.six) {
			t.Errorf("%s: read as %v", what, e.Conn)
		}
	}
	if _, ok := decode(kindNew, message{protocol: udp, status: seenReply}.encode(), func(netip.Addr) bool { return false }); ok {
		t.Error("an address that nobody asked for")
	}
}

// FuzzDecode: what the kernel says, of any shape, is read, and what is taken for a connection
// is one.
func FuzzDecode(f *testing.F) {
	for _, m := range []message{{protocol: unix.IPPROTO_TCP, tcp: 3, status: seenReply}, {protocol: unix.IPPROTO_UDP, status: seenReply, six: true, zone: 7}} {
		f.Add(uint16(unix.NFNL_SUBSYS_CTNETLINK<<8|msgNew), m.encode())
		f.Add(uint16(unix.NFNL_SUBSYS_CTNETLINK<<8|msgDelete), m.encode())
	}
	f.Fuzz(func(t *testing.T, kind uint16, data []byte) {
		e, ok := decode(kind, data, func(a netip.Addr) bool { return a.IsValid() })
		if !ok {
			return
		}
		if e.goesOn() && e.ended() {
			t.Errorf("%v goes on and has ended", e)
		}
		if !e.Client.IsValid() || e.Client.Addr().BitLen() != e.Service.Addr().BitLen() || e.Protocol != unix.IPPROTO_TCP && e.Protocol != unix.IPPROTO_UDP {
			t.Errorf("%v is not a connection", e.Conn)
		}
		if _, is := strayOf(kind, data, func(netip.Addr) bool { return true }); is && (e.gone || e.goesOn()) {
			t.Errorf("%v goes on, or is gone, and would be removed", e)
		}
	})
}

// Of too many, those that are known are there; what is not wanted takes nobody's place.
func TestPicked(t *testing.T) {
	t.Cleanup(SetLimit(3))
	var p picked
	for i := range uint16(20) {
		c := Conn{Protocol: unix.IPPROTO_TCP, Client: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), i)}
		p.add(Tracked{Conn: c}, func(c Conn) Rank {
			switch port := c.Client.Port(); {
			case port < 4:
				return Unwanted
			case port >= 15:
				return Known
			}
			return Other
		})
	}
	var ports []uint16
	for _, c := range p.all {
		ports = append(ports, c.Client.Port())
	}
	if want := []uint16{4, 5, 6, 15, 16, 17, 18, 19}; !slices.Equal(ports, want) || !errors.Is(p.err, ErrTooMany) {
		t.Errorf("picked are %v (%v), want %v", ports, p.err, want)
	}
}

// A flood of connections that nobody ever opens takes no place of those that are open, nor of
// those that are being opened to another address.
func TestOpeningIsLimited(t *testing.T) {
	t.Cleanup(SetLimit(3))
	t.Cleanup(SetOpeningLimit(2))
	conn := func(to string, port uint16) Conn {
		return Conn{Protocol: unix.IPPROTO_TCP, Client: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port), Service: netip.MustParseAddrPort(to)}
	}
	const flooded, other = "198.51.100.1:80", "198.51.100.2:80"
	p := picked{opening: map[netip.Addr]int{}}
	for port := range uint16(10) {
		p.add(Tracked{conn(flooded, port), true}, nil)
	}
	p.add(Tracked{conn(flooded, 10), false}, nil)
	p.add(Tracked{conn(flooded, 11), true}, func(Conn) Rank { return Known })
	p.add(Tracked{conn(other, 12), true}, nil)
	p.add(Tracked{conn(other, 13), true}, nil) // more than all together may be
	want := []Tracked{{conn(flooded, 0), true}, {conn(flooded, 1), true}, {conn(flooded, 10), false}, {conn(flooded, 11), true}, {conn(other, 12), true}}
	if !slices.Equal(p.all, want) || p.err != nil {
		t.Errorf("listed are %v (%v), want %v", p.all, p.err, want)
	}
}
