package lb

import (
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// Peer is a router to which nodes announce addresses by BGP.
type Peer struct {
	// Name by which Routes select it.
	Name    string
	Created time.Time // of two peers that are one session, the younger one is refused
	// NamedOnly: only routes that name the peer use it.
	NamedOnly bool
	// NodeSelectors, any of which must match a node that has the session; if empty, all do.
	NodeSelectors []labels.Selector

	// Address of the router, or Interface on which it makes itself known (unnumbered).
	Address   netip.Addr
	Interface string
	Port      uint16
	// Source is the address to connect from, SourceInterface the interface that has it; if
	// neither is set, the kernel chooses.
	Source          netip.Addr
	SourceInterface string
	VRF             string
	Password        string
	// Waiting is why nobody connects yet, although nothing is wrong: the password was not read. A
	// session that an earlier agent has left waits as well.
	Waiting string

	// LocalAS is what the router sees of us.
	LocalAS uint32
	PeerAS  uint32
	ASRule  ASRule
	// RouterID is ours, or that of RouterIDInterface; if neither is set, the node's.
	RouterID          netip.Addr
	RouterIDInterface string

	// Hold is 0 if there are no keepalives. ConnectTime is the longest pause between two
	// attempts, 0 if nobody has chosen it.
	Hold, Keepalive, ConnectTime time.Duration

	// DualStack: both families are announced, not only that of the session. NextHops are for
	// those that have a fixed one.
	DualStack       bool
	NextHops        [len(Families)]netip.Addr
	GracefulRestart bool
	// Multihop: the router is not on a network of the node.
	Multihop    bool
	MaxPrefixes int // of each family; 0 is no limit
	BFD         *BFD
}

// ASRule says which AS a router may have.
type ASRule uint8

// Rules.
const (
	ExactAS    ASRule = iota // PeerAS
	InternalAS               // LocalAS
	ExternalAS               // any but LocalAS
)

// BFD is how a failed path to a peer is detected.
type BFD struct {
	Transmit, Receive time.Duration
	Multiplier        uint8
	Passive           bool  // silent until the router has spoken
	MinTTL            uint8 // of packets over several hops
}

// DetectsTooFast says whether intervals are shorter than a busy node can keep up with.
func (b *BFD) DetectsTooFast() bool { return min(b.Transmit, b.Receive) < 50*time.Millisecond }

// On says whether nodes with these labels have the session.
func (p *Peer) On(node labels.Set) bool { return allOrAny(p.NodeSelectors, node) }

// SameSession says whether two peers would be one session of a node: the same router, seen
// from the same address.
func (p *Peer) SameSession(q *Peer) bool {
	return p.Address == q.Address && p.Interface == q.Interface && p.Port == q.Port && p.Source == q.Source && p.SourceInterface == q.SourceInterface && p.VRF == q.VRF
}

// SameRouter says whether two peers lead to one router, perhaps from different nodes. An address
// tells routers apart; without one, the name does.
func (p *Peer) SameRouter(q *Peer) bool {
	return p.Name == q.Name || p.Address.IsValid() && p.Address == q.Address && p.Port == q.Port && p.VRF == q.VRF
}

// allOrAny says whether there is no selector, or one that matches.
func allOrAny(selectors []labels.Selector, l labels.Set) bool {
	return len(selectors) == 0 || matchesAny(selectors, l)
}
