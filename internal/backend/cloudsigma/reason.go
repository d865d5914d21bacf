package cloudsigma

import (
	compat "fairlead.io/internal/compat/cloudsigma"
	"fairlead.io/internal/lb"
)

// Reasons on Services that only CloudSigma has. All others that this backend gives
// are of lb.
const (
	AttachIgnored      lb.Code = "AttachIgnored"
	AttachRefused      lb.Code = "AttachRefused"
	AddressTaken       lb.Code = "AddressTaken"
	AddressTaggedTwice lb.Code = "AddressTaggedTwice"
	NoCarrier          lb.Code = "NoCarrier"
	AddressAttached    lb.Code = "AddressAttached"
	AddressMoved       lb.Code = "AddressMoved"
	AddressMissing     lb.Code = "AddressMissing"
	DynamicAddress     lb.Code = "DynamicAddress"
	UnknownAddressPool lb.Code = "UnknownAddressPool"
	CredentialsInvalid lb.Code = "CredentialsInvalid"
	AccessDenied       lb.Code = "AccessDenied"
)

// Reasons of this backend.
var Reasons = lb.Table{
	AttachIgnored: {On: "Service", Warning: true,
		Means: "CloudSigma accepted a change of the network cards (NICs) of a server, but did not make it: it ignores such changes while the server runs.",
		Do:    "Set the first NIC of the nodes to mode manual (ip_v4_conf: manual), so that no NIC for each address is needed; or restart the server that the sentence names. Fairlead tries again, at first after seconds, then every five minutes.",
		Text:  "CloudSigma ignores changes of NICs of the running server %s: address %s is not as it was asked for. Set the first NIC of the nodes to mode manual, or restart that server. Fairlead tries again.", Sample: []any{"worker-1", "192.0.2.7"}},
	AttachRefused: {On: "Service", Warning: true,
		Means: "CloudSigma refuses to attach the address to the node, or to detach it.",
		Do:    "Do what CloudSigma's words in the sentence say. Fairlead tries again.",
		Text:  "CloudSigma refuses to change the NICs of a server for %s: %s. Fairlead tries again.", Sample: []any{"192.0.2.7", "PUT /servers/…/: 400: nics: IP 192.0.2.7 is in use"}},
	AddressTaken: {On: "Service", Warning: true,
		Means: "Somebody else uses the address: another cluster of the same account has tagged it, it is attached to a server that is no node of this cluster, it is the own address of a server, or it has the tag of a Service of no cluster.",
		Do:    "Nothing if the Service asked for no particular address: it gets another. Otherwise request another address, or take it away from whoever has it.",
		Text:  "Address %s is not free: %s. Fairlead does not touch it.", Sample: []any{"192.0.2.7", `cluster "staging" has it`}},
	AddressTaggedTwice: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "Another cluster has tagged an address that this Service has. This Service keeps it.",
		Do:    "Remove the other cluster's tag from the address. Give each cluster of the account its own name.",
		Text:  "Cluster %s has tagged address %s, which this Service has and keeps. Remove that tag, and give each cluster of the account its own name.", Sample: []any{`"staging"`, "192.0.2.7"}},
	NoCarrier: {On: "Service", Warning: true,
		Means: "No node can carry the address. It stays where it is.",
		Do:    "Fix the nodes that the sentence lists. Fairlead continues at once.",
		Text:  "No node can carry %s: %s. It stays where it is.", Sample: []any{"192.0.2.7", "node worker-1: it is not Ready"}},
	AddressAttached: {On: "Service", Ready: true, Event: true,
		Means: "An address was attached to a node, which now carries it.",
		Do:    "Nothing.",
		Text:  "Attached address %s to node %s.", Sample: []any{"192.0.2.7", "worker-1"}},
	AddressMoved: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "An address was moved to another node, because the one that had it cannot carry it any more.",
		Do:    "Nothing. The sentence says what was wrong.",
		Text:  "Moved address %s from %s to node %s: %s.", Sample: []any{"192.0.2.7", "server worker-1", "worker-2", "it is not Ready"}},
	AddressMissing: {On: "Service", Warning: true,
		Means: "The account does not have the address any more, for example because its subscription ended.",
		Do:    `Subscribe to the address again, or set the annotation fairlead.io/reallocate: "true" to move the Service to another address.`,
		Text:  `The CloudSigma account does not have address %s any more. Subscribe to it again, or set the annotation fairlead.io/reallocate: "true" to move the Service.`, Sample: []any{"192.0.2.7"}},
	DynamicAddress: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The Service has an address without a subscription. CloudSigma may not lead traffic from outside to it, and may take it back.",
		Do:    "Use the pool static in production: remove annotation " + compat.AnnotationPool + ", and subscribe to addresses.",
		Text:  "Address %s is dynamic: it may not be reachable from outside, and CloudSigma may take it back. Use the pool static in production.", Sample: []any{"192.0.2.7"}},
	UnknownAddressPool: {On: "Service", Ready: true, Warning: true, Event: true,
		Means: "The annotation " + compat.AnnotationPool + " names a pool that does not exist. The pool static is used.",
		Do:    "Set it to static or dynamic, or remove it.",
		Text:  "Annotation " + compat.AnnotationPool + " is %q, which is neither static nor dynamic. Fairlead uses static.", Sample: []any{"moon"}},
	CredentialsInvalid: {On: "Service", Warning: true,
		Means: "CloudSigma rejects the credentials: they are wrong, or were revoked. What there is stays as it is.",
		Do:    "Correct the credentials in the Secret, and restart the controller unless they are read from files.",
		Text:  "CloudSigma rejects the credentials (%s). Correct them in the Secret.", Sample: []any{"GET /ips/detail/: 401 Unauthorized"}},
	AccessDenied: {On: "Service", Warning: true,
		Means: "The credentials do not allow what has to be done, or are those of another account. What there is stays as it is.",
		Do:    "Grant the user of the credentials access to the servers, addresses and tags of the cluster. The user must own the nodes' servers.",
		Text:  "CloudSigma does not allow this with these credentials (%s). The user must have access to the nodes' servers, to addresses and to tags.", Sample: []any{"PUT /servers/…/: 403: permission"}},
}
