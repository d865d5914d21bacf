package bgp

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"fairlead.io/internal/lb"
)

const (
	// DefaultPort is where routers listen.
	DefaultPort = 179
	// DefaultHold and DefaultKeepalive are for peers whose timers nobody has chosen.
	DefaultHold      = 90 * time.Second
	DefaultKeepalive = 30 * time.Second
	// MaxPassword is the longest key that the kernel takes, in bytes.
	MaxPassword = 80
	// restartTime is how long a router may keep our routes after the connection broke without
	// a NOTIFICATION. It bridges the restart of a crashed container, and no more.
	restartTime = 30 * time.Second
)

// ASRule says which AS a router may have.
type ASRule uint8

const (
	ExactAS    ASRule = iota // PeerAS
	InternalAS               // the same as ours
	ExternalAS               // any but ours
)

// Peer is one router: where it is and how to speak with it. Peers that are equal are the same
// session.
type Peer struct {
	// Address of the router; not valid if Interface is set. A link-local address has a zone.
	Address netip.Addr
	// Interface of an unnumbered session: the router's link-local address is learned from its
	// router advertisements. Both families are spoken, with extended next hops.
	Interface string
	// Port is 179 if it is 0.
	Port uint16
	// Source is the address to connect from. If the node does not have it, the kernel chooses,
	// and the Status says so.
	Source netip.Addr
	// VRF is the device to bind to, if any.
	VRF string
	// Password for TCP-MD5. It is never logged and never handed over.
	Password string `json:"-"`

	LocalAS uint32
	PeerAS  uint32
	ASRule  ASRule
	// RouterID of this node, an IPv4 address.
	RouterID netip.Addr

	// Hold time and keepalive interval. A hold time of 0 means no keepalives, in both
	// directions. A keepalive interval of 0 is a third of the hold time.
	Hold, Keepalive time.Duration
	// ConnectTime is the longest pause between two attempts to connect; 0 means no such limit.
	ConnectTime time.Duration

	// DualStack speaks both families, not only that of the addresses of the session.
	DualStack bool
	// NextHops are those of prefixes of each family, where they are fixed. If not, it is the
	// address of the session, or the first of the other family on its interface.
	NextHops [len(lb.Families)]netip.Addr
	// GracefulRestart asks the router to keep our routes while this process restarts.
	GracefulRestart bool
	// ExtendedNextHop offers IPv4 prefixes with IPv6 next hops (RFC 8950).
	ExtendedNextHop bool
	// MaxPrefixes is how many prefixes of each family are announced at most; 0 means no limit.
	MaxPrefixes int
}

// Check returns what is wrong with the peer.
func (p Peer) Check() error {
	switch {
	case p.LocalAS == 0:
		return errors.New("the local AS is missing")
	case p.ASRule == ExactAS && p.PeerAS == 0:
		return errors.New("the AS of the router is missing")
	case p.Address.IsValid() && p.Interface != "":
		return errors.New("a peer has either an address or an interface, not both")
	case !p.Address.IsValid() && p.Interface == "":
		return errors.New("a peer has an address or an interface")
	case p.Interface != "" && p.Source.IsValid():
		return errors.New("a peer with an interface has no source address: the session is between link-local addresses")
	case p.Address.Is4In6() || p.Source.Is4In6():
		return errors.New("an IPv4 address is written as IPv6")
	case p.Address.IsLinkLocalUnicast() && p.Address.Is6() && p.Address.Zone() == "":
		return fmt.Errorf("the link-local address %v has no zone", p.Address)
	case p.Address.IsValid() && p.Source.IsValid() && lb.FamilyOf(p.Address) != lb.FamilyOf(p.Source):
		return fmt.Errorf("the source address %v is not of the family of %v", p.Source, p.Address)
	case p.NextHops[lb.IPv4].IsValid() && !p.NextHops[lb.IPv4].Is4(), p.NextHops[lb.IPv6].Is4():
		return fmt.Errorf("the next hops %v are not of their families", p.NextHops)
	case !p.RouterID.Is4() || p.RouterID.IsUnspecified():
		return fmt.Errorf("the router ID %v is not an IPv4 address", p.RouterID)
	case p.Hold < 0 || p.Hold%time.Second != 0 || p.Hold > 0 && p.Hold < 3*time.Second || p.Hold > 65535*time.Second:
		return fmt.Errorf("invalid hold time %v: it is 0, or at least 3s and at most 65535s, in whole seconds", p.Hold)
	case p.Keepalive < 0 || p.Keepalive > p.Hold:
		return fmt.Errorf("the keepalive time %v is not between 0 and the hold time %v", p.Keepalive, p.Hold)
	case len(p.Password) > MaxPassword:
		return fmt.Errorf("the password has %d bytes; %d are possible", len(p.Password), MaxPassword)
	}
	return nil
}

// families that are spoken in a session between addresses of family own.
func (p Peer) families(own lb.Family) [len(lb.Families)]bool {
	var f [len(lb.Families)]bool
	for i := range f {
		f[i] = p.DualStack || p.Interface != "" || lb.Family(i) == own
	}
	return f
}

func (p Peer) extendedNextHop() bool { return p.ExtendedNextHop || p.Interface != "" }

func (p Peer) port() uint16 { return cmp.Or(p.Port, DefaultPort) }

// wire is the peer without what can change while a session goes on.
func (p Peer) wire() Peer {
	p.MaxPrefixes, p.ConnectTime = 0, 0
	return p
}

// allows says whether the router may have this AS.
func (p Peer) allows(as uint32) bool {
	switch p.ASRule {
	case InternalAS:
		return as == p.LocalAS
	case ExternalAS:
		return as != p.LocalAS
	default:
		return as == p.PeerAS
	}
}

func (p Peer) expectedAS() string {
	switch p.ASRule {
	case InternalAS:
		return fmt.Sprintf("AS %d, the same as ours", p.LocalAS)
	case ExternalAS:
		return fmt.Sprintf("an AS other than our own, %d", p.LocalAS)
	default:
		return fmt.Sprintf("AS %d", p.PeerAS)
	}
}
