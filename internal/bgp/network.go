package bgp

import (
	"context"
	"net"
	"net/netip"
	"time"

	"fairlead.io/internal/lb"
)

// Network is what sessions need of the node. Kernel is the real one.
type Network interface {
	// Dial connects to a router from the source, if that is valid, with what the peer says
	// about VRF and password.
	Dial(ctx context.Context, p Peer, to netip.AddrPort, source netip.Addr) (net.Conn, error)
	// Addresses returns the lasting addresses of the interface that has this one, in the
	// order of the kernel.
	Addresses(local netip.Addr) ([]netip.Addr, error)
	// Link opens the link of an unnumbered session.
	Link(ctx context.Context, name string) (Link, error)
}

// Link hears and sends router advertisements on one interface.
type Link interface {
	// Hear waits for the next advertisement of another host. A lifetime of 0 means that the
	// host is not a router, or no longer one.
	Hear() (router netip.Addr, lifetime time.Duration, err error)
	// Solicit asks routers to advertise themselves now.
	Solicit() error
	// Advertise shows this node to routers: some answer only those they have heard. The
	// lifetime is 0, so nobody uses the node as a router.
	Advertise() error
	Close() error
}

// nextHops of a session from this local address: those that are fixed, and for others what the
// node has.
func nextHops(n Network, a agreed, local netip.Addr, fixed [len(lb.Families)]netip.Addr) [len(lb.Families)]netip.Addr {
	hops := ownNextHops(n, a, local)
	for f, hop := range fixed {
		if hop.IsValid() {
			hops[f] = hop
		}
	}
	return hops
}

func ownNextHops(n Network, a agreed, local netip.Addr) [len(lb.Families)]netip.Addr {
	var hops [len(lb.Families)]netip.Addr
	own := lb.FamilyOf(local)
	hops[own] = local.WithZone("")
	other := lb.IPv6
	if own == lb.IPv6 {
		other = lb.IPv4
	}
	if !a.Families[other] {
		return hops
	}
	// A link-local next hop is resolved on the interface of the session. An IPv4 address there
	// need not be in a network that the router has.
	extended := other == lb.IPv4 && a.ExtendedNextHop
	if extended && local.IsLinkLocalUnicast() {
		hops[other] = hops[own]
		return hops
	}
	addresses, err := n.Addresses(local)
	if err == nil {
		for _, addr := range addresses {
			if addr.IsGlobalUnicast() && lb.FamilyOf(addr) == other {
				hops[other] = addr
				return hops
			}
		}
	}
	if extended {
		hops[other] = hops[own]
	}
	return hops
}
