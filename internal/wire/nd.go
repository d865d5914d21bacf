package wire

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/mdlayher/ndp"
)

const (
	ipv6Len       = 40
	icmpv6        = 58
	ndHopLimit    = 255 // RFC 4861 §7.1: a lower one was forwarded and does not count
	solicitation  = 135
	advertisement = 136
)

var allNodes = netip.IPv6LinkLocalAllNodes()

// unsolicitedNA overrides what caches have (RFC 4861 §7.2.6). Its source is the
// address itself, as in the kernel's own, so that it needs no other address.
// It does not say that the sender is a router, although a node forwards: hosts
// use that only of the addresses of their default routers.
func unsolicitedNA(addr netip.Addr, own mac) ([]byte, error) {
	return nd(&ndp.NeighborAdvertisement{
		Override:      true,
		TargetAddress: addr,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Target, Addr: own[:]}},
	}, addr, allNodes, own)
}

// probeNS is what hosts send for duplicate address detection (RFC 4862 §5.4.2):
// from no address and so without the option that has the own MAC.
func probeNS(addr netip.Addr, own mac) ([]byte, error) {
	return nd(&ndp.NeighborSolicitation{TargetAddress: addr}, netip.IPv6Unspecified(), solicitedNode(addr), own)
}

// solicit asks for the MAC of addr, as a host does that wants to send to it (RFC 4861
// §7.2.2).
func solicit(addr, from netip.Addr, own mac) ([]byte, error) {
	return nd(&ndp.NeighborSolicitation{
		TargetAddress: addr,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: own[:]}},
	}, from, solicitedNode(addr), own)
}

// solicitAt is solicit for one host, as the kernel does to see whether it is still there (RFC
// 4861 §7.3.3).
func solicitAt(addr, from netip.Addr, own, at mac) ([]byte, error) {
	return ndTo(&ndp.NeighborSolicitation{
		TargetAddress: addr,
		Options:       []ndp.Option{&ndp.LinkLayerAddress{Direction: ndp.Source, Addr: own[:]}},
	}, from, addr, own, at)
}

func nd(m ndp.Message, from, to netip.Addr, own mac) ([]byte, error) {
	return ndTo(m, from, to, own, multicastMAC(to))
}

func ndTo(m ndp.Message, from, to netip.Addr, own, at mac) ([]byte, error) {
	payload, err := ndp.MarshalMessageChecksum(m, from, to)
	if err != nil {
		return nil, err
	}
	b := header(at, own, typeIPv6, ipv6Len+len(payload))
	b = append(b, 0x60, 0, 0, 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(payload)))
	b = append(b, icmpv6, ndHopLimit)
	b = append(b, from.AsSlice()...)
	b = append(b, to.AsSlice()...)
	return append(b, payload...), nil
}

// solicitedNode is the multicast group of addr (RFC 4291 §2.7.1).
func solicitedNode(addr netip.Addr) netip.Addr {
	a := addr.As16()
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: a[13], 14: a[14], 15: a[15]})
}

// multicastMAC is where IPv6 multicast goes on Ethernet (RFC 2464 §7).
func multicastMAC(group netip.Addr) mac {
	g := group.As16()
	return mac{0x33, 0x33, g[12], g[13], g[14], g[15]}
}

// decodeND takes what follows the Ethernet header. The packet socket gets
// frames before the kernel has looked at them, so all checks are made here.
// Extension headers are not looked behind: no ND message has any.
func decodeND(b []byte, from mac) (sign, bool) {
	if len(b) < ipv6Len || b[0]>>4 != 6 || b[6] != icmpv6 || b[7] != ndHopLimit {
		return sign{}, false
	}
	size := int(binary.BigEndian.Uint16(b[4:]))
	if len(b) < ipv6Len+size || checksum(b[8:40], b[ipv6Len:ipv6Len+size]) != 0 {
		return sign{}, false
	}
	source := netip.AddrFrom16([16]byte(b[8:24]))
	message, err := ndp.ParseMessage(b[ipv6Len : ipv6Len+size])
	if err != nil {
		return sign{}, false
	}
	switch m := message.(type) {
	case *ndp.NeighborAdvertisement:
		return sign{addr: m.TargetAddress, mac: linkLayer(m.Options, ndp.Target, from), answers: m.Solicited}, true
	case *ndp.NeighborSolicitation:
		if source.IsUnspecified() {
			return sign{addr: m.TargetAddress, mac: from, asks: true}, true
		}
		return sign{addr: source, mac: linkLayer(m.Options, ndp.Source, from)}, true
	}
	return sign{}, false
}

// linkLayer returns the MAC in the options, or that of the frame.
func linkLayer(options []ndp.Option, d ndp.Direction, from mac) mac {
	for _, o := range options {
		if l, ok := o.(*ndp.LinkLayerAddress); ok && l.Direction == d && len(l.Addr) == len(from) {
			return mac(l.Addr)
		}
	}
	return from
}

// checksum of ICMPv6 (RFC 4443 §2.3) over the two addresses and the message
// with its checksum in it: 0 if that is right.
func checksum(addresses, message []byte) uint16 {
	sum := uint32(len(message)) + icmpv6
	for _, part := range [][]byte{addresses, message} {
		for ; len(part) > 1; part = part[2:] {
			sum += uint32(binary.BigEndian.Uint16(part))
		}
		if len(part) == 1 {
			sum += uint32(part[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func (m mac) hardware() net.HardwareAddr { return net.HardwareAddr(m[:]) }
