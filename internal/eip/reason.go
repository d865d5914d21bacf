package eip

import (
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/lb"
)

// Reasons on Services that have addresses of EIps.
const (
	NotAProject      lb.Code = "NotAProject"
	EIpMissing       lb.Code = "EIpMissing"
	EIpTaken         lb.Code = "EIpTaken"
	PortConflict     lb.Code = "PortConflict"
	AddressPending   lb.Code = "AddressPending"
	NetworkTypeFixed lb.Code = "NetworkTypeFixed"
)

// Reasons of conditions on EIps.
const (
	EIpReady   lb.Code = "EIpReady"
	EIpPending lb.Code = "EIpPending"
	EIpRefused lb.Code = "EIpRefused"
	EIpInUse   lb.Code = "EIpInUse"
)

// Reasons of this package.
var Reasons = lb.Table{
	NotAProject: {On: "Service", Warning: true, Event: true,
		Means: "The Service's namespace belongs to no project: no Vpc lists it, no Project has it, and it has no annotation " + kubedc.AnnotationRouter + ". Fairlead does not know which router would serve it.",
		Do:    "Create the Service in the namespace of a project, or give it another class.",
		Text:  "Namespace %s is not that of a project: %s. Create the Service in the namespace of a project, or give it another class.", Sample: []any{"shop", "no Vpc and no Project has it"}},
	EIpMissing: {On: "Service", Warning: true,
		Means: "The Service requests an EIp that does not exist in its namespace.",
		Do:    "Create the EIp, or correct or remove the annotation. The Service is served at once.",
		Text:  "EIp %q does not exist in namespace %s. Create it, or remove the annotation that requests it.", Sample: []any{"web", "shop"}},
	EIpTaken: {On: "Service", Warning: true,
		Means: "The Service requests an EIp that a FIp has, which needs the address for itself, or one of whose ports an OvnDnatRule of kube-ovn has.",
		Do:    "Request another EIp or port, or delete the FIp or OvnDnatRule. The Service is served as soon as it is gone.",
		Text:  "EIp %q is used by %s %q%s, which does not share it. Request another EIp, or delete the %[2]s.", Sample: []any{"web", "FIp", "vm-1", ""}},
	PortConflict: {On: "Service", Warning: true,
		Means: "Another Service has one of the Service's ports at the same address. The older one of two Services has the port.",
		Do:    "Change the port, or request another EIp. The Service is served as soon as its ports are free.",
		Text:  "Port %s at EIp %q belongs to Service %s, which is older or still has it. Change the port, or request another EIp.", Sample: []any{"TCP 80", "default-gw", "shop/api"}},
	AddressPending: {On: "Service", Warning: true,
		Means: "The Service's EIp has no address. kube-ovn does not say why: the subnet may be full, or the requested address in use.",
		Do:    "Check the free addresses of the subnet, the OvnEip, and that kube-ovn-controller runs. The Service is served as soon as the address is there.",
		Text:  "EIp %q has no address yet: %s.", Sample: []any{"slb-web-q6bfc", "kube-ovn has not allocated one for OvnEip eip-shop-slb-web-q6bfc-x3n2a; subnet ext-public has 0 free IPv4 addresses"}},
	NetworkTypeFixed: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The Service requests another network type, but it has an address already. It keeps the address.",
		Do:    "Undo the change, or create the Service again.",
		Text:  "The Service has an address of network type %s and keeps it, although it now requests %s. Undo the change, or create the Service again.", Sample: []any{kubedc.Public, kubedc.Cloud}},
	EIpReady: {On: "EIp", Ready: true,
		Means: "The EIp has an address.",
		Do:    "Nothing.",
		Text:  "OvnEip %s has %s.", Sample: []any{"eip-shop-web-x3n2a", "192.0.2.7"}},
	EIpPending: {On: "EIp", Warning: true,
		Means: "The EIp has no address yet.",
		Do:    "Fix what the sentence names, and check that kube-ovn-controller runs.",
		Text:  "The EIp has no address yet: %s.", Sample: []any{"OvnEip shop-ext-public does not exist"}},
	EIpRefused: {On: "EIp", Warning: true,
		Means: "The EIp refers to an OvnEip of somebody else.",
		Do:    "Refer to the gateway of the own project, or remove childRef. An administrator can share another OvnEip by the label " + LabelNamespace + ".",
		Text:  "OvnEip %s does not belong to namespace %s. Refer to the gateway of the project, or let an administrator label the OvnEip " + LabelNamespace + "=%[2]s.", Sample: []any{"prod-ext-public", "shop"}},
	EIpInUse: {On: "EIp", Warning: true,
		Means: "The EIp is being deleted, but somebody still uses its address.",
		Do:    "Delete whoever uses it, or let them use another EIp. Then the EIp goes.",
		Text:  "The EIp is kept while it is used by %s.", Sample: []any{"Service shop/web"}},
}
