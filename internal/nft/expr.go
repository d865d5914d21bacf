package nft

import (
	"fairlead.io/internal/lb"
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers. A key that is a concatenation is in registers one after the other,
// so an interface's name (16 bytes) is in the first and an address in the second
// for (name, address), and the name alone is a key, too.
const (
	regKey  = unix.NFT_REG_1
	regName = unix.NFT_REG_1
	regAddr = unix.NFT_REG_2
)

// reg32 is the n-th register of four bytes; regKey is the same as reg32(0).
func reg32(n uint32) uint32 { return unix.NFT_REG32_00 + n }

// ICMPv6 types.
const (
	ndSolicit = 135
	ndAdvert  = 136
)

func rule(parts ...[]expr.Any) []expr.Any {
	var all []expr.Any
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func one(e expr.Any) []expr.Any { return []expr.Any{e} }

func version(f lb.Family) string {
	if f == lb.IPv4 {
		return "4"
	}
	return "6"
}

func addrLen(f lb.Family) uint32 {
	if f == lb.IPv4 {
		return 4
	}
	return 16
}

func payload(base expr.PayloadBase, offset, size, reg uint32) []expr.Any {
	return one(&expr.Payload{DestRegister: reg, Base: base, Offset: offset, Len: size})
}

// Sender and target protocol address in an ARP packet on Ethernet (RFC 826).
func arpSender(reg uint32) []expr.Any { return payload(expr.PayloadBaseNetworkHeader, 14, 4, reg) }
func arpTarget(reg uint32) []expr.Any { return payload(expr.PayloadBaseNetworkHeader, 24, 4, reg) }

// arpRequest matches requests.
func arpRequest() []expr.Any {
	return rule(payload(expr.PayloadBaseNetworkHeader, 6, 2, regKey), one(&expr.Cmp{Op: expr.CmpOpEq, Register: regKey, Data: []byte{0, 1}}))
}

// setARPSender replaces the sender's protocol address.
func setARPSender(addr []byte) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: regKey, Data: addr},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: regKey, Base: expr.PayloadBaseNetworkHeader, Offset: 14, Len: uint32(len(addr))},
	}
}

func destination(f lb.Family, reg uint32) []expr.Any {
	offset := uint32(16)
	if f == lb.IPv6 {
		offset = 24
	}
	return payload(expr.PayloadBaseNetworkHeader, offset, addrLen(f), reg)
}

func source6(reg uint32) []expr.Any { return payload(expr.PayloadBaseNetworkHeader, 8, 16, reg) }

// ndTarget is the target address in a solicitation or advertisement
// (RFC 4861 §4.3, §4.4: same place).
func ndTarget(reg uint32) []expr.Any { return payload(expr.PayloadBaseTransportHeader, 8, 16, reg) }

func meta(key expr.MetaKey, reg uint32) []expr.Any {
	return one(&expr.Meta{Key: key, Register: reg})
}

func iifname() []expr.Any             { return meta(expr.MetaKeyIIFNAME, regName) }
func oifname() []expr.Any             { return meta(expr.MetaKeyOIFNAME, regName) }
func l4proto(reg uint32) []expr.Any   { return meta(expr.MetaKeyL4PROTO, reg) }
func equals(b byte) []expr.Any        { return equalsIn(regKey, b) }
func protocol(number byte) []expr.Any { return rule(l4proto(regKey), equals(number)) }

func equalsIn(reg uint32, b byte) []expr.Any {
	return one(&expr.Cmp{Op: expr.CmpOpEq, Register: reg, Data: []byte{b}})
}

func nfproto(f lb.Family) []expr.Any {
	number := byte(unix.NFPROTO_IPV4)
	if f == lb.IPv6 {
		number = unix.NFPROTO_IPV6
	}
	return rule(meta(expr.MetaKeyNFPROTO, regKey), equals(number))
}

func icmp6(kind byte) []expr.Any {
	return rule(nfproto(lb.IPv6), protocol(unix.IPPROTO_ICMPV6),
		payload(expr.PayloadBaseTransportHeader, 0, 1, regKey), equals(kind))
}

func in(s *set, reg uint32) []expr.Any {
	return one(&expr.Lookup{SourceRegister: reg, SetName: s.name, SetID: s.id})
}

func notIn(s *set, reg uint32) []expr.Any {
	return one(&expr.Lookup{SourceRegister: reg, SetName: s.name, SetID: s.id, Invert: true})
}

// ctState matches if one of bits is set.
func ctState(bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: regKey},
		&expr.Bitwise{SourceRegister: regKey, DestRegister: regKey, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(bits), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: regKey, Data: make([]byte, 4)},
	}
}

func accept() []expr.Any  { return one(&expr.Verdict{Kind: expr.VerdictAccept}) }
func drop() []expr.Any    { return one(&expr.Verdict{Kind: expr.VerdictDrop}) }
func counter() []expr.Any { return one(&expr.Counter{}) }

func goTo(chain string) []expr.Any {
	return one(&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain})
}

func reject(kind uint32, code uint8) []expr.Any {
	return one(&expr.Reject{Type: kind, Code: code})
}

// keys of elements as the library has them.
func setElements(all []element) []nftables.SetElement {
	out := make([]nftables.SetElement, len(all))
	for i, e := range all {
		out[i].Key, out[i].IntervalEnd = []byte(e.key), e.end
	}
	return out
}
