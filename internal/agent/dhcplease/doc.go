// Package dhcplease keeps the leases of addresses that DHCP servers assign to
// Services. Such an address is unknown until a node has the lease, so nodes claim the
// lease by a name instead, which every node derives from the Services that want it.
// The node that has the claim runs the DHCP client and gets the address.
//
// The package decides which node leases and what the lease is. It does not put the
// address on an interface and does not announce it: the agent's loop does, as with
// any other address. It knows the loop only as Host.
package dhcplease
