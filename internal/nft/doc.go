// Package nft keeps this node's nftables tables: which announced addresses the
// kernel answers ARP and NDP for, on which interfaces, as long as the fence of
// the interface stands, and which ports of these addresses are reachable at all.
//
// There are two tables named "fairlead", one in the family arp and one in inet;
// no other program may write to them. Their chains and rules are the same on every
// node and never change while the agent runs: all that changes are set elements.
// README.md shows the hooks.
//
// Two more, named "fairlead-carried", send packets of connections that another node has to it,
// after their address has moved here. They are there while Carrier says so.
//
// The package knows addresses, ports and interface names. It does not know why
// this node owns an address, and neither adds addresses to interfaces (package
// link) nor sends frames (package wire).
package nft
