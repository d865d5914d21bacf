package agent

import (
	"context"
	"net/netip"

	"fairlead.io/internal/bfd"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// Routers tells routers by BGP which prefixes lead to this node: package layer3. All methods
// may be called at the same time; only Stop waits.
type Routers interface {
	// Follow takes over the interfaces as they are now.
	Follow(links []link.Link)
	// Set says which peers this node has, and what is announced to each, by its name: both as a
	// whole. RouterID is for peers that have none of their own.
	Set(routerID netip.Addr, peers []lb.Peer, tables map[string]bgp.Table)
	// Statuses of all peers, by name.
	Statuses() []PeerStatus
	// News has a value when a status has changed.
	News() <-chan struct{}
	// Stop ends all sessions, and tells routers why. It waits until ctx ends at most.
	Stop(ctx context.Context, why string)
	// Freeze stops all sessions and returns what a successor needs to continue them, with open
	// descriptors, which the caller closes. Continue takes that over, before the first Set.
	Freeze(ctx context.Context) (data []byte, descriptors []int)
	Continue(data []byte, descriptors []int)
	// Close ends all sessions without a word, as the end of the process does.
	Close()
}

// PeerStatus is the state of the session with a peer.
type PeerStatus struct {
	Name string
	Peer lb.Peer
	bgp.Status
	// Invalid is why there is no session, if the peer cannot be used on this node.
	Invalid string
	// Filtered is the interface of the session, if the kernel drops packets of clients that
	// arrive there: its routes to them lead elsewhere.
	Filtered string
	BFD      *bfd.Status // nil without BFD
}

// noRouters is for agents that announce on LANs only.
type noRouters struct{}

func (noRouters) Follow([]link.Link)                              {}
func (noRouters) Set(netip.Addr, []lb.Peer, map[string]bgp.Table) {}
func (noRouters) Statuses() []PeerStatus                          { return nil }
func (noRouters) News() <-chan struct{}                           { return nil }
func (noRouters) Stop(context.Context, string)                    {}
func (noRouters) Freeze(context.Context) ([]byte, []int)          { return nil, nil }
func (noRouters) Continue([]byte, []int)                          {}
func (noRouters) Close()                                          {}
