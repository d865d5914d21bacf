package lb

// Reasons on Services that a cloud's load balancer serves, whatever the cloud.
// Those of events that cloud controller managers are known for have their names.
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
	ChangeRefused            Code = "ChangeRefused"
	LoadBalancerOrphaned     Code = "LoadBalancerOrphaned"
	CloudBusy                Code = "CloudBusy"
	CloudUnavailable         Code = "CloudUnavailable"
	TokenReadOnly            Code = "TokenReadOnly"
	TokenInvalid             Code = "TokenInvalid"
	DriftRepaired            Code = "DriftRepaired"
	ChangesPlanned           Code = "ChangesPlanned"
	UnknownAnnotation        Code = "UnknownAnnotation"
)

var cloudReasons = Table{
	EnsuringLoadBalancer: {On: "Service", Event: true,
		Means: "Fairlead creates the load balancer.",
		Do:    "Nothing. It takes a minute or two.",
		Text:  "Ensuring load balancer: %s.", Sample: []any{"create load balancer k8s-service-5f1c; impact: none"}},
	EnsuredLoadBalancer: {On: "Service", Ready: true,
		Means: "A load balancer serves the Service as requested.",
		Do:    "Nothing.",
		Text:  "Load balancer %s serves the Service at %s.", Sample: []any{"k8s-service-5f1c", "192.0.2.7 and 2001:db8::7"}},
	UpdatedLoadBalancer: {On: "Service", Ready: true, Event: true,
		Means: "Fairlead changed the load balancer because the Service or the nodes changed.",
		Do:    "Nothing. The sentence lists the changes and their impact.",
		Text:  "Updated load balancer: %s.", Sample: []any{"create members 10.0.0.3:30080 of tcp/http; impact: none"}},
	SyncLoadBalancerFailed: {On: "Service", Warning: true,
		Means: "The cloud refused a change, or a request to it failed. The load balancer stays as it was.",
		Do:    "Correct what the cloud refused. Fairlead tries again.",
		Text:  "Error syncing load balancer: %s. Correct what the cloud refused; Fairlead tries again.", Sample: []any{`create load balancer k8s-service-5f1c: flavor: "lb-huge" is not a valid choice`}},
	DeletingLoadBalancer: {On: "Service", Event: true,
		Means: "The Service was deleted, so Fairlead deletes its load balancer.",
		Do:    "Nothing.",
		Text:  "Deleting load balancer: %s.", Sample: []any{"delete load balancer k8s-service-5f1c (new connections)"}},
	DeletedLoadBalancer: {On: "Service", Event: true,
		Means: "Nothing of the Service is left in the cloud.",
		Do:    "Nothing.",
		Text:  "Deleted load balancer."},
	DeleteLoadBalancerFailed: {On: "Service", Warning: true, Event: true,
		Means: "The cloud did not delete the load balancer. The Service stays until it is deleted.",
		Do:    "Fix what the sentence names. Fairlead tries again.",
		Text:  "Error deleting load balancer: %s. Fairlead tries again.", Sample: []any{"delete load balancer k8s-service-5f1c: 500 Internal Server Error"}},
	UnAvailableLoadBalancer: {On: "Service", Warning: true, Event: true,
		Means: "No node may receive load balancer traffic, so the load balancer has no backends.",
		Do:    "Add a node, or remove the label node.kubernetes.io/exclude-from-external-load-balancers from one.",
		Text:  "There are no available nodes for the load balancer: %s. Add a node, or allow load balancer traffic to an existing one.", Sample: []any{"the cluster has none that is not excluded from load balancers"}},
	NoValidNodes: {On: "Service", Warning: true, Event: true,
		Means: "No node matches the Service's settings, so the load balancer has no backends.",
		Do:    "Correct the node selector or the allowed subnets, or label a node.",
		Text:  "No valid nodes for service found: %s. Check the annotation and the nodes.", Sample: []any{`no node has the labels of annotation example.com/node-selector: "tier=edge"`}},
	NodesSkipped: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "Some nodes receive no traffic from the load balancer because the cloud does not know them or they have no address there. All other nodes do.",
		Do:    "Fix the nodes as the sentence says, or exclude them from load balancers.",
		Text:  "Some nodes receive no traffic: %s. Fix these nodes, or label them node.kubernetes.io/exclude-from-external-load-balancers.", Sample: []any{`node worker-3 has no server: providerID "aws://x" is not one of this cloud`}},
	NodesUnknown: {On: "Service", Warning: true,
		Means: "The cloud knows none of the cluster's nodes, so Fairlead creates no load balancer. The access token may belong to another project.",
		Do:    "Use an access token of the project that contains the nodes.",
		Text:  "The cloud knows none of the nodes: %s. Use an access token of the project that contains them.", Sample: []any{"node worker-1 has no server with its providerID"}},
	ChangeRefused: {On: "Service", Ready: true, Warning: true,
		Means: "The requested change needs a new load balancer with other addresses. Fairlead keeps the existing one and makes all other changes.",
		Do:    "Undo the change, or delete the Service and create it again.",
		Text:  "Not changed: %s. Undo that, or delete the Service and create it again. Until then the Service keeps its load balancer.", Sample: []any{"load balancer k8s-service-5f1c: zone rma1 cannot become lpg1"}},
	LoadBalancerOrphaned: {On: "Service", Warning: true, Event: true,
		Means: "A load balancer was created for a Service of this cluster that no longer exists. It costs money, and Fairlead does not delete it.",
		Do:    "Check that nobody uses it, then delete it.",
		Text:  "Load balancer %s (%s) was created for Service %s, which no longer exists. Delete it if nobody needs it.", Sample: []any{"k8s-service-5f1c", "6c1f…", sampleService}},
	CloudBusy: {On: "Service",
		Means: "The cloud is changing the load balancer. It makes one change at a time.",
		Do:    "Nothing. Fairlead continues when the change is done.",
		Text:  "Waiting for the cloud to finish a change of load balancer %s.", Sample: []any{"k8s-service-5f1c"}},
	CloudUnavailable: {On: "Service", Warning: true,
		Means: "The cloud's API does not answer, or limits the rate of requests. The load balancer stays as it was.",
		Do:    "Nothing. Fairlead tries again.",
		Text:  "The cloud's API is unavailable: %s. Fairlead tries again.", Sample: []any{"GET /v1/load-balancers: 503 Service Unavailable"}},
	TokenReadOnly: {On: "Service", Warning: true,
		Means: "The access token is read-only.",
		Do:    "Create a token with read and write access in the control panel, and store it in the Secret.",
		Text:  "The access token is read-only (%s). Create one with read and write access in the control panel, and store it in the Secret.", Sample: []any{"POST /v1/load-balancers: 403 Forbidden"}},
	TokenInvalid: {On: "Service", Warning: true,
		Means: "The cloud rejects the access token: it is wrong, or was revoked.",
		Do:    "Create a token with read and write access in the control panel, and store it in the Secret.",
		Text:  "The cloud rejects the access token (%s). Create one with read and write access in the control panel, and store it in the Secret.", Sample: []any{"GET /v1/load-balancers: 401 Unauthorized"}},
	DriftRepaired: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "Somebody changed the load balancer without Fairlead, and Fairlead restores it.",
		Do:    "Change the Service instead of the load balancer.",
		Text:  "Somebody else changed the load balancer. Fairlead restores it: %s. Change the Service instead.", Sample: []any{"update listener tcp/80: timeout_client_data_ms 1000 → 50000; impact: none"}},
	ChangesPlanned: {On: "Service", Ready: true, Event: true,
		Means: "What Fairlead would change for the Service, and the impact. It changes nothing.",
		Do:    "End the dry run to make the changes.",
		Text:  "Dry run: %s. Nothing was changed.", Sample: []any{"create listener tcp/8080 of tcp/http; delete listener tcp/80 of tcp/http (new connections); impact: new connections"}},
	UnknownAnnotation: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The Service has an annotation that looks like one for load balancers but has no effect.",
		Do:    "Correct its name, or remove it.",
		Text:  "Annotation %s is unknown and has no effect. Correct its name, or remove it.", Sample: []any{"example.com/loadbalancer-timeout"}},
}
