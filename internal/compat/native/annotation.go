package native

// Annotations that people set on a Service.
const (
	// AnnotationAddresses asks for addresses: one, or one of each IP family,
	// separated by a comma. spec.loadBalancerIP asks for one as well.
	//
	// Type: list of addresses
	// Default: any free address
	// Impact: the Service moves as soon as it can have the new address, and keeps the old one until then
	AnnotationAddresses = "fairlead.io/addresses"

	// AnnotationPool asks for an address of the named pool, also of one that
	// hands out nothing by itself (autoAssign: false).
	//
	// Type: name of a Pool
	// Default: any pool that admits the Service, by priority, then by name
	// Impact: the Service moves as soon as the pool has an address for it, and keeps the old one until then
	AnnotationPool = "fairlead.io/pool"

	// AnnotationShare lets all Services with the same key live on one address,
	// as long as no two have the same protocol and port. Services with
	// externalTrafficPolicy Local share only if they have the same selector.
	//
	// Type: any text
	// Default: the address is not shared
	// Impact: a Service whose new key does not fit its neighbours moves to another address
	AnnotationShare = "fairlead.io/share"

	// AnnotationReallocate moves a Service that keeps an address which is out of
	// pool (reason OutOfPool) to a new one.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: the Service gets another address if its address is out of pool; otherwise nothing
	AnnotationReallocate = "fairlead.io/reallocate"
)

// Annotations that Fairlead writes on a Service.
const (
	// AnnotationAllocatedFrom names the pool of the Service's addresses.
	//
	// Type: name of a Pool (two, separated by a comma, where each IP family is from another)
	// Default: written by Fairlead
	// Impact: none; changes made by hand are overwritten
	AnnotationAllocatedFrom = "fairlead.io/allocated-from"

	// AnnotationGiven repeats the addresses that Fairlead wrote into the annotation
	// kube-vip.io/loadbalancerIPs, in a class of backend kube-vip: others in there
	// are somebody's wish.
	//
	// Type: list of addresses
	// Default: written by Fairlead
	// Impact: none; without it, the Service keeps its addresses as if it asked for them
	AnnotationGiven = "fairlead.io/given"

	// AnnotationReason says why a Service in a class of backend kube-vip has no
	// address, or what is not as it should be: its status is kube-vip's to write.
	//
	// Type: a reason, a colon and a sentence
	// Default: written by Fairlead, and removed when all is well
	// Impact: none; changes made by hand are overwritten
	AnnotationReason = "fairlead.io/reason"

	// AnnotationAsked repeats what the Service asks for in the annotation
	// kube-vip.io/loadbalancerIPs or in spec.loadBalancerIP, and has got, in a class
	// of backend kube-vip: others in there are yet to be granted.
	//
	// Type: list of addresses
	// Default: written by Fairlead
	// Impact: none; changes made by hand are overwritten
	AnnotationAsked = "fairlead.io/asked"

	// AnnotationDHCP has the IP families of which the Service's address is for a
	// DHCP server of the LAN to give. It stays so when the pools change.
	//
	// Type: IPv4, IPv6 or both, separated by a comma
	// Default: written by Fairlead
	// Impact: the Service goes on with an address of its pools if it is removed and they have any
	AnnotationDHCP = "fairlead.io/dhcp"
)
