// Package metallb translates MetalLB's kinds and annotations into the words of
// package lb. One object that cannot be used is told of and stops no other.
package metallb

import (
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/metallb"
	"fairlead.io/internal/lb"
)

// Annotations of Services. Each is also read with the prefix of old,
// metallb.universe.tf/; where both are present, the new one counts.
const (
	AnnotationAddressPool   = "metallb.io/address-pool"
	AnnotationAddresses     = "metallb.io/loadBalancerIPs"
	AnnotationShare         = "metallb.io/allow-shared-ip"
	AnnotationAllocatedFrom = "metallb.io/ip-allocated-from-pool"
)

// Objects is everything of MetalLB's kinds that there is.
type Objects struct {
	// Namespace in which objects count; those elsewhere are told of.
	Namespace      string
	Pools          []metallb.IPAddressPool
	Advertisements []metallb.L2Advertisement
}

// Problem is something wrong with one object.
type Problem struct {
	Kind   string
	Object types.NamespacedName
	UID    types.UID
	Reason lb.Reason
}
