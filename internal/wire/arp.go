package wire

import (
	"encoding/binary"
	"net/netip"
)

// ARP of IPv4 over Ethernet (RFC 826), as it begins: hardware Ethernet,
// protocol IPv4, addresses of 6 and 4 bytes.
const arpBegins = 0x0001_0800_0604

const (
	arpLen     = 28
	arpRequest = 1
	arpReply   = 2
)

// arp is a packet.
type arp struct {
	op                   uint16
	senderMAC, targetMAC mac
	sender, target       netip.Addr
}

// broadcast returns the frame that tells it to all. Drivers pad it.
func (a arp) broadcast() []byte { return a.frame(broadcast) }

// frame returns the frame that tells it to one host.
func (a arp) frame(to mac) []byte {
	b := header(to, a.senderMAC, typeARP, arpLen)
	b = binary.BigEndian.AppendUint32(b, arpBegins>>16)
	b = binary.BigEndian.AppendUint16(b, arpBegins&0xffff)
	b = binary.BigEndian.AppendUint16(b, a.op)
	b = append(b, a.senderMAC[:]...)
	b = append(b, a.sender.AsSlice()...)
	b = append(b, a.targetMAC[:]...)
	return append(b, a.target.AsSlice()...)
}

// parseARP takes what follows the Ethernet header; padding may follow.
func parseARP(b []byte) (a arp, ok bool) {
	if len(b) < arpLen || binary.BigEndian.Uint64(b)>>16 != arpBegins {
		return arp{}, false
	}
	return arp{
		op:        binary.BigEndian.Uint16(b[6:]),
		senderMAC: mac(b[8:14]), sender: netip.AddrFrom4([4]byte(b[14:18])),
		targetMAC: mac(b[18:24]), target: netip.AddrFrom4([4]byte(b[24:28])),
	}, true
}

// gratuitousARP in the form of a request leaves the target's MAC zero (RFC 5227
// §1.1). That of a reply has the sender's there (RFC 5944 §4.6): Linux takes a
// reply for gratuitous only so, and otherwise ignores it for a second
// (locktime) after the entry was last changed.
func gratuitousARP(addr netip.Addr, own mac, form Form) []byte {
	if form == Reply {
		return arp{op: arpReply, senderMAC: own, sender: addr, targetMAC: own, target: addr}.broadcast()
	}
	return arp{op: arpRequest, senderMAC: own, sender: addr, target: addr}.broadcast()
}

// probeARP has no sender address (RFC 5227 §2.1.1).
func probeARP(addr netip.Addr, own mac) []byte {
	return arp{op: arpRequest, senderMAC: own, sender: netip.IPv4Unspecified(), target: addr}.broadcast()
}

// decodeARP: whoever is the sender of anything uses the address (RFC 5227
// §2.4). The MAC is the one in the packet, not the frame's: a cluster of hosts
// may answer with a common one.
func decodeARP(b []byte) (sign, bool) {
	a, ok := parseARP(b)
	switch {
	case !ok || a.op != arpRequest && a.op != arpReply:
		return sign{}, false
	case a.sender.IsUnspecified():
		return sign{addr: a.target, mac: a.senderMAC, asks: true}, a.op == arpRequest
	}
	return sign{addr: a.sender, mac: a.senderMAC, answers: a.op == arpReply && a.target != a.sender}, true
}
