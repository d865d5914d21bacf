// Package member says which nodes are alive, and which node claims which address or
// lease.
//
// A Group is this node's seat among the agents of all nodes. They watch each
// other by gossip, so that a silent node is known dead in well under a second,
// and each tells all others two things: what they must know of its node before
// they can elect an owner (Meta), and what it claims (Claim). Neither
// needs the API server.
//
// The package carries claims and does not judge them: which node should own an
// address, what an epoch is worth and when to give way are the caller's affair.
// It knows no Kubernetes, no kernel and no frame on the wire.
//
// Changes travel in three ways. A change goes to every member directly, in one
// packet or a few, because the handover of an address waits for it. Members pass it
// on by gossip, for members that lost the packet. And two members exchange all they
// know when one joins and every few seconds, which repairs the rest.
package member
