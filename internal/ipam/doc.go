// Package ipam decides which Service has which address. It is a pure data
// structure: pools, which Service holds which address, sharing, families, quotas,
// and which Service waits for what.
//
// It does no I/O, knows no clock, no client and no dialect, logs nothing and is
// not safe for concurrent use: the caller locks around it. It publishes nothing
// either: it returns verdicts, and names the other Services whose verdict changed
// as a consequence.
//
// Three facts carry everything else:
//
//   - Holdings are per address, whatever the pool or dialect. Each pool keeps
//     its free addresses as ordered intervals from which everything that is
//     held, reserved or a node's has been taken out, so that the lowest free
//     address, a given one and a release cost O(log n) in an IPv6 /64 as in a
//     /29. No pool is ever enumerated.
//   - What follows from the configuration (from which pool an address is,
//     whether it is still in one) is never remembered but computed, so that a
//     restart, or another order of events, cannot change the answer.
//   - A Service that lacks something waits in the queues of exactly the pools
//     and addresses that could help; whatever changes there wakes the oldest
//     that can be helped, at once.
package ipam
