package cloudscale

import (
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

// Reasons on Services that only cloudscale.ch has. All others that this backend
// gives are of lb.
const (
	NodesInSeveralZones    lb.Code = "NodesInSeveralZones"
	ZoneUnknown            lb.Code = "ZoneUnknown"
	FloatingAddressRefused lb.Code = "FloatingAddressRefused"
	LoadBalancerAmbiguous  lb.Code = "LoadBalancerAmbiguous"
	LoadBalancerTaken      lb.Code = "LoadBalancerTaken"
)

// Reasons of this backend.
var Reasons = lb.Table{
	NodesInSeveralZones: {On: "Service", Warning: true,
		Means: "The nodes are in several zones, a load balancer is in one, and the Service does not say which.",
		Do:    "Set the annotation " + compat.AnnotationZone + ", or select nodes of one zone.",
		Text:  "The nodes are in several zones: %s. Set annotation " + compat.AnnotationZone + " to the zone of the load balancer, or select nodes of one zone.", Sample: []any{"lpg1 and rma1"}},
	ZoneUnknown: {On: "Service", Warning: true,
		Means: "There is no node yet, so the zone of the load balancer is unknown.",
		Do:    "Wait for a node, or set the annotation " + compat.AnnotationZone + ".",
		Text:  "The zone of the load balancer is unknown because there is no node yet. Wait for one, or set annotation " + compat.AnnotationZone + "."},
	FloatingAddressRefused: {On: "Service", Ready: true, Warning: true,
		Means: "A floating IP cannot be assigned: another Service requests it, the project does not have it, it is of another region, or the load balancer is private. Everything else is done.",
		Do:    "Correct the annotation " + compat.AnnotationFloatingIPs + " as the sentence says.",
		Text:  "Not assigned: %s. Correct annotation " + compat.AnnotationFloatingIPs + ".", Sample: []any{"floating IP 192.0.2.9/32: Service shop/old requests it as well"}},
	LoadBalancerAmbiguous: {On: "Service", Warning: true,
		Means: "Several load balancers match the Service. Fairlead changes none of them.",
		Do:    "Delete or rename the wrong ones in the control panel, or name the right one in annotation " + compat.AnnotationUUID + ".",
		Text:  "Found more than one load balancer for this Service: %s. Delete or rename the wrong ones in the control panel. Fairlead changes none of them until then.", Sample: []any{"k8s-service-5f1c (6c1f…) and k8s-service-5f1c (90ab…)"}},
	LoadBalancerTaken: {On: "Service", Warning: true,
		Means: "The load balancer that annotation " + compat.AnnotationUUID + " or the name points to belongs to another Service or to another cluster. This happens when a Service is copied with its annotations. Fairlead never changes that load balancer for this Service.",
		Do:    "Remove annotation " + compat.AnnotationUUID + " and, if it has the name, " + compat.AnnotationName + ". The Service then gets its own load balancer. To move load balancers here from another cluster, start the controller with --adopt-from-cluster and the name of that cluster.",
		Text:  "Load balancer %s belongs to %s. Remove annotation " + compat.AnnotationUUID + " or " + compat.AnnotationName + ", which names it, from this Service. It then gets its own load balancer.", Sample: []any{"k8s-service-77d0", "Service shop/web"}},
}
