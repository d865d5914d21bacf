package cloudscale

import "fairlead.io/internal/lb"

// prefix of all annotations.
const prefix = "k8s.cloudscale.ch/"

// Annotations on Services. One that is present is read as it is, also if it is
// empty; defaults are for those that are absent.
const (
	AnnotationUUID                 = prefix + "loadbalancer-uuid"
	AnnotationConfigVersion        = prefix + "loadbalancer-config-version"
	AnnotationName                 = prefix + "loadbalancer-name"
	AnnotationFlavor               = prefix + "loadbalancer-flavor"
	AnnotationZone                 = prefix + "loadbalancer-zone"
	AnnotationVIPAddresses         = prefix + "loadbalancer-vip-addresses"
	AnnotationFloatingIPs          = prefix + "loadbalancer-floating-ips"
	AnnotationPoolAlgorithm        = prefix + "loadbalancer-pool-algorithm"
	AnnotationPoolProtocol         = prefix + "loadbalancer-pool-protocol"
	AnnotationForceHostname        = prefix + "loadbalancer-force-hostname"
	AnnotationIPMode               = prefix + "loadbalancer-ip-mode"
	AnnotationMonitorDelay         = prefix + "loadbalancer-health-monitor-delay-s"
	AnnotationMonitorTimeout       = prefix + "loadbalancer-health-monitor-timeout-s"
	AnnotationMonitorUpThreshold   = prefix + "loadbalancer-health-monitor-up-threshold"
	AnnotationMonitorDownThreshold = prefix + "loadbalancer-health-monitor-down-threshold"
	AnnotationMonitorType          = prefix + "loadbalancer-health-monitor-type"
	AnnotationMonitorHTTP          = prefix + "loadbalancer-health-monitor-http"
	AnnotationListenerProtocol     = prefix + "loadbalancer-listener-protocol"
	AnnotationAllowedCIDRs         = prefix + "loadbalancer-listener-allowed-cidrs"
	AnnotationTimeoutClientData    = prefix + "loadbalancer-timeout-client-data-ms"
	AnnotationTimeoutMemberConnect = prefix + "loadbalancer-timeout-member-connect-ms"
	AnnotationTimeoutMemberData    = prefix + "loadbalancer-timeout-member-data-ms"
	AnnotationAllowedSubnets       = prefix + "loadbalancer-listener-allowed-subnets"
	AnnotationNodeSelector         = prefix + "loadbalancer-node-selector"
)

// Manual is the class of a change in the manual of cloudscale's own controller.
type Manual string

// The manual's classes.
const (
	ManualNone         Manual = "no impact"
	ManualMinimal      Manual = "minimal impact"
	Manual15Seconds    Manual = "up to 15 s"
	ManualConsiderable Manual = "60 s to 120 s"
	ManualMajor        Manual = "not allowed"
	ManualSilent       Manual = "" // not in the manual
)

// Impact is what the class means in our words.
func (m Manual) Impact() lb.Impact {
	switch m {
	case ManualNone:
		return lb.ImpactNone
	case ManualMinimal:
		return lb.ImpactNewConnections
	case Manual15Seconds:
		return lb.ImpactSeconds
	case ManualConsiderable:
		return lb.ImpactMinutes
	case ManualMajor, ManualSilent:
		return lb.ImpactRefused
	default:
		return lb.ImpactNone
	}
}

// Annotation says what an annotation means, and what it costs to change it on a
// Service that is served.
type Annotation struct {
	Key     string
	Type    string
	Default string
	Means   string
	Impact  lb.Impact
	Manual  Manual
	How     string // how the change is made, where that differs from the manual
}

// algorithms, protocols and so on are all values that there are.
var (
	algorithms        = []string{"round_robin", "least_connections", "source_ip"}
	poolProtocols     = []string{"tcp", "proxy", "proxyv2"}
	listenerProtocols = []string{"tcp"}
	monitorTypes      = []string{"ping", "tcp", "http", "https", "tls-hello", "udp-connect"}
	httpMethods       = []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
	httpVersions      = []string{"1.0", "1.1"}
	ipModes           = []string{"Proxy", "VIP"}
)

const (
	replaced  = "A new pool is filled beside the old one; then the listener is made anew on it."
	monitored = "The monitor is changed in place."
)

// Annotations are all that there are.
var Annotations = []Annotation{
	{Key: AnnotationUUID, Type: "UUID", Impact: lb.ImpactRefused,
		Means: "The load balancer of the Service. Written when it is found or made. If there is none with this UUID, it is looked for by its name. Pointing it to another one is refused as long as the Service's own exists."},
	{Key: AnnotationConfigVersion, Type: `"1" or "2"`, Default: `"2" for new load balancers, "1" for those that were there before`, Impact: lb.ImpactSeconds,
		Means: "By which rules the Service is read. Written when the load balancer is found or made. With 1 it is read as cloudscale's controller does. With 2, spec.sessionAffinity, spec.loadBalancerSourceRanges and spec.loadBalancerIP count, floating IPs are published, and UDP ports are monitored by UDP. Set it to 2 to change over."},
	{Key: AnnotationName, Type: "text", Default: "k8s-service-UID", Impact: lb.ImpactNone, Manual: ManualNone,
		Means: "Name of the load balancer."},
	{Key: AnnotationFlavor, Type: "slug", Default: "lb-standard", Impact: lb.ImpactRefused, Manual: ManualMajor,
		Means: "Flavor of the load balancer."},
	{Key: AnnotationZone, Type: "slug", Default: "the zone of the nodes", Impact: lb.ImpactRefused, Manual: ManualMajor,
		Means: "Zone of the load balancer. Written when it is found or made. Needed if the nodes are in several zones."},
	{Key: AnnotationVIPAddresses, Type: `JSON list of {"subnet": UUID, "address": IP}`, Default: "[], a public IPv4 and a public IPv6 address", Impact: lb.ImpactRefused, Manual: ManualMajor,
		Means: "Addresses of a private load balancer. The address may be left out."},
	{Key: AnnotationFloatingIPs, Type: `JSON list of networks, like ["192.0.2.9/32"]`, Default: "[]", Impact: lb.ImpactNewConnections, Manual: ManualMinimal,
		Means: "Floating IPs that point to the load balancer. One that two Services ask for is moved for neither. One that is taken off the list stays where it is."},
	{Key: AnnotationPoolAlgorithm, Type: "round_robin, least_connections or source_ip", Default: "round_robin; with version 2 and sessionAffinity ClientIP source_ip", Impact: lb.ImpactSeconds, Manual: ManualConsiderable, How: replaced,
		Means: "How connections are spread."},
	{Key: AnnotationPoolProtocol, Type: "tcp, proxy or proxyv2", Default: "tcp", Impact: lb.ImpactSeconds, Manual: ManualConsiderable, How: replaced,
		Means: "Whether nodes are told the client's address by the PROXY protocol. For TCP ports; pools of UDP ports speak udp."},
	{Key: AnnotationForceHostname, Type: "host name", Default: "none", Impact: lb.ImpactNone,
		Means: "Published instead of the addresses, so that pods reach the Service through the load balancer."},
	{Key: AnnotationIPMode, Type: "Proxy or VIP", Default: "Proxy", Impact: lb.ImpactNone,
		Means: "Published with the addresses: with Proxy, pods reach the Service through the load balancer; with VIP, without it."},
	{Key: AnnotationMonitorDelay, Type: "seconds", Default: "2; with version 2 and type udp-connect 3", Impact: lb.ImpactNewConnections, Manual: ManualMinimal, How: monitored,
		Means: "Time between two checks of a member."},
	{Key: AnnotationMonitorTimeout, Type: "seconds", Default: "1; with version 2 and type udp-connect 2", Impact: lb.ImpactNewConnections, Manual: ManualMinimal, How: monitored,
		Means: "How long a check may take."},
	{Key: AnnotationMonitorUpThreshold, Type: "number", Default: "2", Impact: lb.ImpactNewConnections, Manual: ManualMinimal, How: monitored,
		Means: "So many checks have to succeed before a member gets connections."},
	{Key: AnnotationMonitorDownThreshold, Type: "number", Default: "3", Impact: lb.ImpactNewConnections, Manual: ManualMinimal, How: monitored,
		Means: "So many checks have to fail before a member gets none."},
	{Key: AnnotationMonitorType, Type: "ping, tcp, http, https, tls-hello or udp-connect", Default: "tcp", Impact: lb.ImpactNewConnections, Manual: ManualMinimal,
		Means: "How members are checked. With externalTrafficPolicy Local it is always http. With version 2, a port that cannot be checked in this way, UDP by tcp or TCP by udp-connect, is checked by its own protocol."},
	{Key: AnnotationMonitorHTTP, Type: "JSON object with expected_codes, method, url_path, version and host", Default: `{}: a GET of / by version 1.1 that is answered with 200; with externalTrafficPolicy Local a GET of /livez by version 1.0`, Impact: lb.ImpactNewConnections, Manual: ManualMinimal,
		Means: "What a monitor of type http or https asks for. expected_codes is a list of codes, or of one range like 200-204."},
	{Key: AnnotationListenerProtocol, Type: "tcp", Default: "tcp", Impact: lb.ImpactNone,
		Means: "Protocol of listeners of TCP ports; there is only one. Those of UDP ports speak udp."},
	{Key: AnnotationAllowedCIDRs, Type: `JSON list of networks or addresses, like ["192.0.2.0/24"]`, Default: "[], everybody; with version 2 spec.loadBalancerSourceRanges", Impact: lb.ImpactNewConnections, Manual: ManualMinimal,
		Means: "Who may connect."},
	{Key: AnnotationTimeoutClientData, Type: "milliseconds", Default: "50000", Impact: lb.ImpactNone, Manual: ManualNone,
		Means: "How long a client may be silent."},
	{Key: AnnotationTimeoutMemberConnect, Type: "milliseconds", Default: "5000", Impact: lb.ImpactNone, Manual: ManualNone,
		Means: "How long connecting to a member may take."},
	{Key: AnnotationTimeoutMemberData, Type: "milliseconds", Default: "50000", Impact: lb.ImpactNone, Manual: ManualNone,
		Means: "How long a member may be silent."},
	{Key: AnnotationAllowedSubnets, Type: "JSON list of UUIDs of subnets", Default: "[], all", Impact: lb.ImpactNone, Manual: ManualConsiderable,
		How:   "Members in the new subnets come first; the others go one after the other, as long as another one works.",
		Means: "Only addresses of nodes in these subnets become members."},
	{Key: AnnotationNodeSelector, Type: "label selector", Default: "all nodes", Impact: lb.ImpactNone,
		How:   "New members come first; the others go one after the other, as long as another one works.",
		Means: "Only nodes with these labels become members."},
}

// SpecChange is a change of a Service, or of the nodes, that is no annotation.
type SpecChange struct {
	What   string
	Impact lb.Impact
	Manual Manual
	How    string
}

// Changes of Services and nodes, in the order of the reference.
var (
	PortAdded       = SpecChange{"A port is added", lb.ImpactNone, ManualNone, "The other ports are not touched."}
	PortRemoved     = SpecChange{"A port is removed", lb.ImpactNewConnections, ManualSilent, "The other ports are not touched."}
	PortNumber      = SpecChange{"The number of a port is changed, its name is not", lb.ImpactNewConnections, Manual15Seconds, "The pool stays. The new listener is there before the old one goes."}
	PortRenamed     = SpecChange{"The name of a port is changed, its number is not", lb.ImpactNone, ManualConsiderable, "The pool gets the new name, and stays."}
	PortReplaced    = SpecChange{"Name and number of a port are changed", lb.ImpactNewConnections, ManualConsiderable, "The new pool and its listener are there before the old ones go."}
	NodePortChanged = SpecChange{"The node port of a port is changed", lb.ImpactNone, ManualSilent, "New members come first; the others go when a new one works."}
	TrafficPolicy   = SpecChange{"externalTrafficPolicy is changed", lb.ImpactNewConnections, ManualConsiderable, "Members are made anew one after the other, as long as another one works. With a single node: seconds."}
	NodeAdded       = SpecChange{"A node is added", lb.ImpactNone, ManualSilent, ""}
	NodeRemoved     = SpecChange{"A node is removed, drained or excluded", lb.ImpactNone, ManualSilent, "Its members get no new connections for a while before they are deleted."}
	NoNodes         = SpecChange{"The last node is removed or excluded", lb.ImpactMinutes, ManualSilent, "Nobody is left to serve."}

	SpecChanges = []SpecChange{PortAdded, PortRemoved, PortNumber, PortRenamed, PortReplaced, NodePortChanged, TrafficPolicy, NodeAdded, NodeRemoved, NoNodes}
)
