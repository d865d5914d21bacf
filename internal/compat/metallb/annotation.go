package metallb

// Annotations of MetalLB that users set on a Service.
const (
	// AnnotationAddressPool requests an address from the named pool. This also works for
	// pools with autoAssign: false.
	//
	// Type: name of an IPAddressPool
	// Default: any pool that admits the Service
	// Impact: the Service keeps its address until the pool has one for it, then moves
	AnnotationAddressPool = "metallb.io/address-pool"

	// AnnotationAddresses requests addresses, separated by a comma: one for each IP
	// family of the Service, all from one pool. A Service cannot have both this and
	// spec.loadBalancerIP.
	//
	// Type: list of addresses
	// Default: any free address
	// Impact: the Service keeps its address until the new one is available, then moves
	AnnotationAddresses = "metallb.io/loadBalancerIPs"

	// AnnotationShare lets all Services with the same key share one address, unless
	// two of them use the same protocol and port. Services with
	// externalTrafficPolicy Local share only if they have the same selector.
	//
	// Type: any text
	// Default: the address is not shared
	// Impact: the Service gets another address if it cannot share its address with the new key
	AnnotationShare = "metallb.io/allow-shared-ip"
)

// Annotations of MetalLB that Fairlead writes on a Service.
const (
	// AnnotationAllocatedFrom contains the pool of the Service's addresses, if it is an
	// IPAddressPool.
	//
	// Type: name of an IPAddressPool
	// Default: written by Fairlead
	// Impact: none; Fairlead overwrites manual changes
	AnnotationAllocatedFrom = "metallb.io/ip-allocated-from-pool"
)

// The prefix of annotations, and the old prefix, which is still read. If a Service
// has an annotation with both prefixes, the new one counts, even if it is empty.
const (
	prefix    = "metallb.io/"
	oldPrefix = "metallb.universe.tf/"
)
