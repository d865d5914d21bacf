package kubedc

// Annotations that users set on a Service.
const (
	// AnnotationDefaultGateway serves the Service at the address of the project's
	// gateway, the EIp default-gw. Several Services can use it if their ports differ.
	//
	// Type: "true" or "false"
	// Default: "false"
	// Impact: the Service moves to the other address as soon as that is ready
	AnnotationDefaultGateway = "service.nlb.kube-dc.com/bind-on-default-gw-eip"

	// AnnotationEIp serves the Service at the address of an EIp of its namespace.
	// Several Services can use it if their ports differ. Fairlead does not delete it.
	//
	// Type: name of an EIp
	// Default: Fairlead creates an EIp for the Service, and deletes it with the Service
	// Impact: the Service moves to the other address as soon as that is ready
	AnnotationEIp = "service.nlb.kube-dc.com/bind-on-eip"

	// AnnotationNetworkType is the type of the external network from which the Service
	// gets its address.
	//
	// Type: public or cloud
	// Default: the egressNetworkType of the project
	// Impact: none for a Service that has an address (reason NetworkTypeFixed)
	AnnotationNetworkType = "network.kube-dc.com/external-network-type"

	// AnnotationOldNetworkType is an older name of the same. It only counts without the
	// other one.
	//
	// Type: public or cloud
	// Default: the egressNetworkType of the project
	// Impact: none for a Service that has an address (reason NetworkTypeFixed)
	AnnotationOldNetworkType = "service.nlb.kube-dc.com/external-network-type"
)

// Annotations that operators set on a Namespace where there is no kube-dc.
const (
	// AnnotationRouter is the logical router that serves the Services of the namespace.
	// It counts before what kube-dc's and kube-ovn's objects say.
	//
	// Type: name of a Logical_Router
	// Default: that of the namespace's Vpc or Project
	// Impact: load balancers move to the other router
	AnnotationRouter = "fairlead.io/ovn-router"

	// AnnotationSwitches lists the logical switches whose pods and VMs reach the Services
	// of the namespace at their external addresses.
	//
	// Type: list of names of Logical_Switches, separated by commas
	// Default: none with fairlead.io/ovn-router; else those of the namespace's Vpc
	// Impact: load balancers are added to these switches, and removed from others
	AnnotationSwitches = "fairlead.io/ovn-switches"
)
