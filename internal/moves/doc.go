// Package moves decides which connections a node hands to the node that had their address
// before, and what agents tell each other about them.
//
// When an address moves, the connections through it stay where they are: the former node has
// them in its connection tracking. It lists them to the node that has the address now, which
// hands their packets to it. Each former node lists to the present one directly, so a packet
// makes one hop, however often the address has moved.
//
// The present node asks (Want), and is answered with numbered pages (Page). A list is for the
// claim that it was asked for: an answer to an earlier claim says nothing about this one. Who
// misses a page asks for everything again.
//
// The package is pure: it knows no kernel, no network, no clock and no Kubernetes.
package moves
