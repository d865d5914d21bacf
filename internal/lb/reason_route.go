package lb

import "net/netip"

// Reasons about announcing by BGP.
const (
	AdvertisementConflict Code = "AdvertisementConflict"
	TooManyCommunities    Code = "TooManyCommunities"
	Routed                Code = "Routed"
	PeerReady             Code = "PeerReady"
	PeerDown              Code = "PeerDown"
	PeerRefused           Code = "PeerRefused"
	PeerConflict          Code = "PeerConflict"
	PeerFull              Code = "PeerFull"
	PeerUnusable          Code = "PeerUnusable"
	PeerSourceMissing     Code = "PeerSourceMissing"
	NoNextHop             Code = "NoNextHop"
	ReversePathFiltered   Code = "ReversePathFiltered"
	BGPAnnotationInvalid  Code = "BGPAnnotationInvalid"
	AggregateLocal        Code = "AggregateLocal"
)

var routeReasons = Table{
	AdvertisementConflict: {On: "BGPAdvertisement", Warning: true,
		Means: "Two advertisements announce the same prefix to the same peer with different local preferences. The older one counts.",
		Do:    "Give both the same localPref, or other peers, nodes or aggregation lengths.",
		Text:  "Advertisement %q is not used for %s: %q is older and announces it with localPref %d, not %d. Give both the same localPref, or other peers, nodes or aggregation lengths.", Sample: []any{"lab", netip.MustParsePrefix("192.0.2.7/32"), "edge", 100, 200}},
	TooManyCommunities: {On: "BGPAdvertisement", Warning: true,
		Means: "The advertisements of a prefix together have more communities than a route may have. Those of the youngest are left out.",
		Do:    "Remove communities that are not needed.",
		Text:  "Communities of advertisement %q are not added to %s: together with those of older advertisements there would be more than %d. Remove some.", Sample: []any{"lab", netip.MustParsePrefix("192.0.2.7/32"), MaxCommunities}},
	Routed: {On: "Service", Ready: true, Event: true,
		Means: "A node announces the Service's address to routers by BGP.",
		Do:    "Nothing.",
		Text:  `Address %s: announcing from node "%s" with protocol "bgp" to %s.`, Sample: []any{netip.MustParseAddr("192.0.2.7"), "worker-1", "tor-1, tor-2"}},
	PeerReady: {On: "Agent", Ready: true,
		Means: "The node has a session with the router.",
		Do:    "Nothing.",
		Text:  "The session is established."},
	PeerDown: {On: "Agent", Warning: true,
		Means: "The node has no session with the router: it cannot be reached, does not answer, or has gone silent. A wrong password looks the same.",
		Do:    "Check the address, the port, the password, firewalls and the router's log. The agent tries again every few seconds.",
		Text:  "No session with the router: %s.", Sample: []any{"connection refused"}},
	PeerRefused: {On: "Agent", Warning: true,
		Means: "The router ended the session, or what it sent does not fit the peer's configuration. The sentence has the BGP code in words.",
		Do:    "Compare the AS numbers and options of the peer with the router's configuration.",
		Text:  "No session with the router: %s.", Sample: []any{"the router ended the session: OPEN message error, bad peer AS (2/2)"}},
	PeerConflict: {On: "Agent", Warning: true,
		Means: "The router already has a session with this node, perhaps of another BGP speaker (Calico, Cilium, FRR). That one is left alone.",
		Do:    "Give the peer another sourceAddress, or let the other speaker announce the addresses.",
		Text:  "No session with the router: %s.", Sample: []any{"the router ended the session: cease, connection collision resolution (6/7)"}},
	PeerFull: {On: "Agent", Warning: true,
		Means: "More prefixes are to be announced than the router takes, or than the peer's annotation fairlead.io/max-prefixes permits.",
		Do:    "Raise the limit, or announce aggregates.",
		Text:  "Prefixes are not announced to the router: %s.", Sample: []any{"the peer takes at most 8; 12 are not announced, the first is 192.0.2.9/32"}},
	PeerUnusable: {On: "Agent", Warning: true,
		Means: "This node cannot use the peer as it is configured. Other nodes may.",
		Do:    "Correct what the sentence names.",
		Text:  "This node cannot use the peer: %s.", Sample: []any{"interface eth7 does not exist"}},
	PeerSourceMissing: {On: "Agent", Warning: true,
		Means: "The node does not have the peer's sourceAddress, so the kernel chooses one.",
		Do:    "Add the address to the node, or change the peer's sourceAddress or nodeSelectors.",
		Text:  "This node does not have the source address %v; the kernel has chosen another. Add it, or change sourceAddress or nodeSelectors.", Sample: []any{netip.MustParseAddr("192.0.2.11")}},
	NoNextHop: {On: "Agent", Warning: true,
		Means: "Prefixes of a family cannot be announced in this session: the node has no address of that family on the interface to the router, or the session does not carry the family.",
		Do:    "Set dualStackAddressFamily, add an address of the family to the interface, or add a peer of that family.",
		Text:  "Prefixes are not announced to the router: %s.", Sample: []any{"this node has no address of their family on the interface to the router (the first of 3 is 2001:db8::7/128)"}},
	ReversePathFiltered: {On: "Agent", Warning: true,
		Means: "The node drops packets that the router leads to it: rp_filter is strict on the interface of the session, and the node has no default route through it.",
		Do:    "Set net.ipv4.conf.<interface>.rp_filter to 2 (loose), or add routes to the clients through the interface.",
		Text:  "The node drops packets of clients that arrive on %[1]s: rp_filter is strict there, and no default route leads through it. Set net.ipv4.conf.%[1]s.rp_filter to 2, or add routes to the clients.", Sample: []any{"eth1"}},
	BGPAnnotationInvalid: {On: "Service", Warning: true, Event: true,
		Means: "An annotation about BGP cannot be used. The address is announced without it.",
		Do:    "Correct the annotation. Services that share an address need the same values.",
		Text:  "Address %s is announced without an annotation that cannot be used: %s. Correct it.", Sample: []any{netip.MustParseAddr("192.0.2.7"), `no Community object defines "gold"`}},
	AggregateLocal: {On: "Service", Warning: true, Event: true,
		Means: "A node announces an aggregate because it serves one address of it. Traffic for other addresses of the aggregate reaches the node as well, and is lost if their Services have externalTrafficPolicy Local and no pod there.",
		Do:    "Use aggregationLength 32 and aggregationLengthV6 128 for Services with policy Local, or policy Cluster.",
		Text:  "Address %s has externalTrafficPolicy Local, and is part of the aggregate %s: nodes without a pod may get its traffic, too, and refuse it. Announce it as a single address, or use policy Cluster.", Sample: []any{netip.MustParseAddr("192.0.2.7"), netip.MustParsePrefix("192.0.2.0/24")}},
}
