// Package controller gives every Service of type LoadBalancer that is of a
// served class its addresses, or a reason why not. It is the only writer of
// Services: what it decides (internal/ipam) it writes with one patch of the
// Service's status, and nothing is kept anywhere else.
//
// It reads Services, pools, namespaces and nodes through one cache. It knows no
// configuration format: internal/compat translates them.
package controller
