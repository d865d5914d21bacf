package kubevip

// Annotations of kube-vip that people set on a Service.
const (
	// AnnotationAddresses asks for addresses: one, or one of each IP family,
	// separated by a comma; 0.0.0.0 or :: asks for one from a DHCP server of the
	// LAN. They may be outside of every pool, which is told of. spec.loadBalancerIP
	// asks for one as well. With backend kube-vip, Fairlead writes it on Services
	// that ask for nothing.
	//
	// Type: list of addresses
	// Default: the lowest free address of the namespace's pool
	// Impact: the Service moves as soon as it can have the new address, and keeps the old one until then
	AnnotationAddresses = "kube-vip.io/loadbalancerIPs"

	// AnnotationInterface names the interface on which the Service is announced. With
	// backend kube-vip, Fairlead writes the one that the ConfigMap has for the
	// namespace, together with the address.
	//
	// Type: name of an interface
	// Default: the ConfigMap's for the namespace; then $vip_servicesinterface or $vip_interface of the agents; then any that fits
	// Impact: nodes that do not have the interface hand the Service's addresses over
	AnnotationInterface = "kube-vip.io/serviceInterface"

	// AnnotationIgnore leaves a Service alone, where Fairlead announces. Where kube-vip
	// does, the Service gets an address, and kube-vip leaves it alone.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: the Service is no longer served, and its address becomes free
	AnnotationIgnore = "kube-vip.io/ignore"

	// AnnotationHostname is the name that the Service has for a DHCP server.
	//
	// Type: name of a host
	// Default: none
	// Impact: told to the server with the next renewal
	AnnotationHostname = "kube-vip.io/loadbalancerHostname"

	// AnnotationRequestedIP is the address that the Service would like from a DHCP
	// server.
	//
	// Type: address
	// Default: whatever the server gives
	// Impact: none before the Service needs a new lease
	AnnotationRequestedIP = "kube-vip.io/requestedIP"

	// AnnotationHardwareAddress is the hardware address that the Service has for a DHCP
	// server, which may have an address reserved for it.
	//
	// Type: MAC address
	// Default: one that follows from the Service
	// Impact: the Service gets a new lease, and may get another address
	AnnotationHardwareAddress = "kube-vip.io/hwaddr"
)

// Annotations of kube-vip that Fairlead writes on a Service.
const (
	// AnnotationHost names the node that announces the first address of the Service,
	// where Fairlead announces.
	//
	// Type: name of a Node
	// Default: written by Fairlead
	// Impact: none; changes made by hand are overwritten
	AnnotationHost = "kube-vip.io/vipHost"
)
