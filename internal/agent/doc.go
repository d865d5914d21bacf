// Package agent makes the addresses of Services real on one node. It is one
// level-triggered loop: which addresses are there, which nodes are alive, which
// addresses are mine; then kernel addresses, nftables and announcements follow.
//
// The loop reads the API server through informers and goes on with what it last
// knew while the API server is away. It writes its own Agent object and events, and
// never waits for either.
//
// What the loop does not know lives beside it: the configuration formats in
// sources, DHCP in dhcplease, ARP and NDP in layer2 (an Announcer), the objects and
// metrics of other load balancers in an Observer.
package agent
