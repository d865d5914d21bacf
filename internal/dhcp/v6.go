package dhcp

import (
	"bytes"
	"encoding/hex"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
)

// v6 speaks DHCP for IPv6, RFC 8415.
type v6 struct{ id Identity }

func (v6) transactions() uint32 { return 0xffffff }

// goesOn as RFC 8415, 18.2.2 has it: each exchange has a number of its own.
func (v6) goesOn() bool { return false }

func (i Identity) duid() *dhcpv6.DUIDUUID { return &dhcpv6.DUIDUUID{UUID: i.ID} }

// iaid numbers the one address of an identity.
func (i Identity) iaid() [4]byte { return [4]byte(i.ID[12:]) }

func (v v6) compose(p phase, transaction uint32, l *Lease, elapsed time.Duration) ([]byte, *Unicast) {
	types := [...]dhcpv6.MessageType{discover: dhcpv6.MessageTypeSolicit, request: dhcpv6.MessageTypeRequest, renew: dhcpv6.MessageTypeRenew, rebind: dhcpv6.MessageTypeRebind}
	t := types[p]
	if p == renew && l.from.id == nil {
		t = dhcpv6.MessageTypeRebind
	}
	m := v.message(t, transaction, l)
	m.AddOption(dhcpv6.OptElapsedTime(elapsed))
	if l != nil && l.from.id != nil && p != rebind {
		v.toServer(m, l)
	}
	return m.ToBytes(), nil
}

func (v v6) release(transaction uint32, l *Lease) ([]byte, *Unicast) {
	if l.from.id == nil {
		return nil, nil
	}
	m := v.message(dhcpv6.MessageTypeRelease, transaction, l)
	v.toServer(m, l)
	m.AddOption(dhcpv6.OptElapsedTime(0))
	return m.ToBytes(), nil
}

func (v v6) decline(transaction uint32, l *Lease) []byte {
	if l.from.id == nil {
		return nil
	}
	m := v.message(dhcpv6.MessageTypeDecline, transaction, l)
	v.toServer(m, l)
	m.AddOption(dhcpv6.OptElapsedTime(0))
	return m.ToBytes()
}

func (v6) toServer(m *dhcpv6.Message, l *Lease) {
	m.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: l.from.id})
}

func (v v6) message(t dhcpv6.MessageType, transaction uint32, l *Lease) *dhcpv6.Message {
	m := &dhcpv6.Message{MessageType: t, TransactionID: dhcpv6.TransactionID{byte(transaction >> 16), byte(transaction >> 8), byte(transaction)}}
	m.AddOption(dhcpv6.OptClientID(v.id.duid()))
	ia := &dhcpv6.OptIANA{IaId: v.id.iaid()}
	switch {
	case l != nil:
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: l.Addr.AsSlice()})
	case v.id.Requested.Is6():
		ia.Options.Add(&dhcpv6.OptIAAddress{IPv6Addr: v.id.Requested.AsSlice()})
	}
	m.AddOption(ia)
	if v.id.Hostname != "" {
		dhcpv6.WithFQDN(0, v.id.Hostname)(m)
	}
	return m
}

func (v v6) parse(p phase, transaction uint32, h Heard) (answer, bool) {
	m, err := dhcpv6.MessageFromBytes(h.Message)
	if err != nil {
		return answer{}, false
	}
	x := m.TransactionID
	client := m.Options.ClientID()
	if uint32(x[0])<<16|uint32(x[1])<<8|uint32(x[2]) != transaction || client == nil || !client.Equal(v.id.duid()) {
		return answer{}, false
	}
	var a answer
	switch t := m.MessageType; {
	case t == dhcpv6.MessageTypeAdvertise && p == discover:
		a.kind = offer
	case t == dhcpv6.MessageTypeReply && p != discover:
		a.kind = ack
	default:
		return answer{}, false
	}
	for _, o := range m.Options.Options {
		if o.Code() == dhcpv6.OptionServerID {
			a.from.id = bytes.Clone(o.ToBytes())
		}
	}
	if len(a.from.id) == 0 {
		return answer{kind: useless, why: "the server does not say who it is"}, true
	}
	a.name = hex.EncodeToString(a.from.id)
	refused := func(s *dhcpv6.OptStatusCode) bool { return s != nil && s.StatusCode != iana.StatusSuccess }
	ia := m.Options.OneIANA()
	if refused(m.Options.Status()) || ia == nil || ia.IaId != v.id.iaid() || refused(ia.Options.Status()) {
		return none(a, p)
	}
	given := ia.Options.OneAddress()
	if given == nil || given.ValidLifetime == 0 {
		return none(a, p)
	}
	var ok bool
	if a.addr, ok = address(given.IPv6Addr); !ok || !a.addr.Is6() {
		return answer{kind: useless, why: "there is no address"}, true
	}
	a.life, a.t1, a.t2 = given.ValidLifetime, ia.T1, ia.T2
	if given.PreferredLifetime > 0 && a.t1 == 0 { // RFC 8415 §14.2
		a.t1, a.t2 = given.PreferredLifetime/2, given.PreferredLifetime*4/5
	}
	return judged(a), true
}

// none says that the server has no address for us. An advertisement of that may be
// followed by another server's.
func none(a answer, p phase) (answer, bool) {
	if a.kind = nak; p == discover {
		a.kind = useless
	}
	return a, true
}
