package ovn

import "fairlead.io/internal/lb"

// Reasons of what the northbound database has, or lacks.
const (
	RouterMissing           lb.Code = "RouterMissing"
	SwitchMissing           lb.Code = "SwitchMissing"
	GatewayMissing          lb.Code = "GatewayMissing"
	SeveralGateways         lb.Code = "SeveralGateways"
	VIPConflict             lb.Code = "VIPConflict"
	VIPContested            lb.Code = "VIPContested"
	NorthboundUnavailable   lb.Code = "NorthboundUnavailable"
	NorthdBehind            lb.Code = "NorthdBehind"
	BackendsOutside         lb.Code = "BackendsOutside"
	SourceRangesUnsupported lb.Code = "SourceRangesUnsupported"
	SourceRangesIgnored     lb.Code = "SourceRangesIgnored"
	RowsOrphaned            lb.Code = "RowsOrphaned"
)

// Reasons of this backend.
var Reasons = lb.Table{
	RouterMissing: {On: "Service", Warning: true,
		Means: "The northbound database has no logical router with the name of the Service's router. Fairlead never creates one.",
		Do:    "Check that the project's Vpc is ready, or correct the router's name. Fairlead continues when the router appears.",
		Text:  "OVN has no logical router %s. Fairlead waits for it.", Sample: []any{"shalb-dev"}},
	SwitchMissing: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "A logical switch of the Service's project does not exist. Clients and pods on it do not reach the address; everybody else does.",
		Do:    "Check that the project's Subnets are ready, or correct the names. Fairlead attaches the load balancer when the switch appears.",
		Text:  "OVN has no logical switch %s. Pods on it do not reach the address until it exists.", Sample: []any{"shalb-dev-default"}},
	GatewayMissing: {On: "Service", Warning: true,
		Means: "The router has no gateway port to the external network, so nobody outside reaches the address. It is not published.",
		Do:    "Attach the external subnet to the Vpc, and check that gateway nodes are labelled. Fairlead continues when the port appears.",
		Text:  "Logical router %s has no gateway port%s. The address is published when there is one.", Sample: []any{"shalb-dev", " shalb-dev-ext-public"}},
	SeveralGateways: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The router has several gateway ports, and OVN before 25.03 serves load balancers on one of them only, unless it is patched as kube-ovn's.",
		Do:    "Test the address from outside. If it does not answer, use OVN 25.03 or kube-ovn's image.",
		Text:  "Logical router %s has several gateway ports (%s), and OVN %s may serve load balancers on one of them only. Test the address from outside.", Sample: []any{"shalb-dev", "shalb-dev-ext-cloud and shalb-dev-ext-public", "23.03.1"}},
	VIPConflict: {On: "Service", Warning: true,
		Means: "Another load balancer on the same router or switch has the address and port, or one of another Service of the cluster has the address on another router. Fairlead did not make it for this Service, and does not touch it. Until it is gone, nothing is added or changed for the Service; only addresses that the Service no longer has are removed.",
		Do:    "Remove the other load balancer, or choose another address or port. Fairlead continues when the port is free.",
		Text:  "%s is taken in OVN: %s. Fairlead adds nothing for this Service until it is free.", Sample: []any{"168.119.17.52:443", "load balancer shalb-dev-other-tcp on router shalb-dev has it"}},
	VIPContested: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "Somebody made another load balancer with the Service's address and port on the same router or switch. OVN does not define which one answers.",
		Do:    "Remove the other load balancer.",
		Text:  "%s is in OVN twice: %s as well. OVN may use either. Remove the other one.", Sample: []any{"168.119.17.52:443", "load balancer theirs on router shalb-dev has it"}},
	NorthboundUnavailable: {On: "Service", Warning: true,
		Means: "The northbound database of OVN does not answer, or has no leader. What OVN serves already goes on working.",
		Do:    "Check the database's pods and the setting ovn.northbound. Fairlead reconnects by itself, and then looks at all Services.",
		Text:  "The northbound database of OVN cannot be used: %s. Fairlead tries again.", Sample: []any{"tcp:ovn-nb.kube-system.svc:6641: connection refused"}},
	NorthdBehind: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "ovn-northd did not confirm within five seconds that it has translated the load balancer. The address is published all the same.",
		Do:    "Check that ovn-northd runs.",
		Text:  "ovn-northd has not confirmed the load balancer within %s. The address may not answer yet. Check that ovn-northd runs.", Sample: []any{"5s"}},
	BackendsOutside: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "Some endpoints are in no network of the router, such as pods with host network or of another project. They get no traffic.",
		Do:    "Run the pods in a Subnet of the project.",
		Text:  "Logical router %s does not reach these endpoints, so they get no traffic: %s.", Sample: []any{"shalb-dev", "192.168.1.10"}},
	SourceRangesUnsupported: {On: "Service", Warning: true,
		Means: "The Service has loadBalancerSourceRanges that cannot be enforced in OVN: a gateway port of the router is not connected to a logical switch, or the ranges are too many. The Service would be open to everybody, so it gets no load balancer.",
		Do:    "Fix what the message names, or remove loadBalancerSourceRanges. Fairlead continues when they can be enforced.",
		Text:  "loadBalancerSourceRanges cannot be enforced in OVN: %s. The Service is not served. Fix this, or remove loadBalancerSourceRanges.", Sample: []any{"no logical switch leads to the router's port shalb-dev-ext-public"}},
	SourceRangesIgnored: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The Service has loadBalancerSourceRanges that cannot be enforced everywhere in OVN: a gateway port of the router is not connected to a logical switch, or the ranges are too many. The Service had its address before, so it is still served. Other clients may reach it.",
		Do:    "Fix what the message names, or filter in the project's allow list.",
		Text:  "loadBalancerSourceRanges cannot be enforced in OVN: %s. Other clients may reach the Service.", Sample: []any{"no logical switch leads to the router's port shalb-dev-ext-public"}},
	RowsOrphaned: {On: "Service", Warning: true, Event: true,
		Means: "A load balancer or a source filter in OVN was made for a Service of this cluster that no longer exists. Fairlead removes it.",
		Do:    "Nothing.",
		Text:  "In OVN, %s %s was made for Service %s, which no longer exists. Fairlead removes it.", Sample: []any{"load balancer", "shalb-dev-etcd-lb-tcp", "shalb-dev/etcd-lb"}},
}
