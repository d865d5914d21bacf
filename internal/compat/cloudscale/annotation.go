package cloudscale

import "fairlead.io/internal/lb"

// prefix of all annotations.
const prefix = "k8s.cloudscale.ch/"

// AnnotationCreating is when Fairlead began to make the load balancer of a Service. It
// is there until the load balancer is known.
const AnnotationCreating = "fairlead.io/creating-since"

// Annotations on Services. A present annotation is used even if it is empty;
// defaults apply to absent ones.
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
	replaced  = "Fairlead fills a new pool next to the old one, then recreates the listener on it."
	monitored = "Fairlead updates the monitor in place."
)

// Annotations are all that there are.
var Annotations = []Annotation{
	{Key: AnnotationUUID, Type: "UUID", Impact: lb.ImpactRefused,
		Means: "Load balancer of the Service. Fairlead writes it when it finds or creates the load balancer. If no load balancer has this UUID, Fairlead searches for it by name. Changing it to another load balancer is refused while the Service's own exists."},
	{Key: AnnotationConfigVersion, Type: `"1" or "2"`, Default: `"2" for new load balancers, "1" for adopted ones`, Impact: lb.ImpactSeconds,
		Means: "Version of the rules for this Service. Fairlead writes it when it finds or creates the load balancer. Version 1 behaves like cloudscale's controller. Version 2 uses spec.sessionAffinity, spec.loadBalancerSourceRanges and spec.loadBalancerIP, publishes floating IPs, and monitors UDP ports by UDP. Set it to 2 to switch."},
	{Key: AnnotationName, Type: "text", Default: "k8s-service-UID", Impact: lb.ImpactNone, Manual: ManualNone,
		Means: "Name of the load balancer."},
	{Key: AnnotationFlavor, Type: "slug", Default: "lb-standard", Impact: lb.ImpactRefused, Manual: ManualMajor,
		Means: "Flavor of the load balancer."},
	{Key: AnnotationZone, Type: "slug", Default: "the zone of the nodes", Impact: lb.ImpactRefused, Manual: ManualMajor,
		Means: "Zone of the load balancer. Fairlead writes it when it finds or creates the load balancer. Required if the nodes are in several zones."},
	{Key: AnnotationVIPAddresses, Type: `JSON list of {"subnet": UUID, "address": IP}`, Default: "[], a public IPv4 and a public IPv6 address", Impact: lb.ImpactRefused, Manual: ManualMajor,
		Means: "Addresses of a private load balancer. The address is optional."},
	{Key: AnnotationFloatingIPs, Type: `JSON list of networks, like ["192.0.2.9/32"]`, Default: "[]", Impact: lb.ImpactNewConnections, Manual: ManualMinimal,
		Means: "Floating IPs that point to the load balancer. If two Services request the same one, Fairlead does not move it. A floating IP that is removed from the list stays where it is."},
	{Key: AnnotationPoolAlgorithm, Type: "round_robin, least_connections or source_ip", Default: "round_robin; with version 2 and sessionAffinity ClientIP: source_ip", Impact: lb.ImpactSeconds, Manual: ManualConsiderable, How: replaced,
		Means: "Algorithm for distributing connections."},
	{Key: AnnotationPoolProtocol, Type: "tcp, proxy or proxyv2", Default: "tcp", Impact: lb.ImpactSeconds, Manual: ManualConsiderable, How: replaced,
		Means: "proxy and proxyv2 send the client's address to the nodes with the PROXY protocol. For TCP ports only; pools of UDP ports always use udp."},
	{Key: AnnotationForceHostname, Type: "host name", Default: "none", Impact: lb.ImpactNone,
		Means: "Host name to publish instead of the addresses, so that pods reach the Service through the load balancer."},
	{Key: AnnotationIPMode, Type: "Proxy or VIP", Default: "Proxy", Impact: lb.ImpactNone,
		Means: "ipMode to publish with the addresses. Proxy: pods reach the Service through the load balancer. VIP: they reach it directly."},
	{Key: AnnotationMonitorDelay, Type: "seconds", Default: "2; with version 2 and type udp-connect: 3", Impact: lb.ImpactNewConnections, Manual: ManualMinimal, How: monitored,
		Means: "Interval between two health checks of a member."},
	{Key: AnnotationMonitorTimeout, Type: "seconds", Default: "1; with version 2 and type udp-connect: 2", Impact: lb.ImpactNewConnections, Manual: ManualMinimal, How: monitored,
		Means: "Timeout of a health check."},
	{Key: AnnotationMonitorUpThreshold, Type: "number", Default: "2", Impact: lb.ImpactNewConnections, Manual: ManualMinimal, How: monitored,
		Means: "Number of successful health checks before a member gets connections."},
	{Key: AnnotationMonitorDownThreshold, Type: "number", Default: "3", Impact: lb.ImpactNewConnections, Manual: ManualMinimal, How: monitored,
		Means: "Number of failed health checks before a member gets no more connections."},
	{Key: AnnotationMonitorType, Type: "ping, tcp, http, https, tls-hello or udp-connect", Default: "tcp", Impact: lb.ImpactNewConnections, Manual: ManualMinimal,
		Means: "Type of the health check. With externalTrafficPolicy Local it is always http. With version 2, a port that does not support the type (UDP with tcp, TCP with udp-connect) is checked with its own protocol."},
	{Key: AnnotationMonitorHTTP, Type: "JSON object with expected_codes, method, url_path, version and host", Default: `{}: GET / with HTTP 1.1, expecting 200; with externalTrafficPolicy Local: GET /livez with HTTP 1.0`, Impact: lb.ImpactNewConnections, Manual: ManualMinimal,
		Means: "Request of a health check of type http or https. expected_codes is a list of codes, or of one range like 200-204."},
	{Key: AnnotationListenerProtocol, Type: "tcp", Default: "tcp", Impact: lb.ImpactNone,
		Means: "Protocol of listeners for TCP ports; tcp is the only one. Listeners for UDP ports always use udp."},
	{Key: AnnotationAllowedCIDRs, Type: `JSON list of networks or addresses, like ["192.0.2.0/24"]`, Default: "[], all clients; with version 2: spec.loadBalancerSourceRanges", Impact: lb.ImpactNewConnections, Manual: ManualMinimal,
		Means: "Networks of the clients that may connect."},
	{Key: AnnotationTimeoutClientData, Type: "milliseconds", Default: "50000", Impact: lb.ImpactNone, Manual: ManualNone,
		Means: "Timeout for data from a client."},
	{Key: AnnotationTimeoutMemberConnect, Type: "milliseconds", Default: "5000", Impact: lb.ImpactNone, Manual: ManualNone,
		Means: "Timeout for connecting to a member."},
	{Key: AnnotationTimeoutMemberData, Type: "milliseconds", Default: "50000", Impact: lb.ImpactNone, Manual: ManualNone,
		Means: "Timeout for data from a member."},
	{Key: AnnotationAllowedSubnets, Type: "JSON list of UUIDs of subnets", Default: "[], all", Impact: lb.ImpactNone, Manual: ManualConsiderable,
		How:   "Fairlead adds members in the new subnets first, then removes the others one by one while another one works.",
		Means: "Only node addresses in these subnets become members."},
	{Key: AnnotationNodeSelector, Type: "label selector", Default: "all nodes", Impact: lb.ImpactNone,
		How:   "Fairlead adds new members first, then removes the others one by one while another one works.",
		Means: "Only nodes with these labels become members."},
}

// SpecChange is a change of a Service, or of the nodes, other than an annotation.
type SpecChange struct {
	What   string
	Impact lb.Impact
	Manual Manual
	How    string
}

// Changes of Services and nodes, in the order of the reference.
var (
	PortAdded       = SpecChange{"A port is added", lb.ImpactNone, ManualNone, "The other ports are not affected."}
	PortRemoved     = SpecChange{"A port is removed", lb.ImpactNewConnections, ManualSilent, "The other ports are not affected."}
	PortNumber      = SpecChange{"The number of a port is changed, its name is not", lb.ImpactNewConnections, Manual15Seconds, "The pool stays. Fairlead creates the new listener before it deletes the old one."}
	PortRenamed     = SpecChange{"The name of a port is changed, its number is not", lb.ImpactNone, ManualConsiderable, "The pool stays and gets the new name."}
	PortReplaced    = SpecChange{"The name and the number of a port are changed", lb.ImpactNewConnections, ManualConsiderable, "Fairlead creates the new pool and its listener before it deletes the old ones."}
	NodePortChanged = SpecChange{"The node port of a port is changed", lb.ImpactNone, ManualSilent, "Fairlead adds new members first, and removes the others when a new one works."}
	TrafficPolicy   = SpecChange{"externalTrafficPolicy is changed", lb.ImpactNewConnections, ManualConsiderable, "Fairlead recreates members one by one while another one works. With a single node: seconds."}
	NodeAdded       = SpecChange{"A node is added", lb.ImpactNone, ManualSilent, ""}
	NodeRemoved     = SpecChange{"A node is removed, drained or excluded", lb.ImpactNone, ManualSilent, "Fairlead drains its members before it deletes them."}
	NoNodes         = SpecChange{"The last node is removed or excluded", lb.ImpactMinutes, ManualSilent, "No member is left."}

	SpecChanges = []SpecChange{PortAdded, PortRemoved, PortNumber, PortRenamed, PortReplaced, NodePortChanged, TrafficPolicy, NodeAdded, NodeRemoved, NoNodes}
)
