package dhcp

import (
	"encoding/binary"
	"net/netip"
)

const (
	ethernetLen = 14
	ipv4Len     = 20
	ipv6Len     = 40
	udpLen      = 8
	udpProtocol = 17
	hops        = 64

	typeIPv4 = 0x0800
	typeIPv6 = 0x86dd
)

// datagram is a UDP datagram in an Ethernet frame.
type datagram struct {
	toMAC, fromMAC [6]byte
	from, to       netip.AddrPort
	payload        []byte
}

// frame writes d out. From and to are of one family.
func (d *datagram) frame() []byte {
	b := append(append([]byte(nil), d.toMAC[:]...), d.fromMAC[:]...)
	size := udpLen + len(d.payload)
	if d.to.Addr().Is4() {
		b = binary.BigEndian.AppendUint16(b, typeIPv4)
		header := make([]byte, ipv4Len)
		header[0] = 4<<4 | ipv4Len/4
		binary.BigEndian.PutUint16(header[2:], uint16(ipv4Len+size))
		header[8], header[9] = hops, udpProtocol
		copy(header[12:], d.from.Addr().AsSlice())
		copy(header[16:], d.to.Addr().AsSlice())
		binary.BigEndian.PutUint16(header[10:], ^fold(sum(0, header)))
		b = append(b, header...)
	} else {
		b = binary.BigEndian.AppendUint16(b, typeIPv6)
		b = append(b, 6<<4, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(size))
		b = append(b, udpProtocol, hops)
		b = append(b, d.from.Addr().AsSlice()...)
		b = append(b, d.to.Addr().AsSlice()...)
	}
	udp := binary.BigEndian.AppendUint16(nil, d.from.Port())
	udp = binary.BigEndian.AppendUint16(udp, d.to.Port())
	udp = binary.BigEndian.AppendUint16(udp, uint16(size))
	udp = append(udp, 0, 0)
	udp = append(udp, d.payload...)
	pseudo := sum(sum(udpProtocol+uint32(size), d.from.Addr().AsSlice()), d.to.Addr().AsSlice())
	check := ^fold(sum(pseudo, udp))
	if check == 0 { // which would say that there is none
		check = 0xffff
	}
	binary.BigEndian.PutUint16(udp[6:], check)
	return append(b, udp...)
}

// sum adds the 16-bit words of b to n, as the checksums of IP do.
func sum(n uint32, b []byte) uint32 {
	for ; len(b) > 1; b = b[2:] {
		n += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		n += uint32(b[0]) << 8
	}
	return n
}

func fold(n uint32) uint16 {
	for n > 0xffff {
		n = n>>16 + n&0xffff
	}
	return uint16(n)
}

// decode reads a frame. It takes frames from strangers, whose checksums the
// kernel may not have checked, nor filled in where they are from this machine:
// DHCP's own fields tell what is ours.
func decode(frame []byte) (d datagram, ok bool) {
	if len(frame) < ethernetLen {
		return d, false
	}
	d.toMAC, d.fromMAC = [6]byte(frame[:6]), [6]byte(frame[6:12])
	packet := frame[ethernetLen:]
	var from, to netip.Addr
	switch binary.BigEndian.Uint16(frame[12:]) {
	case typeIPv4:
		if len(packet) < ipv4Len || packet[0]>>4 != 4 {
			return d, false
		}
		header, size := int(packet[0]&0xf)*4, int(binary.BigEndian.Uint16(packet[2:]))
		fragment := binary.BigEndian.Uint16(packet[6:]) &^ 0x4000
		if header < ipv4Len || size < header || size > len(packet) || packet[9] != udpProtocol || fragment != 0 {
			return d, false
		}
		from, to = netip.AddrFrom4([4]byte(packet[12:16])), netip.AddrFrom4([4]byte(packet[16:20]))
		packet = packet[header:size]
	case typeIPv6:
		if len(packet) < ipv6Len || packet[0]>>4 != 6 || packet[6] != udpProtocol {
			return d, false
		}
		size := int(binary.BigEndian.Uint16(packet[4:]))
		if size > len(packet)-ipv6Len {
			return d, false
		}
		from, to = netip.AddrFrom16([16]byte(packet[8:24])), netip.AddrFrom16([16]byte(packet[24:40]))
		packet = packet[ipv6Len : ipv6Len+size]
	default:
		return d, false
	}
	if len(packet) < udpLen {
		return d, false
	}
	size := int(binary.BigEndian.Uint16(packet[4:]))
	if size < udpLen || size > len(packet) {
		return d, false
	}
	d.from = netip.AddrPortFrom(from, binary.BigEndian.Uint16(packet))
	d.to = netip.AddrPortFrom(to, binary.BigEndian.Uint16(packet[2:]))
	d.payload = packet[udpLen:size]
	return d, true
}
