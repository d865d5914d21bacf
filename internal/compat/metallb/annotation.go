package metallb

// Annotations of MetalLB that people set on a Service.
const (
	// AnnotationAddressPool asks for an address of the named pool, also of one that hands
	// out nothing by itself (autoAssign: false).
	//
	// Type: name of an IPAddressPool
	// Default: any pool that admits the Service
	// Impact: the Service moves as soon as the pool has an address for it, and keeps the old one until then
	AnnotationAddressPool = "metallb.io/address-pool"

	// AnnotationAddresses asks for addresses: one, or one of each IP family,
	// separated by a comma, for each IP family that the Service has, and from one
	// pool. A Service cannot have both this and spec.loadBalancerIP.
	//
	// Type: list of addresses
	// Default: any free address
	// Impact: the Service moves as soon as it can have the new address, and keeps the old one until then
	AnnotationAddresses = "metallb.io/loadBalancerIPs"

	// AnnotationShare lets all Services with the same key live on one address, as
	// long as no two have the same protocol and port. Services with
	// externalTrafficPolicy Local share only if they have the same selector.
	//
	// Type: any text
	// Default: the address is not shared
	// Impact: a Service whose new key does not fit its neighbours moves to another address
	AnnotationShare = "metallb.io/allow-shared-ip"
)

// Annotations of MetalLB that Fairlead writes on a Service.
const (
	// AnnotationAllocatedFrom names the pool of the Service's addresses, if it is
	// one of MetalLB's.
	//
	// Type: name of an IPAddressPool
	// Default: written by Fairlead
	// Impact: none; changes made by hand are overwritten
	AnnotationAllocatedFrom = "metallb.io/ip-allocated-from-pool"
)

// The prefix of annotations, and the one of old, which is still read: of two that
// differ in it alone, the one with the new prefix counts, even if it is empty.
const (
	prefix    = "metallb.io/"
	oldPrefix = "metallb.universe.tf/"
)
