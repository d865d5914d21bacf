package nft

import (
	"net"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"fairlead.io/internal/lb"
)

var (
	carryTable  = &nftables.Table{Name: CarriedName, Family: nftables.TableFamilyNetdev}
	settleTable = &nftables.Table{Name: CarriedName, Family: nftables.TableFamilyINet}
)

const (
	counterName = "packets"
	// datagramTime is how long the kernel knows that the first fragment of a datagram was
	// carried, and datagramLimit of how many.
	datagramTime  = 2 * time.Second
	datagramLimit = 1 << 12
)

var (
	// beforeOthers: before whatever else looks at packets as they come in.
	beforeOthers = nftables.ChainPriorityRef(-300)
	// beforeGuard: after connection tracking, before the chain of our other table that refuses.
	beforeGuard = nftables.ChainPriorityRef(-160)
)

func addrType(f lb.Family) nftables.SetDatatype {
	if f == lb.IPv4 {
		return nftables.TypeIPAddr
	}
	return nftables.TypeIP6Addr
}

// Sets. The library counts IDs in a variable of its own without a lock, so we give ours, and
// find sets by their names.

// nodesSet has the hardware addresses of nodes.
func nodesSet() *nftables.Set {
	return &nftables.Set{Table: carryTable, Name: "nodes", ID: 1, KeyType: nftables.TypeEtherAddr, KeyByteOrder: binaryutil.BigEndian}
}

// movedSet has the addresses that connections are carried for: other packets are not looked at
// any further.
func movedSet(f lb.Family) *nftables.Set {
	return &nftables.Set{Table: carryTable, Name: "moved" + version(f), ID: 1, KeyType: addrType(f), KeyByteOrder: binaryutil.BigEndian,
		HasTimeout: true, Timeout: CarryTime}
}

// tuples has the connections whose packets arrive on an interface, and where they go.
func tuples(f lb.Family, iface string) *nftables.Set {
	a := addrType(f)
	return &nftables.Set{Table: carryTable, Name: carrySetName(kindTuples, f, iface), ID: 1, KeyByteOrder: binaryutil.BigEndian, Concatenation: true,
		KeyType: nftables.MustConcatSetType(nftables.TypeInetProto, a, nftables.TypeInetService, a, nftables.TypeInetService),
		IsMap:   true, DataType: a, HasTimeout: true, Timeout: CarryTime}
}

// pairs has who has such a connection to what, and where its packets go. It is for fragments,
// which have no ports.
func pairs(f lb.Family, iface string) *nftables.Set {
	a := addrType(f)
	return &nftables.Set{Table: carryTable, Name: carrySetName(kindPairs, f, iface), ID: 1, KeyByteOrder: binaryutil.BigEndian, Concatenation: true,
		KeyType: nftables.MustConcatSetType(a, a), IsMap: true, DataType: a, HasTimeout: true, Timeout: CarryTime}
}

// datagrams has those whose first fragment was carried.
func datagrams(f lb.Family, iface string) *nftables.Set {
	a := addrType(f)
	// Their numbers have no type with a name: these have the right size.
	key := nftables.MustConcatSetType(a, a, nftables.TypeInetService, nftables.TypeInetProto)
	if f == lb.IPv6 {
		key = nftables.MustConcatSetType(a, a, nftables.TypeMark)
	}
	return &nftables.Set{Table: carryTable, Name: "datagrams" + version(f) + "-" + iface, ID: 1, KeyByteOrder: binaryutil.BigEndian, Concatenation: true,
		KeyType: key, HasTimeout: true, Timeout: datagramTime, Dynamic: true, Size: datagramLimit}
}

// settling has the addresses that Settle was called for.
func settling(f lb.Family) *nftables.Set {
	return &nftables.Set{Table: settleTable, Name: "settling" + version(f), ID: 1, KeyType: addrType(f), KeyByteOrder: binaryutil.BigEndian,
		HasTimeout: true, Timeout: SettleTime}
}

// carryChain is a chain, each rule of which may end in sending the packet on.
type carryChain struct {
	nftables.Chain
	rules []carryRule
}

type carryRule struct {
	exprs []expr.Any
	to    *forwardTo
}

// forwardTo sends the packet to a neighbour, with its hop limit lowered, and ends its way
// here. The library has no expression for it.
type forwardTo struct {
	family        lb.Family
	device, neigh uint32 // registers
}

const (
	// Registers. Where a packet goes to is in front of the key that it is looked up by.
	regDevice = unix.NFT_REG32_00
	regTuple  = unix.NFT_REG32_04
)

// carryChains are the chains of an interface; index is its number.
func carryChains(i CarryInterface, index uint32) []carryChain {
	var all []carryChain
	for _, f := range lb.Families {
		all = append(all, carryChain{nftables.Chain{Table: carryTable, Name: "carry" + version(f) + "-" + i.Name}, carryRules(f, i.Name, index)})
	}
	if len(i.Ports) == 0 {
		return append(all, ingress(i.Name, i.Name, rule(meta(expr.MetaKeyPKTTYPE, regKey), equals(unix.PACKET_HOST))))
	}
	for _, port := range i.Ports {
		all = append(all, ingress(port, i.Name, rule(
			payload(expr.PayloadBaseLLHeader, 0, 6, regKey),
			one(&expr.Cmp{Op: expr.CmpOpEq, Register: regKey, Data: i.MAC}))))
	}
	return all
}

// ingress is the chain of a device: what comes in for iface, as ours says, to a moved address,
// not from a node. What has a VLAN tag is not for iface: there, another type is in the place
// of the protocol's.
func ingress(device, iface string, ours []expr.Any) carryChain {
	c := carryChain{Chain: base(carryTable, "ingress-"+device, nftables.ChainHookIngress, beforeOthers, nil).Chain}
	c.Device = device
	for _, f := range lb.Families {
		c.rules = append(c.rules, carryRule{exprs: rule(
			ethernet(),
			payload(expr.PayloadBaseLLHeader, 12, 2, regKey), one(&expr.Cmp{Op: expr.CmpOpEq, Register: regKey, Data: etherType(f)}),
			destination(f, regKey), one(&expr.Lookup{SourceRegister: regKey, SetName: movedSet(f).Name}),
			ours,
			payload(expr.PayloadBaseLLHeader, 6, 6, regKey), one(&expr.Lookup{SourceRegister: regKey, SetName: nodesSet().Name, Invert: true}),
			goTo("carry"+version(f)+"-"+iface))})
	}
	return c
}

// ethernet matches what comes by an interface with Ethernet's headers.
func ethernet() []expr.Any {
	return rule(meta(expr.MetaKeyIIFTYPE, regKey), one(&expr.Cmp{Op: expr.CmpOpEq, Register: regKey, Data: binaryutil.NativeEndian.PutUint16(unix.ARPHRD_ETHER)}))
}

// carryRules send packets of one family on: those of a connection, by its ports; further
// fragments, if the first one was; ICMP errors, by the packet they are about, which came from
// the Service. A fragment that overtakes the first one is not carried. Fragments of a client
// that has connections to one address on several nodes all go to the same node.
func carryRules(f lb.Family, iface string, index uint32) []carryRule {
	device := one(&expr.Immediate{Register: regDevice, Data: binaryutil.NativeEndian.PutUint32(index)})
	lookup := func(s *nftables.Set) []expr.Any {
		return one(&expr.Lookup{SourceRegister: regTuple, DestRegister: regTuple, IsDestRegSet: true, SetName: s.Name})
	}
	counted := one(&expr.Objref{Type: int(nftables.ObjTypeCounter), Name: counterName})
	to := &forwardTo{family: f, device: regDevice, neigh: regTuple}
	connections, whole := tuples(f, iface), datagrams(f, iface)
	return []carryRule{
		{exprs: rule(family(f), firstFragment(f), tupleFrom(f), lookup(connections),
			one(&expr.Cmp{Op: expr.CmpOpNeq, Register: regTuple, Data: make([]byte, addrLen(f))}), // always, but nft then shows the map
			datagramKey(f), one(&expr.Dynset{SrcRegKey: regTuple, SetName: whole.Name, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: datagramTime}))},
		{exprs: rule(family(f), device, tupleFrom(f), lookup(connections), counted), to: to},
		{exprs: rule(family(f), furtherFragment(f), datagramKey(f), one(&expr.Lookup{SourceRegister: regTuple, SetName: whole.Name}),
			device, pairFrom(f), lookup(pairs(f, iface)), counted), to: to},
		{exprs: rule(family(f), icmpError(f), device, tupleInError(f), lookup(connections), counted), to: to},
	}
}

// family is always so in the chain, but nft then shows the names of fields.
func family(f lb.Family) []expr.Any {
	return rule(meta(expr.MetaKeyPROTOCOL, regKey), one(&expr.Cmp{Op: expr.CmpOpEq, Register: regKey, Data: etherType(f)}))
}

func etherType(f lb.Family) []byte {
	if f == lb.IPv4 {
		return []byte{0x08, 0x00}
	}
	return []byte{0x86, 0xdd}
}

// fields loads a key, one field after the other.
func fields(all ...carryField) []expr.Any {
	var out []expr.Any
	reg := uint32(regTuple)
	for _, field := range all {
		out = append(out, field.load(reg)...)
		reg += (field.size + 3) / 4
	}
	return out
}

type carryField struct {
	size uint32
	load func(reg uint32) []expr.Any
}

func at(base expr.PayloadBase, offset, size uint32) carryField {
	return carryField{size, func(reg uint32) []expr.Any { return payload(base, offset, size, reg) }}
}

// Where addresses are in a header: the source, behind which the destination is.
func sourceOffset(f lb.Family) uint32 {
	if f == lb.IPv4 {
		return 12
	}
	return 8
}

func tupleFrom(f lb.Family) []expr.Any {
	from, size := sourceOffset(f), addrLen(f)
	return fields(carryField{1, l4proto},
		at(expr.PayloadBaseNetworkHeader, from, size), at(expr.PayloadBaseTransportHeader, 0, 2),
		at(expr.PayloadBaseNetworkHeader, from+size, size), at(expr.PayloadBaseTransportHeader, 2, 2))
}

// tupleInError is the connection that an ICMP error is about: the start of a packet from the
// Service to the client is behind the eight bytes of the error. An IPv4 header with options,
// or an IPv6 one with extensions, is not understood.
func tupleInError(f lb.Family) []expr.Any {
	const inner = 8
	from, size := inner+sourceOffset(f), addrLen(f)
	protocol, ports := uint32(inner+9), uint32(inner+20)
	if f == lb.IPv6 {
		protocol, ports = inner+6, inner+40
	}
	th := expr.PayloadBaseTransportHeader
	return fields(at(th, protocol, 1), at(th, from+size, size), at(th, ports+2, 2), at(th, from, size), at(th, ports, 2))
}

// icmpError matches errors: those of ICMPv6 have types below 128, those of ICMP are from 3 to
// 12, and the echo request is the only other one there. The packet inside has no options.
func icmpError(f lb.Family) []expr.Any {
	kind := payload(expr.PayloadBaseTransportHeader, 0, 1, regKey)
	compare := func(op expr.CmpOp, b byte) []expr.Any {
		return one(&expr.Cmp{Op: op, Register: regKey, Data: []byte{b}})
	}
	if f == lb.IPv6 {
		return rule(protocol(unix.IPPROTO_ICMPV6), kind, compare(expr.CmpOpLt, 128))
	}
	return rule(protocol(unix.IPPROTO_ICMP), kind, compare(expr.CmpOpGte, 3), compare(expr.CmpOpLte, 12), compare(expr.CmpOpNeq, 8),
		payload(expr.PayloadBaseTransportHeader, 8, 1, regKey), equals(0x45))
}

// fragmentField loads what a header says about fragments: flags and the offset.
func fragmentField(f lb.Family) []expr.Any {
	if f == lb.IPv4 {
		return payload(expr.PayloadBaseNetworkHeader, 6, 2, regKey)
	}
	return one(&expr.Exthdr{DestRegister: regKey, Type: unix.IPPROTO_FRAGMENT, Offset: 2, Len: 2, Op: expr.ExthdrOpIpv6})
}

func masked(mask, xor []byte) []expr.Any {
	return one(&expr.Bitwise{SourceRegister: regKey, DestRegister: regKey, Len: uint32(len(mask)), Mask: mask, Xor: xor})
}

// firstFragment: more are to come, and the offset is 0.
func firstFragment(f lb.Family) []expr.Any {
	mask, more := []byte{0x3f, 0xff}, []byte{0x20, 0}
	if f == lb.IPv6 {
		mask, more = []byte{0xff, 0xf9}, []byte{0, 1}
	}
	return rule(fragmentField(f), masked(mask, []byte{0, 0}), one(&expr.Cmp{Op: expr.CmpOpEq, Register: regKey, Data: more}))
}

func furtherFragment(f lb.Family) []expr.Any {
	mask := []byte{0x1f, 0xff}
	if f == lb.IPv6 {
		mask = []byte{0xff, 0xf8}
	}
	return rule(fragmentField(f), masked(mask, []byte{0, 0}), one(&expr.Cmp{Op: expr.CmpOpNeq, Register: regKey, Data: []byte{0, 0}}))
}

// pairFrom is who sends a packet, and to which address.
func pairFrom(f lb.Family) []expr.Any {
	from, size := sourceOffset(f), addrLen(f)
	return fields(at(expr.PayloadBaseNetworkHeader, from, size), at(expr.PayloadBaseNetworkHeader, from+size, size))
}

// datagramKey is what fragments are put together by.
func datagramKey(f lb.Family) []expr.Any {
	from, size := sourceOffset(f), addrLen(f)
	source, destination := at(expr.PayloadBaseNetworkHeader, from, size), at(expr.PayloadBaseNetworkHeader, from+size, size)
	if f == lb.IPv4 {
		return fields(source, destination, at(expr.PayloadBaseNetworkHeader, 4, 2), at(expr.PayloadBaseNetworkHeader, 9, 1))
	}
	return fields(source, destination, carryField{4, func(reg uint32) []expr.Any {
		return one(&expr.Exthdr{DestRegister: reg, Type: unix.IPPROTO_FRAGMENT, Offset: 4, Len: 4, Op: expr.ExthdrOpIpv6})
	}})
}

// settleChain drops packets to a settling address in the middle of TCP connections that
// this node does not know: connection tracking takes them for new ones, or says that they are not
// valid.
func settleChain() chain {
	var rules [][]expr.Any
	for _, f := range lb.Families {
		rules = append(rules, rule(nfproto(f), destination(f, regKey), one(&expr.Lookup{SourceRegister: regKey, SetName: settling(f).Name}),
			protocol(unix.IPPROTO_TCP),
			payload(expr.PayloadBaseTransportHeader, 13, 1, regKey), masked([]byte{tcpSYN}, []byte{0}), equals(0),
			ctState(expr.CtStateBitNEW|expr.CtStateBitINVALID), counter(), drop()))
	}
	return base(settleTable, "prerouting", nftables.ChainHookPrerouting, beforeGuard, rules)
}

// Flags in a TCP header.
const (
	tcpFIN = 1 << iota
	tcpSYN
	tcpRST
	_
	tcpACK
)

// macs are keys of the set of nodes.
func macs(nodes []net.HardwareAddr) []nftables.SetElement {
	var out []nftables.SetElement
	for _, m := range nodes {
		if len(m) == 6 {
			out = append(out, nftables.SetElement{Key: m})
		}
	}
	return out
}
