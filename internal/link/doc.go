// Package link knows the interfaces of this node and puts announced addresses on
// them.
//
// Our addresses carry a mark and are never chosen as source address; they end by
// themselves if nobody renews them. An address without our mark is never
// touched. The package writes no sysctls, and does not know whether the kernel
// may answer for an address: that is package nft's.
package link
