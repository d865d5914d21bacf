// Package dhcplease keeps the leases of addresses that DHCP servers assign to
// Services. Nobody knows such an address before a node has it, so nodes claim the
// lease by a name in its place, which every node makes alike from the Services
// that want it. The node that has the claim runs the DHCP client; the address is
// on that node.
//
// The package decides which node leases and what the lease is. It does not put the
// address on an interface and does not announce it: the agent's loop does, as with
// any other address. It knows the loop only as Host.
package dhcplease
