package metallb

import (
	"time"

	"fairlead.io/internal/lb"
)

// Reasons on objects of MetalLB's BGP kinds.
const (
	SessionsEstablished lb.Code = "SessionsEstablished"
	SessionsMissing     lb.Code = "SessionsMissing"
	SessionsImpaired    lb.Code = "SessionsImpaired"
	PeerUnused          lb.Code = "PeerUnused"
	PeerInvalid         lb.Code = "PeerInvalid"
	PeerKept            lb.Code = "PeerKept"
	PeerDuplicate       lb.Code = "PeerDuplicate"
	BFDProfileMissing   lb.Code = "BFDProfileMissing"
	BFDProfileGone      lb.Code = "BFDProfileGone"
	PeerUnknown         lb.Code = "PeerUnknown"
	AggregateTooWide    lb.Code = "AggregateTooWide"
	AdvertisementKept   lb.Code = "AdvertisementKept"
	BFDProfileReady     lb.Code = "BFDProfileReady"
	BFDProfileInvalid   lb.Code = "BFDProfileInvalid"
	BFDTooFast          lb.Code = "BFDTooFast"
	EchoNotServed       lb.Code = "EchoNotServed"
	CommunityReady      lb.Code = "CommunityReady"
	CommunityInvalid    lb.Code = "CommunityInvalid"
	CommunityUnknown    lb.Code = "CommunityUnknown"
	CommunityGone       lb.Code = "CommunityGone"
)

var bgpReasons = lb.Table{
	SessionsEstablished: {On: "BGPPeer", Ready: true,
		Means: "All nodes that the peer selects have a session with the router.",
		Do:    "Nothing.",
		Text:  "%s a session with the router.", Sample: []any{"3 of 3 nodes have"}},
	SessionsMissing: {On: "BGPPeer", Warning: true,
		Means: "Some nodes that the peer selects have no session with the router. The sentence has the router's own words. Agents try again every few seconds.",
		Do:    "Compare the peer with the router's configuration, and check the network between them.",
		Text:  "%s a session with the router. %s.", Sample: []any{"2 of 3 nodes have", "worker-2: the router ended the session: OPEN message error, bad peer AS (2/2)"}},
	SessionsImpaired: {On: "BGPPeer", Warning: true,
		Means: "All nodes that the peer selects have a session with the router, but not everything works as configured: prefixes are not announced, or BFD is not up.",
		Do:    "Correct what the sentence names.",
		Text:  "%s a session with the router. %s.", Sample: []any{"3 of 3 nodes have", "worker-2: another program on this node has the BFD port"}},
	PeerUnused: {On: "BGPPeer",
		Means: "No agent has reported the peer: it is new, selects no node, or no agent runs on the nodes that it selects.",
		Do:    "Check the peer's nodeSelectors, and that agents run.",
		Text:  "No node has reported this peer yet. If this lasts, check its nodeSelectors, and that agents run."},
	PeerInvalid: {On: "BGPPeer", Warning: true,
		Means: "The peer has a value that cannot be used, so no node connects to it. Nodes with a session keep it, with the values that the peer had before, until their agent starts again. Other peers work.",
		Do:    "Correct the value that the sentence names.",
		Text:  "The peer is refused: %s. Correct it.", Sample: []any{"missing local ASN"}},
	PeerKept: {On: "BGPPeer", Warning: true,
		Means: "A change made the peer unusable. The node's session goes on with the values that the peer had before. An agent that starts again does not know these.",
		Do:    "Correct the peer before the agents start again.",
		Text:  "The session goes on with the values that the peer had before."},
	PeerDuplicate: {On: "BGPPeer", Warning: true,
		Means: "The peer is the same session as an older one: address or interface, port, source address and VRF are equal, and both are for the same node.",
		Do:    "Delete one of the two, give it another sourceAddress, or let them select different nodes.",
		Text:  "No node connects to this peer: BGPPeer %q is older and the same session. Delete one of them, give it another sourceAddress, or let them select different nodes.", Sample: []any{"tor-1"}},
	BFDProfileMissing: {On: "BGPPeer", Warning: true,
		Means: "The peer's BFD profile cannot be used, so the session runs without BFD: a failed path is only detected when the hold time ends.",
		Do:    "Create or correct the BFDProfile.",
		Text:  "The session runs without BFD: BFDProfile %q %s. Create or correct it.", Sample: []any{"fast", "does not exist"}},
	BFDProfileGone: {On: "BGPPeer", Warning: true,
		Means: "The peer's BFD profile was deleted or can no longer be used. The session keeps its last values.",
		Do:    "Create or correct the BFDProfile, or remove it from the peer.",
		Text:  "BFDProfile %q %s. The session keeps the values that the profile had. Create or correct it, or remove it from the peer.", Sample: []any{"fast", "does not exist"}},
	PeerUnknown: {On: "BGPAdvertisement", Warning: true,
		Means: "The advertisement names a peer that does not exist, or that is refused. It applies to the other peers that it names.",
		Do:    "Correct the name, or create the BGPPeer.",
		Text:  "The advertisement names peers that do not exist or are refused: %s. Correct the names, or create the peers.", Sample: []any{`"tor-3"`}},
	AggregateTooWide: {On: "BGPAdvertisement", Warning: true,
		Means: "The aggregation length is shorter than the prefix of one of the pool's entries, so addresses that are not in the pool would be announced. The advertisement is not used for this pool.",
		Do:    "Use a longer aggregation length for this pool, or a pool with a wider prefix.",
		Text:  "The advertisement is not used for pool %q: its %s aggregation length %d is wider than an entry of the pool (/%d). Use at least that length.", Sample: []any{"edge", "IPv4", 16, 24}},
	AdvertisementKept: {On: "BGPAdvertisement", Warning: true,
		Means: "A change made the advertisement unusable. The node goes on announcing as the advertisement said before. An agent that starts again does not know that.",
		Do:    "Correct the advertisement before the agents start again.",
		Text:  "Routes go on as the advertisement said before."},
	CommunityUnknown: {On: "BGPAdvertisement", Warning: true,
		Means: "The advertisement names communities that no Community object defines. Routes are announced without these.",
		Do:    "Correct the names, or create the Community.",
		Text:  "Routes are announced without these communities, which no Community object defines: %s. Correct the names, or create it.", Sample: []any{`"silver"`}},
	CommunityGone: {On: "BGPAdvertisement", Warning: true,
		Means: "The advertisement names communities that no Community object defines any more. Routes keep the values that these had, until the agent starts again; then they are announced without them.",
		Do:    "Create the Community again, or remove the names from the advertisement.",
		Text:  "No Community object defines these communities any more: %s. Routes keep the values that they had. Create it again, or remove the names.", Sample: []any{`"silver"`}},
	BFDProfileReady: {On: "BFDProfile", Ready: true,
		Means: "Peers can use the profile.",
		Do:    "Nothing.",
		Text:  "The profile can be used."},
	BFDProfileInvalid: {On: "BFDProfile", Warning: true,
		Means: "The profile has a value that cannot be used. Sessions keep the last values that could be used, or run without BFD.",
		Do:    "Correct the value that the sentence names.",
		Text:  "The profile is refused: %s. Correct it.", Sample: []any{"detectMultiplier: 1 is not between 2 and 255"}},
	BFDTooFast: {On: "BFDProfile", Warning: true,
		Means: "The interval is so short that a busy node may miss it, and lose its sessions without need.",
		Do:    "Use 50 ms or more.",
		Text:  "An interval of %s may be too short for a busy node: sessions may fail without need. Use 50 ms or more.", Sample: []any{10 * time.Millisecond}},
	EchoNotServed: {On: "BFDProfile", Warning: true,
		Means: "Fairlead has no BFD echo mode. Sessions use the asynchronous mode with the profile's intervals instead.",
		Do:    "Set echoMode to false, and choose receiveInterval and transmitInterval.",
		Text:  "Echo mode is not supported: the asynchronous mode runs instead. Set echoMode to false."},
	CommunityReady: {On: "Community", Ready: true,
		Means: "Advertisements and Services can use the names.",
		Do:    "Nothing.",
		Text:  "The names can be used."},
	CommunityInvalid: {On: "Community", Warning: true,
		Means: "Some names of the object cannot be used. The others can.",
		Do:    "Correct what the sentence names.",
		Text:  "Some communities of this object are not used: %s. Correct them.", Sample: []any{`communities[0]: duplicate definition of community "vpn", which Community "a" has`}},
}
