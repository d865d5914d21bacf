package wire

import (
	"encoding/binary"
	"net/netip"

	"fairlead.io/internal/lb"
)

const (
	ethernetLen = 14
	maxFrame    = ethernetLen + 1500

	typeARP  = 0x0806
	typeIPv6 = 0x86dd
)

// mac is an Ethernet address.
type mac [6]byte

var broadcast = mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Form is one of the frames that announce an address. IPv4 has two, because
// some hosts heed only one of them.
type Form uint8

const (
	// Plain is an ARP request for the own address (RFC 5227 §3: what an
	// announcement should be), or an unsolicited neighbour advertisement.
	Plain Form = iota
	// Reply is an ARP reply that nobody asked for. IPv6 has no such form.
	Reply
)

// forms returns how many forms announcements of addr have.
func forms(addr netip.Addr) Form {
	if addr.Is4() {
		return Reply + 1
	}
	return Plain + 1
}

// announcement says to all on the LAN that addr is at own.
func announcement(addr netip.Addr, own mac, form Form) ([]byte, error) {
	if addr.Is4() {
		return gratuitousARP(addr, own, form), nil
	}
	return unsolicitedNA(addr, own)
}

// question asks all on the LAN whether one of them has addr, without saying
// that anybody has: no cache learns from it.
func question(addr netip.Addr, own mac) ([]byte, error) {
	if addr.Is4() {
		return probeARP(addr, own), nil
	}
	return probeNS(addr, own)
}

// sign is what a frame says about an address.
type sign struct {
	addr netip.Addr
	mac  mac
	// asks: mac asks whether it may use addr. Otherwise it uses it.
	asks bool
	// answers: somebody has asked for addr. Who asked in an IPv6 probe gets an answer that
	// looks like an announcement (RFC 4861 §7.2.4).
	answers bool
}

// decode returns what a frame says, if it says anything. It takes frames from
// strangers: whatever is not as it must be says nothing.
func decode(frame []byte) (s sign, ok bool) {
	if len(frame) < ethernetLen {
		return sign{}, false
	}
	switch binary.BigEndian.Uint16(frame[12:]) {
	case typeARP:
		s, ok = decodeARP(frame[ethernetLen:])
	case typeIPv6:
		s, ok = decodeND(frame[ethernetLen:], mac(frame[6:12]))
	}
	return s, ok && s.mac != mac{} && !s.addr.IsUnspecified() && !s.addr.IsMulticast()
}

// header returns an Ethernet header with room for size bytes after it.
func header(to, from mac, etherType uint16, size int) []byte {
	b := make([]byte, 0, ethernetLen+size)
	b = append(b, to[:]...)
	b = append(b, from[:]...)
	return binary.BigEndian.AppendUint16(b, etherType)
}

func etherType(f lb.Family) int {
	if f == lb.IPv4 {
		return typeARP
	}
	return typeIPv6
}
