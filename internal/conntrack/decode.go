package conntrack

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Messages and attributes of ctnetlink (linux/netfilter/nfnetlink_conntrack.h).
const (
	msgNew    = 0
	msgGet    = 1
	msgDelete = 2

	attrTupleOrig  = 1
	attrTupleReply = 2
	attrStatus     = 3
	attrProtoInfo  = 4
	attrID         = 12
	attrZone       = 18

	tupleIP    = 1
	tupleProto = 2
	tupleZone  = 3

	ipSource4      = 1
	ipDestination4 = 2
	ipSource6      = 3
	ipDestination6 = 4

	protoNumber          = 1
	protoSourcePort      = 2
	protoDestinationPort = 3

	protoInfoTCP = 1
	tcpState     = 1
)

// seenReply is the bit of a status that says that packets have gone both ways
// (linux/netfilter/nf_conntrack_common.h).
const seenReply = 1 << 1

// States of TCP (linux/netfilter/nf_conntrack_tcp.h).
const (
	tcpUnknown     = 0 // not in the message
	tcpOpening     = 2 // SYN_RECV: answered, but not acknowledged by the client
	tcpEstablished = 3
	tcpLastAck     = 6 // FIN_WAIT and CLOSE_WAIT are before it
	tcpTimeWait    = 7
	tcpClose       = 8
)

// genericHeader is what netfilter's messages start with: family, version, resource.
const genericHeader = 4

// entry is what a message says about a connection.
type entry struct {
	Conn
	gone      bool // removed from the table
	status    uint32
	hasStatus bool
	tcp       uint8
}

// goesOn says whether there will be packets of the connection.
func (e entry) goesOn() bool {
	if e.gone || e.status&seenReply == 0 {
		return false
	}
	return e.Protocol == unix.IPPROTO_UDP || e.opening() || e.tcp >= tcpEstablished && e.tcp <= tcpLastAck
}

// opening says whether only the client's acknowledgement is missing.
func (e entry) opening() bool {
	return !e.gone && e.status&seenReply != 0 && e.Protocol == unix.IPPROTO_TCP && e.tcp == tcpOpening
}

// ended says whether a connection that went on does not any more.
func (e entry) ended() bool {
	if e.hasStatus && e.status&seenReply == 0 {
		return false // it never did
	}
	return e.gone || e.Protocol == unix.IPPROTO_TCP && (e.tcp == tcpTimeWait || e.tcp == tcpClose)
}

// decode reads a message, if it is of a connection of TCP or UDP to an address for which of
// is true, in the default zone.
func decode(kind uint16, data []byte, of func(netip.Addr) bool) (entry, bool) {
	var e entry
	if kind>>8 != unix.NFNL_SUBSYS_CTNETLINK || len(data) < genericHeader {
		return e, false
	}
	switch kind & 0xff {
	case msgNew:
	case msgDelete:
		e.gone = true
	default:
		return e, false
	}
	for kind, value := range attributes(data[genericHeader:]) {
		switch kind {
		case attrTupleOrig:
			if !e.tuple(value) || !of(e.Service.Addr()) {
				return e, false
			}
		case attrStatus:
			if len(value) == 4 {
				e.status, e.hasStatus = binary.BigEndian.Uint32(value), true
			}
		case attrProtoInfo:
			for kind, value := range attributes(value) {
				if kind == protoInfoTCP {
					e.tcp = stateOf(value)
				}
			}
		case attrZone:
			if !isZero(value) {
				return e, false
			}
		}
	}
	return e, e.Client.IsValid() && e.Service.IsValid()
}

func stateOf(tcp []byte) uint8 {
	for kind, value := range attributes(tcp) {
		if kind == tcpState && len(value) == 1 {
			return value[0]
		}
	}
	return tcpUnknown
}

// tuple reads both ends and the protocol. It says whether there are such, of TCP or UDP.
func (e *entry) tuple(b []byte) bool {
	var ends [2]struct { // source and destination
		addr netip.Addr
		port uint16
	}
	for kind, value := range attributes(b) {
		switch kind {
		case tupleIP:
			for kind, value := range attributes(value) {
				switch {
				case (kind == ipSource4 || kind == ipDestination4) && len(value) == 4:
					ends[kind-ipSource4].addr = netip.AddrFrom4([4]byte(value))
				case (kind == ipSource6 || kind == ipDestination6) && len(value) == 16:
					ends[kind-ipSource6].addr = netip.AddrFrom16([16]byte(value))
				}
			}
		case tupleProto:
			for kind, value := range attributes(value) {
				switch {
				case kind == protoNumber && len(value) == 1:
					e.Protocol = value[0]
				case (kind == protoSourcePort || kind == protoDestinationPort) && len(value) == 2:
					ends[kind-protoSourcePort].port = binary.BigEndian.Uint16(value)
				}
			}
		case tupleZone:
			if !isZero(value) {
				return false
			}
		}
	}
	e.Client = netip.AddrPortFrom(ends[0].addr, ends[0].port)
	e.Service = netip.AddrPortFrom(ends[1].addr, ends[1].port)
	return ends[0].addr.IsValid() && ends[0].addr.BitLen() == ends[1].addr.BitLen() &&
		(e.Protocol == unix.IPPROTO_TCP || e.Protocol == unix.IPPROTO_UDP)
}

func isZero(b []byte) bool {
	for _, x := range b {
		if x != 0 {
			return false
		}
	}
	return true
}

// attributes are those of a netlink message: kind and value. It ends where there is no
// whole one any more.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	const header = unix.SizeofNlAttr
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= header {
			size := int(binary.NativeEndian.Uint16(b))
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if size < header || size > len(b) || !yield(kind, b[header:size]) {
				return
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}
