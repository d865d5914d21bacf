package bfd

import "fairlead.io/internal/lb"

// Reasons of sessions.
const (
	BFDDown      lb.Code = "BFDDown"
	BFDAdminDown lb.Code = "BFDAdminDown"
	BFDPortTaken lb.Code = "BFDPortTaken"
)

// Reasons that this package gives.
var Reasons = lb.Table{
	BFDDown: {On: "BGPPeer", Warning: true,
		Means: "The BFD session with the router is not up. If it was up before, the BGP session is reset, and the router uses other nodes.",
		Do:    "Follow the sentence: check the path, BFD on the router and the node's firewall.",
		Text:  "BFD with %s is down: %s.", Sample: []any{"192.0.2.1", "nothing was heard from it for 150ms"}},
	BFDAdminDown: {On: "BGPPeer",
		Means: "BFD was disabled on the router. BGP continues without it.",
		Do:    "Nothing, or enable BFD on the router again.",
		Text:  "BFD was disabled on %s. BGP continues without it.", Sample: []any{"192.0.2.1"}},
	BFDPortTaken: {On: "BGPPeer", Warning: true,
		Means: "Another BFD daemon on the node uses the UDP port. The agent does not disturb it: BGP continues without BFD, and BFD starts when the port has been free for half a minute.",
		Do:    "Stop the other daemon (FRR's bfdd, BIRD, Cilium), give the peer another source address, or remove the BFD profile from the peer.",
		Text:  "UDP port %d of %s is used by another BFD daemon on this node, so there is no BFD with %s. BGP continues without it. Stop the other daemon, or give the peer another source address.", Sample: []any{3784, "192.0.2.11", "192.0.2.1"}},
}
