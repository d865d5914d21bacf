package member

import (
	"log"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	// DefaultPort is not memberlist's own 7946: MetalLB's speaker has that one, and
	// runs beside us while we take over from it.
	DefaultPort = 7947

	// A silent node is suspected at the next probe that somebody sends to it: on
	// average after an interval, since each member probes one other in each.
	probeInterval = 75 * time.Millisecond
	// An answer takes less than a millisecond; the rest is for a busy node. Below
	// half of the interval, because in the other half other members are asked to
	// try, and have to say that they failed too (which is how a member learns that
	// the fault is with the other and not with itself).
	probeTimeout = 30 * time.Millisecond
	// A suspect has suspicionMult × the interval (× log10 of the members, from ten
	// on) to say that it is alive, and twice that while nobody else suspects it.
	suspicionMult, suspicionMaxTimeoutMult = 3, 2
	// Suspicions, and the suspect's answers, must spread within that time.
	gossipInterval = 20 * time.Millisecond

	// exchangeInterval is how often a member exchanges all it knows with another
	// one; memberlist makes it longer from 32 members on.
	exchangeInterval = 5 * time.Second
	// exchangeTimeout is for an exchange, and for the attempt to reach a lost one.
	exchangeTimeout = 2 * time.Second
	// aloneAfter is when a member that has met nobody takes it that nobody is there.
	aloneAfter = time.Second
	// rejoinInterval is how often lost members are tried, and rejoinTries how many
	// at once: all of them in a small group; in a large one that has split in two,
	// one of some is enough, and hundreds that are gone for good cost little.
	rejoinInterval, rejoinTries = time.Second, 3
	// refuteInterval: two nodes of the same name would contradict each other as fast
	// as the network allows.
	refuteInterval = time.Second
	// farewell is how long our leave may travel before memberlist announces it: two
	// rounds of gossip.
	farewell = 2 * gossipInterval
	// claimRetransmit × log10 of the members is how often each passes on what is
	// said. It was sent to everybody directly before; but with 2, one of 500 claims
	// waited for the next exchange where one packet of twenty is lost. With 4, as
	// memberlist has for its own gossip, the worst of 500 was known after 38 ms.
	claimRetransmit = 4
)

func tuned(c Config, transport memberlist.Transport, out *bridge) *memberlist.Config {
	m := memberlist.DefaultLANConfig()
	m.Name, m.Transport = c.Name, transport
	m.BindAddr, m.BindPort = c.Bind.Addr().String(), int(c.Bind.Port())
	m.AdvertiseAddr, m.AdvertisePort = m.BindAddr, m.BindPort
	m.SecretKey, m.GossipVerifyIncoming, m.GossipVerifyOutgoing = c.Key, true, true
	m.ProtocolVersion = memberlist.ProtocolVersionMax
	m.UDPBufferSize = packetSize

	m.ProbeInterval, m.ProbeTimeout = probeInterval, probeTimeout
	m.SuspicionMult, m.SuspicionMaxTimeoutMult = suspicionMult, suspicionMaxTimeoutMult
	m.GossipInterval = gossipInterval
	m.PushPullInterval, m.TCPTimeout = exchangeInterval, exchangeTimeout
	// A connection takes longer than what is left of an interval, and a node that
	// can only be reached that way is not well.
	m.DisableTcpPings = true
	// Dead members are notified that they are believed dead for this long, then forgotten
	// by memberlist (but not by us: see rejoin).
	m.GossipToTheDeadTime = 15 * time.Second
	// A node may come back with another address (DHCP) as soon as it has been dead
	// for longer than any late packet of it takes.
	m.DeadNodeReclaimTime = time.Second
	// Pings, addresses and cipher texts do not get shorter.
	m.EnableCompression = false
	m.Logger = log.New(out, "", 0)
	return m
}
