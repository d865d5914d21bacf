package bgp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"time"

	packet "github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

const (
	headerSize = packet.BGP_HEADER_LENGTH
	maxMessage = packet.BGP_MAX_MESSAGE_LENGTH
)

const (
	typeOpen         = packet.BGP_MSG_OPEN
	typeUpdate       = packet.BGP_MSG_UPDATE
	typeNotification = packet.BGP_MSG_NOTIFICATION
	typeKeepalive    = packet.BGP_MSG_KEEPALIVE
	typeRefresh      = packet.BGP_MSG_ROUTE_REFRESH
)

// minSizes of messages, with their headers.
var minSizes = map[byte]int{typeOpen: 29, typeUpdate: 23, typeNotification: 21, typeKeepalive: headerSize, typeRefresh: 23}

var marker = bytes.Repeat([]byte{0xff}, 16)

// reader cuts a stream into messages. It has one buffer, as large as the largest message, and
// what is in it outlives an interrupted read: another process can go on with it.
type reader struct {
	from io.Reader
	buf  [maxMessage]byte
	// start and end of what was read and belongs to no message yet.
	start, end int
}

// next returns the type and body of the next message; the body is valid until the next call.
// An error is a *Failure if the stream is not BGP, else that of the connection.
func (r *reader) next() (kind byte, body []byte, err error) {
	if err := r.fill(headerSize); err != nil {
		return 0, nil, err
	}
	header := r.buf[r.start : r.start+headerSize]
	size, kind := int(binary.BigEndian.Uint16(header[16:18])), header[18]
	least, known := minSizes[kind]
	switch {
	case !bytes.Equal(header[:16], marker):
		return 0, nil, garbage(codeHeader, headerNotSynchronized, nil, "what answers does not speak BGP")
	case size < headerSize || size > maxMessage:
		return 0, nil, garbage(codeHeader, headerLength, header[16:18], fmt.Sprintf("the router sent a message of %d bytes", size))
	case !known:
		return 0, nil, garbage(codeHeader, headerType, header[18:19], fmt.Sprintf("the router sent a message of the unknown type %d", kind))
	case size < least, kind == typeKeepalive && size != headerSize:
		return 0, nil, garbage(codeHeader, headerLength, header[16:18], fmt.Sprintf("the router sent a message of type %d with %d bytes", kind, size))
	}
	if err := r.fill(size); err != nil {
		return 0, nil, err
	}
	body = r.buf[r.start+headerSize : r.start+size]
	r.start += size
	return kind, body, nil
}

// fill reads until there are n bytes.
func (r *reader) fill(n int) error {
	if r.start+n > len(r.buf) || r.start == r.end {
		r.end = copy(r.buf[:], r.buf[r.start:r.end])
		r.start = 0
	}
	for r.end-r.start < n {
		got, err := r.from.Read(r.buf[r.end:])
		r.end += got
		if err != nil && r.end-r.start < n {
			return err
		}
	}
	return nil
}

// unread is what was read and belongs to no message yet.
func (r *reader) unread() []byte { return bytes.Clone(r.buf[r.start:r.end]) }

func garbage(code, subcode uint8, data []byte, text string) *Failure {
	return &Failure{Kind: Garbage, Code: code, Subcode: subcode, Text: text, data: bytes.Clone(data)}
}

// open is what a router says of itself.
type open struct {
	version         uint8
	as              uint32
	hold            time.Duration
	id              netip.Addr
	families        []packet.Family
	fourOctets      bool
	refresh         bool
	extendedNextHop bool
	gracefulRestart bool
}

// readOpen reads the body of an OPEN. Capabilities that are of no use here are not looked into.
func readOpen(body []byte) (o *open, f *Failure) {
	// The codec is others' work and this is what strangers send: no input may end the process.
	defer func() {
		if recover() != nil {
			o, f = nil, badOpen("the router sent a malformed OPEN")
		}
	}()
	if len(body) < 10 {
		return nil, badOpen("the router sent a short OPEN")
	}
	o = &open{
		version: body[0],
		as:      uint32(binary.BigEndian.Uint16(body[1:3])),
		hold:    time.Duration(binary.BigEndian.Uint16(body[3:5])) * time.Second,
		id:      netip.AddrFrom4([4]byte(body[5:9])),
	}
	capabilities, f := optionalParameters(body[9:])
	if f != nil {
		return nil, f
	}
	for len(capabilities) > 0 {
		if len(capabilities) < 2 || len(capabilities) < 2+int(capabilities[1]) {
			return nil, badOpen("the router sent an OPEN with a capability that is cut off")
		}
		size := 2 + int(capabilities[1])
		if f := o.take(capabilities[:size]); f != nil {
			return nil, f
		}
		capabilities = capabilities[size:]
	}
	if len(o.families) == 0 { // RFC 4760: who says nothing speaks IPv4
		o.families = []packet.Family{packet.RF_IPv4_UC}
	}
	return o, nil
}

// optionalParameters returns the capabilities of all optional parameters. Lengths have one
// byte, or two if the first parameter says so (RFC 9072).
func optionalParameters(b []byte) ([]byte, *Failure) {
	total, width := int(b[0]), 1
	b = b[1:]
	if total == 255 && len(b) >= 3 && b[0] == 255 {
		total, width = int(binary.BigEndian.Uint16(b[1:3])), 2
		b = b[3:]
	}
	if total != len(b) {
		return nil, badOpen("the router sent an OPEN whose length is wrong")
	}
	var capabilities []byte
	for len(b) > 0 {
		if len(b) < 1+width {
			return nil, badOpen("the router sent an OPEN with a parameter that is cut off")
		}
		size := int(b[1])
		if width == 2 {
			size = int(binary.BigEndian.Uint16(b[1:3]))
		}
		kind, value := b[0], b[1+width:]
		if size > len(value) {
			return nil, badOpen("the router sent an OPEN with a parameter that is cut off")
		}
		if kind != packet.BGP_OPT_CAPABILITY {
			return nil, garbage(codeOpen, openParameter, nil, fmt.Sprintf("the router sent an OPEN with the unknown optional parameter %d", kind))
		}
		capabilities = append(capabilities, value[:size]...)
		b = value[size:]
	}
	return capabilities, nil
}

// take notes one capability.
func (o *open) take(b []byte) *Failure {
	switch packet.BGPCapabilityCode(b[0]) {
	case packet.BGP_CAP_MULTIPROTOCOL, packet.BGP_CAP_ROUTE_REFRESH, packet.BGP_CAP_FOUR_OCTET_AS_NUMBER,
		packet.BGP_CAP_EXTENDED_NEXTHOP, packet.BGP_CAP_GRACEFUL_RESTART:
	default:
		return nil
	}
	c, err := packet.DecodeCapability(b)
	if err != nil {
		return badOpen(fmt.Sprintf("the router sent an OPEN with a malformed capability %d", b[0]))
	}
	switch c := c.(type) {
	case *packet.CapMultiProtocol:
		o.families = append(o.families, c.CapValue)
	case *packet.CapRouteRefresh:
		o.refresh = true
	case *packet.CapFourOctetASNumber:
		o.fourOctets, o.as = true, c.CapValue
	case *packet.CapExtendedNexthop:
		for _, t := range c.Tuples {
			o.extendedNextHop = o.extendedNextHop || t.NLRIAFI == packet.AFI_IP && t.NLRISAFI == packet.SAFI_UNICAST && t.NexthopAFI == packet.AFI_IP6
		}
	case *packet.CapGracefulRestart:
		o.gracefulRestart = true
	}
	return nil
}

func badOpen(text string) *Failure { return garbage(codeOpen, 0, nil, text) }

// readNotification reads the body of a NOTIFICATION.
func readNotification(body []byte) *Failure {
	var m packet.BGPNotification
	if err := m.DecodeFromBytes(body); err != nil {
		return &Failure{Kind: Closed, Text: "the router ended the session with a malformed NOTIFICATION"}
	}
	return refusal(m.ErrorCode, m.ErrorSubcode, m.Data)
}

// readRefresh returns the family that a ROUTE-REFRESH asks for; ok is false for others.
func readRefresh(body []byte) (f packet.Family, ok bool) {
	var m packet.BGPRouteRefresh
	if err := m.DecodeFromBytes(body); err != nil || m.Demarcation != 0 {
		return 0, false
	}
	return packet.NewFamily(m.AFI, m.SAFI), true
}

// notification makes a NOTIFICATION.
func notification(f *Failure) []byte {
	b, err := packet.NewBGPNotificationMessage(f.Code, f.Subcode, f.data).Serialize()
	if err != nil {
		return nil
	}
	return b
}

var keepalive = append(bytes.Clone(marker), 0, headerSize, typeKeepalive)
