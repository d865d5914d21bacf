// Package conntrack reads the kernel's connection tracking: which connections clients have
// to addresses of Services, through this node.
//
// The kernel has every connection that it translates, from its first packet to its end, also
// after the address is another node's. This package lists them and follows their changes. It does
// not know why anybody asks, and changes nothing but what [RemoveStrays] removes.
package conntrack
