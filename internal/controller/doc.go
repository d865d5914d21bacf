// Package controller gives every Service of type LoadBalancer that is of a
// served class its addresses, or a reason why not. internal/ipam decides about
// addresses of pools, and the backend of the class makes them real. The
// controller is the only writer of Services: it writes what comes of it with
// one patch, and nothing is kept anywhere else.
//
// It reads Services, pools, namespaces and nodes through one cache, and names
// no dialect and no backend: it gets both as Options.
package controller
