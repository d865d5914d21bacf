package kubevip

// Keys of the ConfigMap for namespaces. They end in a hyphen and go on with the name of
// a namespace, or with "global" for all namespaces that have no such key.
const (
	// KeyCIDR has the addresses of the namespace's pool. What is written as a range
	// is read as a range. The first and last address of an IPv4 network are left
	// out; and so is, in networks and ranges, every IPv4 address that ends in .0
	// or .255. The value 0.0.0.0/32 or ::/128, alone or among others, stands for an
	// address of that family from a DHCP server of the LAN.
	//
	// Type: list of networks, of both IP families, separated by commas
	// Default: no pool
	// Impact: Services keep the addresses they have; those that wait are tried again
	KeyCIDR = "cidr-"

	// KeyRange has the same as ranges. Of a network and ranges for one namespace, the
	// network counts; cidr-global counts before the ranges of a namespace, unless
	// pool-precedence says otherwise.
	//
	// Type: list of ranges FIRST-LAST, of both IP families, separated by commas
	// Default: no pool
	// Impact: Services keep the addresses they have; those that wait are tried again
	KeyRange = "range-"

	// KeyInterface names the interface on which Services of the namespace are
	// announced that name none themselves.
	//
	// Type: name of an interface
	// Default: none
	// Impact: where Fairlead announces, nodes that do not have it hand addresses over; otherwise none before a Service gets an address
	KeyInterface = "interface-"

	// KeyShare lets Services of the namespace live on one address, as long as no two
	// have the same protocol and port.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: none on Services that have an address of a pool; those that share one from a DHCP server ask for others
	KeyShare = "allow-share-"

	// KeyShared is another spelling of allow-share-.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: as allow-share-
	KeyShared = "allow-shared-"

	// KeyQuota limits how many addresses the namespace may have from its pool; with
	// global, each namespace that uses the global one. It is Fairlead's own.
	//
	// Type: number
	// Default: no limit
	// Impact: Services keep the addresses they have
	KeyQuota = "quota-"
)

// Other keys of the ConfigMap.
const (
	// KeyOrder says which of the free addresses is given first: the lowest, or with
	// desc the highest.
	//
	// Type: "asc" or "desc"
	// Default: "asc"
	// Impact: none on Services that have an address
	KeyOrder = "search-order"

	// KeySkipEnds says whether the first and last address of an IPv4 network of /30
	// or larger are left out.
	//
	// Type: "true" or "false"
	// Default: "true"
	// Impact: Services keep the addresses they have
	KeySkipEnds = "skip-end-ips-in-cidr"

	// KeyPrecedence says which key counts for a namespace that has ranges of its own
	// where there is also cidr-global. It is Fairlead's own.
	//
	// Type: "cidr-first" or "namespace-first"
	// Default: "cidr-first"
	// Impact: Services keep the addresses they have
	KeyPrecedence = "pool-precedence"

	// KeyOutside says what becomes of Services that ask for an address outside of
	// every pool that they may use: they get it, and are warned, or with refuse they
	// wait until they ask for another. It is Fairlead's own.
	//
	// Type: "honour" or "refuse"
	// Default: "honour"
	// Impact: Services keep the addresses they have; those that wait are tried again
	KeyOutside = "outside-pools"
)
