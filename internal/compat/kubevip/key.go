package kubevip

// Keys of the ConfigMap for namespaces. Append the name of a namespace, or "global" for
// all namespaces without such a key.
const (
	// KeyCIDR contains the addresses of the namespace's pool. Ranges are accepted too.
	// The first and last address of an IPv4 network are excluded. IPv4 addresses that
	// end in .0 or .255 are excluded in networks and ranges. The value 0.0.0.0/32 or
	// ::/128, alone or among others, means an address of that family assigned by DHCP.
	//
	// Type: list of networks, of both IP families, separated by commas
	// Default: no pool
	// Impact: Services keep their addresses; pending Services are retried
	KeyCIDR = "cidr-"

	// KeyRange contains the addresses as ranges. If a namespace has both networks and
	// ranges, the networks are used. cidr-global takes precedence over the ranges of a
	// namespace, unless pool-precedence changes that.
	//
	// Type: list of ranges FIRST-LAST, of both IP families, separated by commas
	// Default: no pool
	// Impact: Services keep their addresses; pending Services are retried
	KeyRange = "range-"

	// KeyInterface selects the interface for announcing Services of the namespace that
	// do not select one themselves.
	//
	// Type: name of an interface
	// Default: none
	// Impact: if Fairlead announces, nodes without the interface hand over their addresses; otherwise none until a Service gets an address
	KeyInterface = "interface-"

	// KeyShare lets Services of the namespace share one address, unless two of them use
	// the same protocol and port.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: none on Services with an address from a pool; Services that share an address assigned by DHCP request new ones
	KeyShare = "allow-share-"

	// KeyShared is an alias of allow-share-.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: the same as allow-share-
	KeyShared = "allow-shared-"

	// KeyQuota limits how many addresses the namespace may have from its pool, or by
	// DHCP. With global, the limit applies to each namespace that uses the global pool. If the value is
	// not a number of 1 or more, no new address is assigned from the pool. This key is
	// specific to Fairlead.
	//
	// Type: number
	// Default: no limit
	// Impact: Services keep their addresses
	KeyQuota = "quota-"
)

// Other keys of the ConfigMap.
const (
	// KeyOrder is the order in which free addresses are assigned: the lowest first, or
	// with desc the highest.
	//
	// Type: "asc" or "desc"
	// Default: "asc"
	// Impact: none on Services with an address
	KeyOrder = "search-order"

	// KeySkipEnds excludes the first and last address of IPv4 networks of /30 or
	// larger.
	//
	// Type: "true" or "false"
	// Default: "true"
	// Impact: Services keep their addresses
	KeySkipEnds = "skip-end-ips-in-cidr"

	// KeyPrecedence selects the key for a namespace that has its own ranges if
	// cidr-global exists too. This key is specific to Fairlead.
	//
	// Type: "cidr-first" or "namespace-first"
	// Default: "cidr-first"
	// Impact: Services keep their addresses
	KeyPrecedence = "pool-precedence"

	// KeyOutside applies to Services that request an address outside every pool that
	// they may use. They get it with a warning. With refuse, or a value that
	// is neither, they are pending until they request another one. This key is specific to Fairlead.
	//
	// Type: "honour" or "refuse"
	// Default: "honour"
	// Impact: Services keep their addresses; pending Services are retried
	KeyOutside = "outside-pools"
)
