package kubevip

import (
	"fairlead.io/internal/lb"
)

// Name is the name of kube-vip's configuration format.
const Name lb.Dialect = "kube-vip"

// theConfigMap is how sentences call the ConfigMap.
const theConfigMap = "the ConfigMap of kube-vip's cloud provider"

// Words are what kube-vip's format adds to sentences about pools.
var Words = lb.Words{
	AddPool:      "a key such as " + KeyCIDR + global + " in " + theConfigMap,
	AdmitService: "add a key " + KeyCIDR + "{namespace} or " + KeyCIDR + global + " to " + theConfigMap,
	Share:        "key " + KeyShare + "{namespace} in " + theConfigMap,
}

// Reasons on the ConfigMap of kube-vip's cloud provider.
const (
	KeyInvalid  lb.Code = "KeyInvalid"
	KeyShadowed lb.Code = "KeyShadowed"
	KeyUnknown  lb.Code = "KeyUnknown"
)

// Reasons on Services whose address is assigned by DHCP.
const (
	LeftToLease       lb.Code = "LeftToLease"
	LeaseWishIgnored  lb.Code = "LeaseWishIgnored"
	LeaseNotPermitted lb.Code = "LeaseNotPermitted"
)

// Reasons that only kube-vip's format has.
var Reasons = lb.Table{
	KeyInvalid: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A value in the ConfigMap cannot be used. All other keys are.",
		Do:    "Correct the value that the sentence names.",
		Text:  "Key %s: %s. Correct it.", Sample: []any{"cidr-global", `"192.0.2.300" is not an IP address`}},
	KeyShadowed: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A key in the ConfigMap has no effect because another key takes precedence.",
		Do:    "Remove one of the two keys, or set pool-precedence: namespace-first. Then the keys of a namespace take precedence over the global ones.",
		Text:  "Key %s has no effect because key %s takes precedence. Remove one of them%s.", Sample: []any{"range-shop", "cidr-global", orNamespaceFirst}},
	KeyUnknown: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A key in the ConfigMap has no effect.",
		Do:    "Correct or remove it.",
		Text:  "Key %s has no effect: %s. Correct or remove it.", Sample: []any{"cird-global", "known keys are cidr-global and range-global"}},
	LeftToLease: {On: "Service", Ready: true,
		Means: "The Service's address is assigned by DHCP, and kube-vip requests it.",
		Do:    "Nothing.",
		Text:  "The Service's address is assigned by DHCP. kube-vip requests it."},
	LeaseWishIgnored: {On: "Service", Ready: true, Warning: true,
		Means: "The Service's address is assigned by DHCP. An annotation about the DHCP request cannot be used, so the agent sends the request without it.",
		Do:    "Correct the annotation that the sentence names, or remove it.",
		Text:  "The agent ignores part of the Service's DHCP settings: %s. Correct or remove that.", Sample: []any{`annotation kube-vip.io/hwaddr is "web", which is not a MAC address of six bytes such as 02:00:5e:10:00:01`}},
	LeaseNotPermitted: {On: "Service", Ready: true, Warning: true,
		Means: "The Service requests an address by DHCP, or says something about that. It has no effect, because no administrator has permitted it.",
		Do:    "Remove what the sentence names from the Service. If users shall have addresses by DHCP, an administrator creates the ConfigMap, or lists kube-vip first in the pools of the Service's class.",
		Text:  "No administrator has permitted DHCP, so %s without effect. To permit it, create ConfigMap %s, or list kube-vip first in the pools of the Service's class.", Sample: []any{"annotation kube-vip.io/hwaddr is", "kube-system/kubevip"}},
}

// orNamespaceFirst is the other way out of KeyShadowed.
const orNamespaceFirst = ", or set " + KeyPrecedence + " to " + namespaceFirst + " so that the keys of a namespace take precedence"

// EventName is the reason of the event on a Service for r: the name that cloud
// controller managers use, kube-vip's cloud provider among them.
func EventName(r lb.Reason) string {
	switch {
	case r.Code == lb.AddressInUse || r.Code == lb.SharingConflict:
		return "IPConflict"
	case r.Code == lb.AddressReleased:
		return string(lb.DeletedLoadBalancer)
	case r.Ready():
		return string(lb.EnsuredLoadBalancer)
	case r.Code == lb.WaitingForLease:
		return string(lb.EnsuringLoadBalancer)
	case r.EventOnly():
		return string(r.Code)
	}
	return string(lb.SyncLoadBalancerFailed)
}
