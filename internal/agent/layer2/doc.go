// Package layer2 announces addresses by ARP and NDP on the node's interfaces, and
// detects other hosts that use them. It has one packet socket and one paced announcer for
// each interface (package wire).
//
// It does not know why this node has an address, and adds none to an interface.
package layer2
