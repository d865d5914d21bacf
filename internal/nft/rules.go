package nft

import (
	"time"

	"fairlead.io/internal/lb"
	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Name of our tables.
const Name = "fairlead"

// FenceTime is how long the kernel answers on an interface after its fence was
// last renewed.
const FenceTime = time.Second

var (
	arpTable  = &nftables.Table{Name: Name, Family: nftables.TableFamilyARP}
	inetTable = &nftables.Table{Name: Name, Family: nftables.TableFamilyINet}
	tables    = []*nftables.Table{arpTable, inetTable}
)

type kind uint8

const (
	kindPublished kind = iota // all addresses of Services
	kindVIPs                  // those that an agent claims
	kindOwned
	kindPorts
	kindAlive
	kindSeen
	kindRouted // what routers lead here
)

// set is one of our sets. ARP is IPv4's, so what concerns only ARP is in the
// arp table; the filter and ND are in inet. Sets cannot be shared by tables.
type set struct {
	table  *nftables.Table
	name   string
	kind   kind
	family lb.Family
	id     uint32
}

var (
	arpPublished = &set{arpTable, "published", kindPublished, lb.IPv4, 1}
	arpOwned     = &set{arpTable, "owned", kindOwned, lb.IPv4, 2}
	arpAlive     = &set{arpTable, "alive", kindAlive, lb.IPv4, 3}

	vips      = [...]*set{{inetTable, "vips4", kindVIPs, lb.IPv4, 4}, {inetTable, "vips6", kindVIPs, lb.IPv6, 5}}
	ports     = [...]*set{{inetTable, "ports4", kindPorts, lb.IPv4, 6}, {inetTable, "ports6", kindPorts, lb.IPv6, 7}}
	inetOwned = &set{inetTable, "owned6", kindOwned, lb.IPv6, 8}
	inetAlive = &set{inetTable, "alive", kindAlive, lb.IPv6, 9}
	seen      = [...]*set{{inetTable, "seen4", kindSeen, lb.IPv4, 11}, {inetTable, "seen6", kindSeen, lb.IPv6, 12}}

	routed = [...]*set{{inetTable, "routed4", kindRouted, lb.IPv4, 13}, {inetTable, "routed6", kindRouted, lb.IPv6, 14}}

	inetPublished = &set{inetTable, "published6", kindPublished, lb.IPv6, 10}

	alive = []*set{arpAlive, inetAlive}
	// Elements are written in this order: fences last, as they start to run out
	// when they are written.
	sets = []*set{arpPublished, arpOwned, inetPublished, vips[0], vips[1], ports[0], ports[1], seen[0], seen[1], routed[0], routed[1], inetOwned, arpAlive, inetAlive}
)

// nft returns s as the library has it. The library counts IDs in a variable of
// its own without a lock, so we give ours.
func (s *set) nft() *nftables.Set {
	addr := nftables.TypeIPAddr
	if s.family == lb.IPv6 {
		addr = nftables.TypeIP6Addr
	}
	n := &nftables.Set{Table: s.table, Name: s.name, ID: s.id, KeyByteOrder: binaryutil.BigEndian}
	switch s.kind {
	case kindPublished, kindVIPs:
		n.KeyType = addr
	case kindRouted:
		n.KeyType, n.Interval = addr, true
	case kindOwned:
		n.KeyType = nftables.MustConcatSetType(nftables.TypeIFName, addr)
		n.Concatenation = true
	case kindPorts, kindSeen:
		n.KeyType = nftables.MustConcatSetType(addr, nftables.TypeInetProto, nftables.TypeInetService)
		n.Concatenation, n.Counter = true, s.kind == kindSeen
	case kindAlive:
		n.KeyType = nftables.TypeIFName
		n.KeyByteOrder = binaryutil.NativeEndian
		n.HasTimeout = true
		n.Timeout = FenceTime
	}
	return n
}

// chain is one of our chains with its rules.
type chain struct {
	nftables.Chain
	rules [][]expr.Any
}

// Priorities. IPVS takes packets in input at 98 and 99, kube-proxy translates in
// prerouting at -100, conntrack knows a packet from -200 on.
var (
	beforeNAT = nftables.ChainPriorityRef(-150)
	afterIPVS = nftables.ChainPriorityRef(110)
)

// chains in the order in which they can be added: a chain comes after those it
// goes to.
func chains() []chain {
	return []chain{
		base(arpTable, "input", nftables.ChainHookRef(0), nftables.ChainPriorityFilter, arpInput()),
		base(arpTable, "output", nftables.ChainHookRef(1), nftables.ChainPriorityFilter, arpOutput()),
		{nftables.Chain{Table: inetTable, Name: "refuse"}, refuse()},
		{nftables.Chain{Table: inetTable, Name: "offered4"}, offered(lb.IPv4)},
		{nftables.Chain{Table: inetTable, Name: "offered6"}, offered(lb.IPv6)},
		base(inetTable, "prerouting", nftables.ChainHookPrerouting, beforeNAT, prerouting()),
		base(inetTable, "input", nftables.ChainHookInput, afterIPVS, input()),
		base(inetTable, "forward", nftables.ChainHookForward, afterIPVS, forward()),
		base(inetTable, "output", nftables.ChainHookOutput, nftables.ChainPriorityFilter, output()),
	}
}

func base(t *nftables.Table, name string, hook *nftables.ChainHook, prio *nftables.ChainPriority, rules [][]expr.Any) chain {
	accept := nftables.ChainPolicyAccept
	return chain{nftables.Chain{
		Table: t, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: prio, Policy: &accept,
	}, rules}
}

// arpInput drops requests for addresses that this node must not answer for. It
// lets announcements through: they come from an announced address, correct our
// neighbour table, and what the kernel may answer meets arpOutput.
func arpInput() [][]expr.Any {
	return [][]expr.Any{
		rule(arpSender(regAddr), in(arpPublished, regAddr), accept()),
		rule(arpTarget(regAddr), notIn(arpPublished, regAddr), accept()),
		rule(arpTarget(regAddr), iifname(), in(arpAlive, regName), in(arpOwned, regName), accept()),
		rule(counter(), drop()),
	}
}

// arpOutput is the fence for IPv4: whatever the kernel says about a VIP has it
// as sender address, be it a reply or a request on behalf of a connection. Such
// a request must not teach anybody either, but is needed: answers to clients may
// leave by another interface than the one that is announced on. It is asked
// without a name then, as by one who has no address yet (RFC 5227 §2.1.1).
func arpOutput() [][]expr.Any {
	return [][]expr.Any{
		rule(arpSender(regAddr), notIn(arpPublished, regAddr), accept()),
		rule(arpSender(regAddr), oifname(), in(arpAlive, regName), in(arpOwned, regName), accept()),
		rule(arpRequest(), setARPSender([]byte{0, 0, 0, 0}), accept()),
		rule(counter(), drop()),
	}
}

// prerouting sends packets to a VIP that an agent claims where ports are looked at.
// It comes before kube-proxy's translation, which would let packets to NodePorts
// through.
func prerouting() [][]expr.Any {
	var rules [][]expr.Any
	for _, f := range lb.Families {
		rules = append(rules, rule(nfproto(f), destination(f, regKey), in(vips[f], regKey), goTo("offered"+version(f))))
	}
	return rules
}

// offered lets packets to Service ports through to kube-proxy. First it counts those
// that come from outside, which is by an interface that carries addresses: each element
// of seen has a counter, and to find it is to count.
func offered(f lb.Family) [][]expr.Any {
	// All three protocols have the destination port in the same place.
	after := reg32(addrLen(f) / 4)
	key := rule(destination(f, regKey), l4proto(after), payload(expr.PayloadBaseTransportHeader, 2, 2, after+1))
	return [][]expr.Any{
		rule(iifname(), in(inetAlive, regName), key, in(seen[f], regKey)),
		rule(key, in(ports[f], regKey), accept()),
		rule(goTo("refuse")),
	}
}

// input keeps out what nobody has translated or taken: a VIP is no address of the
// node's own services. First it is the fence for IPv6: neighbour solicitations
// are let in only where the node is to answer.
func input() [][]expr.Any {
	rules := [][]expr.Any{
		rule(icmp6(ndSolicit), ndTarget(regAddr), in(inetPublished, regAddr), iifname(), in(inetAlive, regName),
			in(inetOwned, regName), accept()),
		rule(icmp6(ndSolicit), ndTarget(regAddr), in(inetPublished, regAddr), counter(), drop()),
	}
	for _, f := range lb.Families {
		rules = append(rules, untranslated(f)...)
		rules = append(rules, rule(nfproto(f), destination(f, regKey), in(vips[f], regKey), goTo("refuse")))
	}
	return rules
}

// untranslated drops what would begin a connection to a Service's port for which kube-proxy
// has no rule yet. The client sends it again, and most often kube-proxy has one then. A node that
// does not have the address would forward it, and the kernel would remember the connection as one
// without translation, for two minutes: it would not translate a later one from the same port of
// the client.
func untranslated(f lb.Family) (rules [][]expr.Any) {
	to := rule(nfproto(f), destination(f, regKey), in(vips[f], regKey), ctState(expr.CtStateBitNEW))
	const flags = tcpFIN | tcpSYN | tcpRST | tcpACK
	first := rule(payload(expr.PayloadBaseTransportHeader, 13, 1, regKey), masked([]byte{flags}, []byte{0}), equals(tcpSYN))
	return [][]expr.Any{
		rule(to, protocol(unix.IPPROTO_TCP), first, counter(), drop()),
		rule(to, protocol(unix.IPPROTO_UDP), counter(), drop()),
		rule(to, protocol(unix.IPPROTO_SCTP), counter(), drop()),
	}
}

// output completes the fence for IPv6: neither an advertisement of a VIP nor a
// solicitation sent from one, which neighbours learn from just as well.
func output() [][]expr.Any {
	var rules [][]expr.Any
	for _, about := range []struct {
		icmp byte
		addr []expr.Any
	}{{ndAdvert, ndTarget(regAddr)}, {ndSolicit, source6(regAddr)}} {
		rules = append(rules,
			rule(icmp6(about.icmp), about.addr, in(inetPublished, regAddr), oifname(), in(inetAlive, regName),
				in(inetOwned, regName), accept()),
			rule(icmp6(about.icmp), about.addr, in(inetPublished, regAddr), counter(), drop()))
	}
	return rules
}

// refuse is for packets to a VIP that no Service wants. Established connections
// are let through: a client on this very node has the VIP as its own source
// address if the node owns it, so answers come back to an ephemeral port of it.
// ICMP is let through for echo, ND and path MTU.
func refuse() [][]expr.Any {
	return [][]expr.Any{
		rule(ctState(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED), accept()),
		rule(protocol(unix.IPPROTO_ICMP), accept()),
		rule(protocol(unix.IPPROTO_ICMPV6), accept()),
		rule(protocol(unix.IPPROTO_TCP), counter(), reject(unix.NFT_REJECT_TCP_RST, 0)),
		rule(counter(), reject(unix.NFT_REJECT_ICMPX_UNREACH, unix.NFT_REJECT_ICMPX_PORT_UNREACH)),
	}
}
