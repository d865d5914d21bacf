// Package dhcp leases addresses from the DHCP servers of a LAN, for Services: one
// client for each address, IPv4 and IPv6 alike.
//
// A lease belongs to an Identity, not to a machine: whichever node runs its
// client shows the same client identifier, so that after a failover the server
// gives the same address. Messages are sent and heard as raw frames (Port): the
// node's own DHCP client, if there is one, is not disturbed, and no port below
// 1024 has to be bound.
//
// The state machine (Client) knows neither sockets nor formats. Messages are
// made and read with github.com/insomniacslk/dhcp, whose own clients do without
// renewal.
package dhcp
