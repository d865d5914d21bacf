package kubedc

import "fairlead.io/internal/lb"

// Reasons on Services that only this format has.
const AnnotationIgnored lb.Code = "AnnotationIgnored"

// Reasons of this format.
var Reasons = lb.Table{
	AnnotationIgnored: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The Service has annotations of kube-dc that Fairlead does not use: those for routes of a gateway, and autodelete.",
		Do:    "Remove them, or keep kube-dc's own controller for what they ask for.",
		Text:  "Fairlead does not use these annotations of kube-dc: %s. They have no effect.", Sample: []any{prefix + "expose-route and " + prefix + "route-hostname"}},
}
