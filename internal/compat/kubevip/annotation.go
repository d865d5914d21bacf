package kubevip

// Annotations of kube-vip that users set on a Service.
const (
	// AnnotationAddresses requests addresses: one, or one of each IP family,
	// separated by a comma. 0.0.0.0 or :: requests an address by DHCP. An address may
	// be outside every pool; the Service then gets a warning. spec.loadBalancerIP also
	// requests an address. With backend kube-vip, Fairlead writes this annotation on
	// Services without a request.
	//
	// Type: list of addresses
	// Default: the lowest free address of the namespace's pool
	// Impact: the Service keeps its address until the new one is available, then moves
	AnnotationAddresses = "kube-vip.io/loadbalancerIPs"

	// AnnotationInterface selects the interface on which the Service is announced. With
	// backend kube-vip, Fairlead writes the interface of the namespace from the
	// ConfigMap, together with the address.
	//
	// Type: name of an interface
	// Default: the interface of the namespace in the ConfigMap; then $vip_servicesinterface or $vip_interface of the agents; then any suitable interface
	// Impact: nodes without the interface hand over the Service's addresses
	AnnotationInterface = "kube-vip.io/serviceInterface"

	// AnnotationIgnore makes Fairlead ignore a Service, if Fairlead announces. With
	// backend kube-vip, the Service gets an address, and kube-vip ignores it.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: the Service is no longer served, and its address becomes free
	AnnotationIgnore = "kube-vip.io/ignore"

	// AnnotationHostname is the host name of the Service in DHCP requests.
	//
	// Type: host name
	// Default: none
	// Impact: sent to the server with the next renewal
	AnnotationHostname = "kube-vip.io/loadbalancerHostname"

	// AnnotationRequestedIP is the address that the Service requests from a DHCP
	// server.
	//
	// Type: address
	// Default: any address that the server assigns
	// Impact: none until the Service needs a new lease
	AnnotationRequestedIP = "kube-vip.io/requestedIP"

	// AnnotationHardwareAddress is the hardware address of the Service in DHCP requests.
	// The server may reserve an address for it.
	//
	// Type: MAC address
	// Default: derived from the Service
	// Impact: the Service gets a new lease, and possibly another address
	AnnotationHardwareAddress = "kube-vip.io/hwaddr"
)

// Annotations of kube-vip that Fairlead writes on a Service.
const (
	// AnnotationHost contains the node that announces the first address of the Service,
	// if Fairlead announces.
	//
	// Type: name of a Node
	// Default: written by Fairlead
	// Impact: none; Fairlead overwrites manual changes
	AnnotationHost = "kube-vip.io/vipHost"
)
