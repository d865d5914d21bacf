package agent

import (
	"context"
	"net"
	"net/netip"
	"time"

	"go4.org/netipx"

	"fairlead.io/internal/link"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

var (
	_ Kernel = (*link.Links)(nil)
	_ Kernel = (*link.Fake)(nil)
	_ Tables = (*nft.Table)(nil)
	_ Tables = (*nft.Fake)(nil)
	_ Group  = (*member.Group)(nil)
)

// Kernel is the node's interfaces, and our addresses on them: link.Links, or
// link.Fake in tests.
type Kernel interface {
	List() []link.Link
	Ours() []link.Address
	// Gateways returns the routers of default routes. It may take long, and is the
	// one method that is called by another goroutine than the loop.
	Gateways() ([]netip.Addr, error)
	Add(iface string, addr netip.Addr) error
	Remove(iface string, addr netip.Addr) error
	Renew(all []link.Address) (missing []link.Address, err error)
	// Recheck looks for changes that the kernel does not tell.
	Recheck()
	// Hosts are those that the kernel knows on the segments of interfaces.
	Hosts() (map[string][]link.Host, error)
	Changed() <-chan struct{}
	// Done is closed when interfaces cannot be followed any more, because of Err.
	Done() <-chan struct{}
	Err() error
}

// Tables controls for which addresses the kernel answers, and through which ports:
// nft.Table, or nft.Fake in tests.
type Tables interface {
	Leftover() (state nft.State, fences []string)
	Update(changes map[netip.Addr]*nft.VIP) error
	Rebuild(s nft.State, fences []string) error
	Grant(iface string) error
	Renew(ifaces []string) (lost []string, err error)
	Revoke(iface string) error
	Tampered() <-chan struct{}
	// Route says which addresses routers lead to this node.
	Route(ranges []netipx.IPRange) error
	// Counts is what has arrived from outside for addresses that are counted.
	Counts() (map[nft.Flow]nft.Count, error)
	Delete() error
	Close() error
}

// Group is the agents that are alive, and what they claim: member.Group.
type Group interface {
	Addr() netip.AddrPort
	Members() []member.Member
	Claims() map[member.Key][]member.Claim
	SetMeta(m member.Meta)
	SetClaims(own []member.Claim)
	ChangeClaims(own []member.Claim, released []member.Key)
	Changed() <-chan struct{}
	Changes() (members bool, claims map[member.Key][]member.Claim)
	Synced() bool
	Died(node string) (time.Time, bool)
	Join(ctx context.Context, known []netip.AddrPort) (int, error)
	Leave(ctx context.Context) error
	// Post, Mail and Letters exchange messages with single members.
	Post(to string, body []byte) error
	Mail() <-chan struct{}
	Letters() []member.Letter
	Close()
}

// Announcer tells the network which addresses are here. Only News is used by
// another goroutine than all other methods.
type Announcer interface {
	// Protocol is the name by which users know it.
	Protocol() string
	// Follow announces on these interfaces, and on no others, from now on.
	Follow(links []link.Link)
	// Own announces an address on interfaces, Disown ends that on one; Adopt is Own
	// for an address that an earlier agent has announced. Commit follows a series of
	// them.
	Own(addr netip.Addr, ifaces []string)
	Adopt(addr netip.Addr, ifaces []string)
	Disown(addr netip.Addr, iface string)
	Commit()
	// Allow says until when anything may be sent on an interface: as long as its fence
	// stands.
	Allow(iface string, until time.Time)
	// Probe asks whether a host that is not ours has an address. The answer is in
	// News.
	Probe(addr netip.Addr, ifaces []string, ours func(net.HardwareAddr) bool)
	// Defend answers another host that uses an address of this node; false means that
	// it did so a moment ago.
	Defend(addr netip.Addr, iface string) bool
	// Listen has News tell of frames about these addresses, too, not only of those
	// about addresses that are owned.
	Listen(addrs []netip.Addr)
	// Survey asks on an interface who has addresses, and whether witnesses are there.
	// The answer is in News.
	Survey(iface string, addrs, witnesses []Question)
	// Remind announces all addresses once more.
	Remind()
	News() <-chan News
	Close()
}

// News of an Announcer: a host says that it has an address, or a probe or a survey
// has ended.
type News struct {
	Addr      netip.Addr
	MAC       net.HardwareAddr // of the host; nil if a probe found none
	Interface string
	Probe     bool // it answers Probe
	Asks      bool // the host does not have the address, but asks who has

	Survey  bool // it answers Survey
	Asked   []netip.Addr
	Answers Answers // of witnesses, too
}
