// Package bfd detects that the path to a router has failed (RFC 5880, asynchronous mode
// without echo, demand and authentication; RFC 5881 for one hop, RFC 5883 for several).
//
// A Session is pure: times and packets go in, packets and states come out. A Speaker runs
// the sessions of a node over sockets. It knows neither BGP nor Kubernetes: what a failed
// path means is for its user to decide.
//
// The packages that exist do not fit: they have no multihop, no TTL check or no jitter, and
// listen on all addresses with SO_REUSEADDR, which takes packets from other BFD daemons.
package bfd
