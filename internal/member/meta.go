package member

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Meta is what all agents must know of a node to elect the same owners. Keep it
// below a kilobyte (some thirty links): what does not fit into one packet is
// split by the network, and arrives with the next full exchange at the latest.
type Meta struct {
	// Eligible: the node forwards (kube-proxy answers), so it may own addresses.
	Eligible bool
	// LastResort: the node is not Eligible, but may own what no eligible node can:
	// kube-proxy was healthy there, and its rules still forward.
	LastResort bool
	// Leaving: the node is being drained, or its agent ends for good; whoever
	// can should take its addresses.
	Leaving bool
	// Links are the interfaces that are up.
	Links []Link
	// MACs are all hardware addresses of the node: frames from them are no
	// stranger's.
	MACs []net.HardwareAddr
	// Silences say why the node cannot answer on interfaces that are up.
	Silences []Silence
}

// Link is an interface that is up, with the families of which it carries any
// address: it has one of its own (of global scope), and is not excluded.
type Link struct {
	Name   string
	V4, V6 bool
	// NamedV6: it carries IPv6 addresses of advertisements that name it. It carries
	// IPv4 addresses of those, unless NoV4.
	NamedV6, NoV4 bool
}

// Silence is why the kernel of a node does not answer for addresses of a family on an
// interface.
type Silence struct {
	Link string
	V6   bool
	Why  string
}

func (m Meta) equal(o Meta) bool {
	return m.Eligible == o.Eligible && m.LastResort == o.LastResort && m.Leaving == o.Leaving &&
		slices.Equal(m.Links, o.Links) && slices.Equal(m.Silences, o.Silences) &&
		slices.EqualFunc(m.MACs, o.MACs, func(a, b net.HardwareAddr) bool { return slices.Equal(a, b) })
}

// clone makes a copy that shares nothing, in an order that does not depend on
// that in which a kernel listed its links.
func (m Meta) clone() Meta {
	m.Links = slices.Clone(m.Links)
	slices.SortFunc(m.Links, func(a, b Link) int { return strings.Compare(a.Name, b.Name) })
	macs := make([]net.HardwareAddr, 0, len(m.MACs))
	for _, mac := range m.MACs {
		macs = append(macs, slices.Clone(mac))
	}
	slices.SortFunc(macs, func(a, b net.HardwareAddr) int { return slices.Compare(a, b) })
	m.MACs = macs
	m.Silences = slices.Clone(m.Silences)
	slices.SortStableFunc(m.Silences, func(a, b Silence) int { return strings.Compare(a.Link, b.Link) })
	return m
}

// Link returns the link of that name, if it is up.
func (m Meta) Link(name string) (Link, bool) {
	for _, l := range m.Links {
		if l.Name == name {
			return l, true
		}
	}
	return Link{}, false
}

// Member is a node whose agent is alive.
type Member struct {
	Name string
	Addr netip.AddrPort
	// Meta is zero, so not eligible, for the moment between the news that a
	// member is there and its own first word.
	Meta Meta
}

// Claim is what a node says about an address or a lease that it owns or is about
// to own.
type Claim struct {
	Key   Key
	Node  string
	Epoch uint64 // the higher one wins; what to do about equal ones is the caller's affair
	Up    bool   // the node answers for the address now
	// Refused: the kernel of the node does not take the address. A member of an
	// earlier version sees a claim that is not up.
	Refused bool
	// Standing is what the claim is worth; it is not sent.
	Standing Standing
}

// Standing tells claims of live members from earlier ones.
type Standing uint8

const (
	// Held: the node is a member, and the process there claims the address.
	Held Standing = iota
	// Inherited: the process that claimed the address was followed by another one
	// on the same node, without the node having been dead, and the new one has
	// not sent its claims yet. Its kernel goes on answering for the length of a
	// fence, and such claims stand for two (see inheritance). The new process itself
	// finds them under its own name after its first exchange, and can take them up.
	Inherited
	// Orphaned: the node is dead or has left. It was the last owner.
	Orphaned
)

func (s Standing) String() string {
	switch s {
	case Inherited:
		return "inherited"
	case Orphaned:
		return "orphaned"
	default:
		return "held"
	}
}
