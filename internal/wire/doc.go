// Package wire has the frames of taking over, probing and defending an address
// on a LAN: ARP for IPv4, Neighbor Discovery for IPv6.
//
// It does not answer for addresses: they are on the interface, and the kernel
// answers, at any load. It does not decide whose an address is, knows no node
// and no Service, touches no address of an interface and no rule of a filter.
//
// Packet sockets bypass netfilter in both directions: a Port hears what the
// fence drops, which is what it is for, and sends what the fence would drop.
// So whoever sends must hold the fence at that moment; the Announcer asks
// (Pace.Allowed) before each frame.
package wire
