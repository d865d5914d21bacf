package dhcp

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// v4 speaks DHCP for IPv4, RFC 2131.
type v4 struct{ id Identity }

func (v4) transactions() uint32 { return 0xffffffff }

// goesOn as RFC 2131, 4.4.1 has it: servers may drop a request with any other number.
func (v4) goesOn() bool { return true }

// clientID is RFC 4361's: the same identity as in IPv6.
func (v v4) clientID() []byte {
	iaid := v.id.iaid()
	return append(append([]byte{0xff}, iaid[:]...), v.id.duid().ToBytes()...)
}

func (v v4) compose(p phase, transaction uint32, l *Lease, _ time.Duration) ([]byte, *Unicast) {
	m := v.message(dhcpv4.MessageTypeRequest, transaction)
	m.UpdateOption(dhcpv4.OptParameterRequestList(dhcpv4.OptionSubnetMask, dhcpv4.OptionIPAddressLeaseTime, dhcpv4.OptionRenewTimeValue, dhcpv4.OptionRebindingTimeValue))
	var to *Unicast
	switch p {
	case discover:
		m.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeDiscover))
		if v.id.Requested.Is4() {
			m.UpdateOption(dhcpv4.OptRequestedIPAddress(v.id.Requested.AsSlice()))
		}
	case request:
		m.UpdateOption(dhcpv4.OptRequestedIPAddress(l.Addr.AsSlice()))
		m.UpdateOption(dhcpv4.OptServerIdentifier(l.from.addr.AsSlice()))
	case renew:
		m.ClientIPAddr = l.Addr.AsSlice()
		if l.from.addr.IsValid() {
			m.SetUnicast()
			to = &Unicast{From: l.Addr, To: l.from.addr, MAC: l.from.mac}
		}
	case rebind:
		// As after a reboot, not as RFC 2131 has it for rebinding: with the address in
		// ciaddr servers answer to it, and it may be on no interface because nothing
		// serves there, or only on that of another node.
		m.UpdateOption(dhcpv4.OptRequestedIPAddress(l.Addr.AsSlice()))
	}
	return m.ToBytes(), to
}

func (v v4) release(transaction uint32, l *Lease) ([]byte, *Unicast) {
	if !l.from.addr.IsValid() {
		return nil, nil
	}
	m := v.message(dhcpv4.MessageTypeRelease, transaction)
	m.SetUnicast()
	m.ClientIPAddr = l.Addr.AsSlice()
	m.UpdateOption(dhcpv4.OptServerIdentifier(l.from.addr.AsSlice()))
	return m.ToBytes(), &Unicast{From: l.Addr, To: l.from.addr, MAC: l.from.mac}
}

func (v v4) decline(transaction uint32, l *Lease) []byte {
	if !l.from.addr.IsValid() {
		return nil
	}
	m := v.message(dhcpv4.MessageTypeDecline, transaction)
	m.UpdateOption(dhcpv4.OptRequestedIPAddress(l.Addr.AsSlice()))
	m.UpdateOption(dhcpv4.OptServerIdentifier(l.from.addr.AsSlice()))
	return m.ToBytes()
}

// message asks for answers to all: the frame's address is not that of the client.
func (v v4) message(t dhcpv4.MessageType, transaction uint32) *dhcpv4.DHCPv4 {
	m, err := dhcpv4.New(
		dhcpv4.WithTransactionID(dhcpv4.TransactionID(binary.BigEndian.AppendUint32(nil, transaction))),
		dhcpv4.WithHwAddr(v.id.MAC), dhcpv4.WithBroadcast(true), dhcpv4.WithMessageType(t),
		dhcpv4.WithOption(dhcpv4.OptClientIdentifier(v.clientID())))
	if err != nil { // only if there is no randomness for a transaction
		panic(err)
	}
	if v.id.Hostname != "" {
		m.UpdateOption(dhcpv4.OptHostName(v.id.Hostname))
	}
	return m
}

func (v v4) parse(p phase, transaction uint32, h Heard) (answer, bool) {
	m, err := dhcpv4.FromBytes(h.Message)
	if err != nil || m.OpCode != dhcpv4.OpcodeBootReply || binary.BigEndian.Uint32(m.TransactionID[:]) != transaction || !bytes.Equal(m.ClientHWAddr, v.id.MAC) {
		return answer{}, false
	}
	var a answer
	var ok bool
	if a.from.addr, ok = address(m.ServerIdentifier()); ok {
		a.name = a.from.addr.String()
	}
	switch t := m.MessageType(); {
	case t == dhcpv4.MessageTypeOffer && p == discover:
		a.kind = offer
	case t == dhcpv4.MessageTypeAck && p != discover:
		a.kind = ack
	case t == dhcpv4.MessageTypeNak && p != discover:
		a.kind = nak
		return a, true
	default:
		return answer{}, false
	}
	if !ok || !a.from.addr.Is4() || a.from.addr.IsUnspecified() {
		return answer{kind: useless, why: "the server does not say who it is"}, true
	}
	if a.addr, ok = address(m.YourIPAddr); !ok || !a.addr.Is4() {
		return answer{kind: useless, why: "there is no address"}, true
	}
	a.from.mac = h.MAC
	a.life = m.IPAddressLeaseTime(0)
	a.t1, a.t2 = m.IPAddressRenewalTime(0), m.IPAddressRebindingTime(0)
	return judged(a), true
}

func address(ip net.IP) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(ip)
	return a.Unmap(), ok
}
