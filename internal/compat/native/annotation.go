package native

// Annotations that users set on a Service.
const (
	// AnnotationAddresses requests addresses: one or several of each IP family,
	// separated by commas. Of several, the Service gets those that are free, and the
	// others when they are. spec.loadBalancerIP also requests an address.
	//
	// Type: list of addresses
	// Default: any free address
	// Impact: the Service keeps its address until the new one is available, then moves
	AnnotationAddresses = "fairlead.io/addresses"

	// AnnotationPool requests an address from the named pool. This also works for
	// pools with autoAssign: false.
	//
	// Type: name of a Pool
	// Default: any pool that admits the Service, by priority, then by name
	// Impact: the Service keeps its address until the pool has one for it, then moves
	AnnotationPool = "fairlead.io/pool"

	// AnnotationShare lets all Services with the same key share one address, unless
	// two of them use the same protocol and port. Services with
	// externalTrafficPolicy Local share only if they have the same selector.
	//
	// Type: any text
	// Default: the address is not shared
	// Impact: the Service gets another address if it cannot share its address with the new key
	AnnotationShare = "fairlead.io/share"

	// AnnotationReallocate moves a Service to a new address if its address is no
	// longer in a pool (reason OutOfPool).
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: the Service gets another address if its address is out of pool; otherwise none
	AnnotationReallocate = "fairlead.io/reallocate"
)

// Annotations that users set on a Service that is announced by BGP. They have no effect on
// aggregates, which have addresses of other Services, too. Services that share an address must
// have the same values.
const (
	// AnnotationBGPCommunities adds communities to the routes of the Service: 64500:7,
	// large:64500:1:2, or a name that a Community object of MetalLB's kind defines.
	//
	// Type: list of communities
	// Default: those of the pool's advertisements
	// Impact: routers see changed routes; connections continue unless routers choose other paths
	AnnotationBGPCommunities = "fairlead.io/bgp-communities"

	// AnnotationBGPLocalPref is the local preference of the routes of the Service. It overrides
	// that of advertisements, and is only sent to routers of the nodes' own AS.
	//
	// Type: number
	// Default: that of the pool's advertisements, or 100
	// Impact: routers see changed routes; connections continue unless routers choose other paths
	AnnotationBGPLocalPref = "fairlead.io/bgp-local-pref"

	// AnnotationBGPDrain asks routers to use other paths to the Service's addresses, if they have
	// any: the routes get the community of RFC 8326, and local preference 0.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: routers with another path, such as another cluster, use that one
	AnnotationBGPDrain = "fairlead.io/bgp-drain"
)

// Annotations that users set on a Service with a load balancer of a cloud or of OVN.
const (
	// AnnotationDryRun makes Fairlead report what it would change, and what that would
	// cost, in an event. It changes nothing.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: none; changes wait until the annotation is removed
	AnnotationDryRun = "fairlead.io/dry-run"
)

// Annotations that Fairlead writes on a Service.
const (
	// AnnotationAllocatedFrom contains the pool of the Service's addresses.
	//
	// Type: name of a Pool; two names, separated by a comma, if each IP family has another pool
	// Default: written by Fairlead
	// Impact: none; Fairlead overwrites manual changes
	AnnotationAllocatedFrom = "fairlead.io/allocated-from"

	// AnnotationGiven repeats the addresses that Fairlead wrote into the annotation
	// kube-vip.io/loadbalancerIPs, in a class with backend kube-vip. Other addresses
	// in that annotation are requests of a user.
	//
	// Type: list of addresses
	// Default: written by Fairlead
	// Impact: none; if you remove it, the Service keeps its addresses as if it had requested them
	AnnotationGiven = "fairlead.io/given"

	// AnnotationReason explains why a Service in a class with backend kube-vip has no
	// address, or what is wrong with it. kube-vip owns the status of such a Service.
	//
	// Type: a reason, a colon and a sentence
	// Default: written by Fairlead, and removed when there is no problem
	// Impact: none; Fairlead overwrites manual changes
	AnnotationReason = "fairlead.io/reason"

	// AnnotationAsked repeats the addresses that the Service requested in the annotation
	// kube-vip.io/loadbalancerIPs or in spec.loadBalancerIP, and got, in a class with
	// backend kube-vip. Other addresses there are new requests.
	//
	// Type: list of addresses
	// Default: written by Fairlead
	// Impact: none; Fairlead overwrites manual changes
	AnnotationAsked = "fairlead.io/asked"

	// AnnotationProof proves that Fairlead wrote fairlead.io/given or fairlead.io/asked: a
	// MAC of these addresses, the UID and ports of the Service and the time, under a key in
	// the Secret fairlead-notes. Its prefix differs so that older versions ignore it.
	//
	// Type: a time and a MAC
	// Default: written by Fairlead
	// Impact: none; Fairlead overwrites manual changes. If you remove it while the controller is down, the Service keeps its addresses only if no other Service has them and it may request them
	AnnotationProof = "proof.fairlead.io/given"

	// AnnotationDHCP contains the IP families for which DHCP assigns the Service's
	// address. A change of the pools does not change it.
	//
	// Type: IPv4, IPv6 or both, separated by a comma
	// Default: written by Fairlead
	// Impact: if you remove it, the Service gets an address from its pools, if they have one
	AnnotationDHCP = "fairlead.io/dhcp"
)
