package lb

// Reasons on Services that a cloud's load balancer serves. Those of events that
// cloud controllers are known for have their names.
const (
	EnsuringLoadBalancer     Code = "EnsuringLoadBalancer"
	EnsuredLoadBalancer      Code = "EnsuredLoadBalancer"
	UpdatedLoadBalancer      Code = "UpdatedLoadBalancer"
	SyncLoadBalancerFailed   Code = "SyncLoadBalancerFailed"
	DeletingLoadBalancer     Code = "DeletingLoadBalancer"
	DeletedLoadBalancer      Code = "DeletedLoadBalancer"
	DeleteLoadBalancerFailed Code = "DeleteLoadBalancerFailed"
	UnAvailableLoadBalancer  Code = "UnAvailableLoadBalancer"
	NoValidNodes             Code = "NoValidNodes"
	NodesSkipped             Code = "NodesSkipped"
	NodesUnknown             Code = "NodesUnknown"
	NodesInSeveralZones      Code = "NodesInSeveralZones"
	ZoneUnknown              Code = "ZoneUnknown"
	ChangeRefused            Code = "ChangeRefused"
	FloatingAddressRefused   Code = "FloatingAddressRefused"
	LoadBalancerAmbiguous    Code = "LoadBalancerAmbiguous"
	LoadBalancerTaken        Code = "LoadBalancerTaken"
	LoadBalancerOrphaned     Code = "LoadBalancerOrphaned"
	CloudBusy                Code = "CloudBusy"
	CloudUnavailable         Code = "CloudUnavailable"
	TokenReadOnly            Code = "TokenReadOnly"
	TokenInvalid             Code = "TokenInvalid"
	DriftRepaired            Code = "DriftRepaired"
	ChangesPlanned           Code = "ChangesPlanned"
	UnknownAnnotation        Code = "UnknownAnnotation"
)

var cloudReasons = map[Code]About{
	EnsuringLoadBalancer: {On: "Service", Event: true,
		Means: "The load balancer is being made.",
		Do:    "Nothing; it takes a minute or two.",
		text:  "The load balancer is being made: %s.", sample: []any{"create load balancer k8s-service-5f1c; impact: none"}},
	EnsuredLoadBalancer: {On: "Service", Ready: true,
		Means: "The Service is served by a load balancer that is as it should be.",
		Do:    "Nothing.",
		text:  "The Service is served by load balancer %s at %s.", sample: []any{"k8s-service-5f1c", "192.0.2.7 and 2001:db8::7"}},
	UpdatedLoadBalancer: {On: "Service", Ready: true, Event: true,
		Means: "The load balancer was changed because the Service or the nodes have changed.",
		Do:    "Nothing; the sentence says what was done, and what it cost.",
		text:  "The load balancer was changed: %s.", sample: []any{"create members 10.0.0.3:30080 of tcp/http; impact: none"}},
	SyncLoadBalancerFailed: {On: "Service", Warning: true,
		Means: "The cloud did not accept a change, or it could not be asked. What was there before is still there.",
		Do:    "Correct what the cloud does not accept. It is tried again by itself.",
		text:  "The load balancer is not as it should be: %s. Correct what the cloud does not accept; it is tried again.", sample: []any{`create load balancer k8s-service-5f1c: flavor: "lb-huge" is not a valid choice`}},
	DeletingLoadBalancer: {On: "Service", Event: true,
		Means: "The Service is gone, and so will be its load balancer.",
		Do:    "Nothing.",
		text:  "The load balancer is being deleted: %s.", sample: []any{"delete load balancer k8s-service-5f1c (new connections)"}},
	DeletedLoadBalancer: {On: "Service", Event: true,
		Means: "Nothing of the Service is left in the cloud.",
		Do:    "Nothing.",
		text:  "The load balancer was deleted."},
	DeleteLoadBalancerFailed: {On: "Service", Warning: true, Event: true,
		Means: "The cloud did not delete the load balancer. The Service stays until it does.",
		Do:    "Do what the sentence says. It is tried again by itself.",
		text:  "The load balancer was not deleted: %s. It is tried again.", sample: []any{"delete load balancer k8s-service-5f1c: 500 Internal Server Error"}},
	UnAvailableLoadBalancer: {On: "Service", Warning: true, Event: true,
		Means: "No node may receive traffic of load balancers: the Service's load balancer has nobody to send it to.",
		Do:    "Add a node, or remove the label node.kubernetes.io/exclude-from-external-load-balancers from one.",
		text:  "There are no available nodes for the load balancer: %s. Add a node, or let one of them receive the traffic of load balancers.", sample: []any{"there is none in the cluster that is not excluded from load balancers"}},
	NoValidNodes: {On: "Service", Warning: true, Event: true,
		Means: "No node is what the Service asks for: its load balancer has nobody to send traffic to.",
		Do:    "Correct the node selector or the allowed subnets, or label a node.",
		text:  "No valid nodes for service found: %s. Double-check the annotation, or the nodes.", sample: []any{`no node has the labels of annotation k8s.cloudscale.ch/loadbalancer-node-selector: "tier=edge"`}},
	NodesSkipped: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "Some nodes get no traffic of the load balancer, because the cloud does not know them or they have no address there. All others do.",
		Do:    "Correct the nodes as the sentence says, or exclude them from load balancers.",
		text:  "Some nodes get no traffic: %s. Correct them, or label them node.kubernetes.io/exclude-from-external-load-balancers.", sample: []any{`node worker-3 has no server: providerID "aws://x" is not of cloudscale`}},
	NodesUnknown: {On: "Service", Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "The cloud knows none of the cluster's nodes, so no load balancer is made: the access token may be that of another project.",
		Do:    "Use an access token of the project in which the nodes are.",
		text:  "The cloud knows none of the nodes: %s. Use an access token of the project in which they are.", sample: []any{"node worker-1 has no server with its providerID"}},
	NodesInSeveralZones: {On: "Service", Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "A load balancer is in one zone, the nodes are in several, and the Service does not say which.",
		Do:    "Set the annotation k8s.cloudscale.ch/loadbalancer-zone, or select nodes of one zone.",
		text:  "The nodes are in several zones: %s. Set annotation k8s.cloudscale.ch/loadbalancer-zone to the one in which the load balancer shall be, or select nodes of one zone.", sample: []any{"lpg1 and rma1"}},
	ZoneUnknown: {On: "Service", Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "There is no node yet by which to tell in which zone the load balancer shall be.",
		Do:    "Wait for a node, or set the annotation k8s.cloudscale.ch/loadbalancer-zone.",
		text:  "There is no node yet that tells in which zone the load balancer shall be. Wait for one, or set annotation k8s.cloudscale.ch/loadbalancer-zone."},
	ChangeRefused: {On: "Service", Ready: true, Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "The Service asks for something that only a new load balancer could have, and that would have other addresses. The one that runs is left as it is; everything else is done.",
		Do:    "Take the change back, or delete the Service and create it again.",
		text:  "Not changed: %s. Take that back, or delete the Service and create it again; it goes on with the load balancer that it has.", sample: []any{"the zone of load balancer k8s-service-5f1c is rma1 and cannot become lpg1"}},
	FloatingAddressRefused: {On: "Service", Ready: true, Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "A floating IP cannot be the Service's: another Service wants it as well, the project has none like it, it is of another region, or the load balancer is private. Everything else is done.",
		Do:    "Correct the annotation k8s.cloudscale.ch/loadbalancer-floating-ips as the sentence says.",
		text:  "Not assigned: %s. Correct annotation k8s.cloudscale.ch/loadbalancer-floating-ips.", sample: []any{"floating IP 192.0.2.9/32 is also wanted by Service shop/old"}},
	LoadBalancerAmbiguous: {On: "Service", Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "Several load balancers could be the Service's. None is touched.",
		Do:    "Delete or rename the wrong ones in the control panel, or name the right one in annotation k8s.cloudscale.ch/loadbalancer-uuid.",
		text:  "Found more than one load balancer for this Service: %s. Delete or rename the wrong ones in the control panel; none is touched until then.", sample: []any{"k8s-service-5f1c (6c1f…) and k8s-service-5f1c (90ab…)"}},
	LoadBalancerTaken: {On: "Service", Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "The load balancer that annotation k8s.cloudscale.ch/loadbalancer-uuid or the name points to is another Service's, as happens when a Service is copied with its annotations.",
		Do:    "Remove annotation k8s.cloudscale.ch/loadbalancer-uuid, so that the Service gets a load balancer of its own.",
		text:  "Load balancer %s is that of Service %s. Remove annotation k8s.cloudscale.ch/loadbalancer-uuid from this Service, and it gets one of its own.", sample: []any{"k8s-service-77d0", sampleService}},
	LoadBalancerOrphaned: {On: "Service", Warning: true, Event: true,
		Means: "A load balancer was made for a Service of this cluster that no longer exists. It costs money, and is not deleted by itself.",
		Do:    "Delete it, after a look.",
		text:  "Load balancer %s (%s) was made for Service %s, which no longer exists. Delete it if nobody needs it.", sample: []any{"k8s-service-5f1c", "6c1f…", sampleService}},
	CloudBusy: {On: "Service",
		Means: "The load balancer is being changed by the cloud, which does one change at a time.",
		Do:    "Nothing; it goes on by itself.",
		text:  "Waiting for load balancer %s, which is being changed.", sample: []any{"k8s-service-5f1c"}},
	CloudUnavailable: {On: "Service", Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "The cloud's API does not answer, or asks to come back later. What was there before is still there.",
		Do:    "Nothing; it is tried again by itself.",
		text:  "The cloud cannot be asked at present: %s. It is tried again.", sample: []any{"GET /v1/load-balancers: 503 Service Unavailable"}},
	TokenReadOnly: {On: "Service", Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "The access token may only read.",
		Do:    "Create a token with read and write access in the control panel, and put it into the Secret.",
		text:  "The access token may only read (%s). Create one with read and write access in the control panel, and put it into the Secret.", sample: []any{"POST /v1/load-balancers: 403 Forbidden"}},
	TokenInvalid: {On: "Service", Warning: true, Cloud: string(SyncLoadBalancerFailed),
		Means: "The cloud does not know the access token, or no longer.",
		Do:    "Create a token with read and write access in the control panel, and put it into the Secret.",
		text:  "The cloud does not accept the access token (%s). Create one with read and write access in the control panel, and put it into the Secret.", sample: []any{"GET /v1/load-balancers: 401 Unauthorized"}},
	DriftRepaired: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "Somebody changed the load balancer by other means, and it was changed back.",
		Do:    "Change the Service instead of the load balancer.",
		text:  "The load balancer was changed by somebody else, and is changed back: %s. Change the Service instead.", sample: []any{"update listener tcp/80: timeout_client_data_ms 1000 → 50000; impact: none"}},
	ChangesPlanned: {On: "Service", Ready: true, Event: true,
		Means: "What would be changed, and what that would cost. Nothing is done.",
		Do:    "End the dry run to have it done.",
		text:  "Dry run: %s. Nothing is done.", sample: []any{"create listener tcp/8080 of tcp/http; delete listener tcp/80 of tcp/http (new connections); impact: new connections"}},
	UnknownAnnotation: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The Service has an annotation that looks like one for load balancers and has no meaning.",
		Do:    "Correct its name, or remove it.",
		text:  "Annotation %s is not known and has no effect. Correct its name, or remove it.", sample: []any{"k8s.cloudscale.ch/loadbalancer-timeout-client-ms"}},
}
