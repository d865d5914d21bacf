// Package agent makes the addresses of Services real on a node's networks. It is
// one level-triggered loop: which addresses are there, who is alive, which are
// mine; then kernel addresses, nftables and announcements follow.
//
// It reads the API server through informers and goes on with what it last knew
// while the API server is away. It writes nothing but its own Agent object, what
// MetalLB's speakers write of themselves, and events, and never waits for any.
package agent
