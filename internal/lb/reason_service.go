package lb

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// Reasons on Services.
const (
	Ready             Code = "Ready"
	SingleFamily      Code = "SingleFamily"
	OutOfPool         Code = "OutOfPool"
	OutsidePools      Code = "OutsidePools"
	WaitingForLease   Code = "WaitingForLease"
	LeftToLease       Code = "LeftToLease"
	LeaseWishIgnored  Code = "LeaseWishIgnored"
	AddressContested  Code = "AddressContested"
	NoPool            Code = "NoPool"
	PoolsUnreadable   Code = "PoolsUnreadable"
	NoPoolMatches     Code = "NoPoolMatches"
	PoolExhausted     Code = "PoolExhausted"
	QuotaExceeded     Code = "QuotaExceeded"
	FamilyUnavailable Code = "FamilyUnavailable"
	UnknownPool       Code = "UnknownPool"
	PoolNotAllowed    Code = "PoolNotAllowed"
	PoolUnavailable   Code = "PoolUnavailable"
	AddressNotInPool  Code = "AddressNotInPool"
	AddressInUse      Code = "AddressInUse"
	AddressReserved   Code = "AddressReserved"
	AddressIsNode     Code = "AddressIsNode"
	AddressIsCluster  Code = "AddressIsCluster"
	FamilyMismatch    Code = "FamilyMismatch"
	SharingConflict   Code = "SharingConflict"
	InvalidRequest    Code = "InvalidRequest"
	ForeignWriter     Code = "ForeignWriter"
	LeaseLost         Code = "LeaseLost"
	LeaseRefused      Code = "LeaseRefused"
	LeaseUnusable     Code = "LeaseUnusable"
	LeaseNotAsked     Code = "LeaseNotAsked"
	NoLeaseServer     Code = "NoLeaseServer"
	Announced         Code = "Announced"
	Moved             Code = "Moved"
	AddressConflict   Code = "AddressConflict"
	NotAnnounced      Code = "NotAnnounced"
	FamiliesApart     Code = "FamiliesApart"
	AddressReleased   Code = "AddressReleased"
	OldAnnotation     Code = "OldAnnotation"
	OffSubnet         Code = "OffSubnet"
)

var (
	sampleAddress = netip.MustParseAddr("192.0.2.7")
	sampleService = types.NamespacedName{Namespace: "shop", Name: "web"}
)

var serviceReasons = map[Code]About{
	Ready: {On: "Service", Ready: true, MetalLB: "IPAllocated",
		Means: "The Service has the addresses it asks for.",
		Do:    "Nothing.",
		text:  "The Service has %s from %s.", sample: []any{"192.0.2.7", `pool "edge"`}},
	SingleFamily: {On: "Service", Ready: true, MetalLB: "IPAllocated",
		Means: "The Service prefers both IP families and has an address of one; it gets the other as soon as a pool has one.",
		Do:    "Add addresses of the other family to a pool, or ask for SingleStack.",
		text:  "The Service has %s from %s; it prefers dual-stack, but %s. Add one to a pool, or set ipFamilyPolicy: SingleStack.", sample: []any{"192.0.2.7", `pool "edge"`, "no pool has a free IPv6 address for it"}},
	OutOfPool: {On: "Service", Ready: true, Warning: true,
		Means: "The Service keeps an address that no pool it may use has any more: the pool was shrunk, deleted or refused, or its rules no longer admit the Service.",
		Do:    `Put the address back into a pool, or move the Service with the annotation fairlead.io/reallocate: "true".`,
		text:  `The Service keeps %s, which %s. Put that back into a pool, or set the annotation fairlead.io/reallocate: "true" to move the Service.`, sample: []any{"192.0.2.7", "is in no pool any more"}},
	OutsidePools: {On: "Service", Ready: true, Warning: true,
		Means: "The Service asks for an address in the way of kube-vip and has it, although no pool that it may use has that address. Nobody else is given it from a pool, but hosts of the LAN may use it.",
		Do:    "Nothing if the address is kept free for the Service; else ask for one of a pool, or for none.",
		text:  "The Service has %s, which it asks for and which no pool that it may use has. See to it that nothing else on the LAN uses that.", sample: []any{"192.0.2.7"}},
	WaitingForLease: {On: "Service",
		Means: "The Service's address is for a DHCP server of the LAN to give, which has not given it yet.",
		Do:    "Nothing; if it goes on, see that a DHCP server answers on the LAN of the nodes.",
		text:  "The Service waits for an %s address from a DHCP server. If that goes on, see that a server answers on the LAN of the nodes.", sample: []any{IPv4}},
	LeftToLease: {On: "Service", Ready: true,
		Means: "The Service's address is for a DHCP server of the LAN to give, and for kube-vip to ask for.",
		Do:    "Nothing.",
		text:  "The Service's address is from a DHCP server, which kube-vip asks for it."},
	LeaseWishIgnored: {On: "Service", Ready: true, Warning: true,
		Means: "The Service has its address from a DHCP server. How it would like to be known to the server, or which address it would like, is written in a way that cannot be used; the server is asked without that.",
		Do:    "Correct the annotation that the sentence names, or remove it.",
		text:  "What the Service would like from a DHCP server is ignored in part: %s. Correct that, or remove it; until then the server is asked without it.", sample: []any{`annotation kube-vip.io/hwaddr is "web", which is not a MAC address of six bytes such as 02:00:5e:10:00:01`}},
	AddressContested: {On: "Service", Ready: true, Warning: true,
		Means: "Two Services were found with one address; this one is older and keeps it.",
		Do:    "Nothing; look for a second controller that serves the same class.",
		text:  "Address %s was also published for Service %s; this Service is older and keeps it. Look for a second controller that serves the same class.", sample: []any{sampleAddress, sampleService}},
	NoPool: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "There is no pool at all that the Service's class may use.",
		Do:    "Create a Pool, an IPAddressPool of MetalLB's, or the ConfigMap of kube-vip's cloud provider.",
		text:  "No available IPs: there is no pool of addresses. Create %s.", sample: []any{"a Pool (kubectl explain pool.spec) or an IPAddressPool of MetalLB's"}},
	PoolsUnreadable: {On: "Service", Warning: true,
		Means: "The controller cannot read the pools that the Service's address would be from: it lacks a right, or the kind is not installed. Services that have addresses keep them.",
		Do:    "Give the controller's ServiceAccount the right to get, list and watch what the sentence names, or install the kind; the Service is served within seconds then.",
		text:  "The controller cannot read %s: %s. %s.", sample: []any{"ConfigMap kube-system/kubevip, which has the pools", `configmaps "kubevip" is forbidden: User "system:serviceaccount:kube-system:kube-vip-cloud-controller" cannot list resource "configmaps" in API group "" in the namespace "kube-system"`, "Allow it to get, list and watch that"}},
	NoPoolMatches: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "There are pools, but none hands addresses to this Service: their namespaces or selectors leave it out, they are disabled, or they are only given on request.",
		Do:    "Change the rules of a pool, or ask for one with the annotation fairlead.io/pool or metallb.io/address-pool; with kube-vip's ConfigMap, add a key for the namespace.",
		text:  "No available IPs: no pool gives addresses to this Service: %s. %s.", sample: []any{`pool "lab" is only given on request; pool "edge" is not for namespace "shop"`, "Change a pool's rules, or ask for a pool with the annotation fairlead.io/pool or metallb.io/address-pool"}},
	PoolExhausted: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "Every pool that admits the Service is full.",
		Do:    "Add addresses to a pool or delete a Service; this one is served at once then.",
		text:  "No available IPs: no %s address is free in %s. Add addresses or delete a Service.", sample: []any{IPv4, `pool "edge" (8 of 8 used)`}},
	QuotaExceeded: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The namespace holds as many addresses of the pool as it may.",
		Do:    "Raise the pool's quota or delete a Service of the namespace; this one is served at once then.",
		text:  "Namespace %q has used up its quota of pool %q: addresses held %d, allowed %d. Raise %s, or delete a Service of the namespace.", sample: []any{"shop", "edge", 5, 5, "the pool's quotaPerNamespace"}},
	FamilyUnavailable: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "No pool that admits the Service has addresses of a family it needs.",
		Do:    "Add addresses of that family to a pool, or change the Service's ipFamilies or ipFamilyPolicy.",
		text:  "No available IPs: the Service needs an %s address, and %s none at all. Add some, or change the Service's ipFamilies or ipFamilyPolicy.", sample: []any{IPv6, `pool "edge" has`}},
	UnknownPool: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The Service asks for a pool that does not exist or that its class may not use.",
		Do:    "Correct the name or create the pool.",
		text:  "The Service asks for an unknown pool %q; there are %s. Correct the annotation, or create the pool.", sample: []any{"egde", `"edge" and "lab"`}},
	PoolNotAllowed: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The Service asks for a pool, or for an address of it, whose namespaces or selectors leave the Service out.",
		Do:    "Change the pool's rules, or ask for another pool.",
		text:  "The Service asks for %s, but %s (pool %s not compatible for ip assignment). Change the pool's rules, or ask for another.", sample: []any{`pool "edge"`, `pool "edge" is not for namespace "shop"`, "edge"}},
	PoolUnavailable: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The pool asked for hands out nothing at present: it is disabled, invalid, or refused because it overlaps with another.",
		Do:    "Mend or enable the pool: kubectl describe pool, or ipaddresspool.",
		text:  "The Service asks for %s, but %s. Mend or enable the pool, or ask for another.", sample: []any{`address 192.0.2.7`, `pool "edge" is disabled`}},
	AddressNotInPool: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The Service asks for an address that is in no pool, or not in the pool it asks for.",
		Do:    "Ask for another address, or add this one to a pool.",
		text:  `Address ["%s"] is not allowed in config: %s. Add it to a pool, or ask for another.`, sample: []any{sampleAddress, "it is in no pool"}},
	AddressInUse: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The Service asks for an address that another Service has and does not share.",
		Do:    "Ask for another address, delete the other Service, or let both share with the annotation fairlead.io/share or metallb.io/allow-shared-ip.",
		text:  "Address %s is in use by Service %s. Ask for another, delete that Service, or let both share it with the annotation fairlead.io/share or metallb.io/allow-shared-ip.", sample: []any{sampleAddress, sampleService}},
	AddressReserved: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The Service asks for an address that the pool reserves for another Service.",
		Do:    "Ask for another address, or change the reservation in the pool.",
		text:  "Address %s is reserved for Service %s in pool %q. Ask for another, or change the reservation.", sample: []any{sampleAddress, sampleService, "edge"}},
	AddressIsCluster: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The address belongs to the cluster itself: it is the ClusterIP of a Service, in the network of the pods, or link-local. Announcing it would cut off whoever uses it.",
		Do:    "Request another address.",
		text:  "Address %s cannot be given to a Service: it is %s. Request another address.", sample: []any{"10.96.0.1", "the ClusterIP of Service default/kubernetes"}},
	AddressIsNode: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The address belongs to a node of the cluster: serving it would take the node off the network.",
		Do:    "Exclude the node's address from the pool, or ask for another address.",
		text:  "Address %s is an address of node %q. Exclude it from the pool, or ask for another.", sample: []any{sampleAddress, "worker-1"}},
	FamilyMismatch: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The addresses asked for do not match the Service's IP families.",
		Do:    "Ask for one address of each of the Service's families, or change ipFamilies.",
		text:  "The requested loadBalancer IP(s) [%s] does not match the ipFamily of the service (%s). Ask for one address of each of the Service's families.", sample: []any{"2001:db8::7", IPv4}},
	SharingConflict: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The address asked for is shared, but not with this Service: another key, the same port, or another traffic policy.",
		Do:    "Use the same key on all of them, different ports, and the same externalTrafficPolicy (with Local: the same selector).",
		text:  "Address %s cannot be shared with Service %s: %s. Use the same sharing key, different ports and the same externalTrafficPolicy, or ask for another address.", sample: []any{sampleAddress, sampleService, "port tcp/80 is already in use"}},
	InvalidRequest: {On: "Service", Warning: true, MetalLB: "LoadBalancerFailed", Cloud: string(SyncLoadBalancerFailed),
		Means: "Something in the Service cannot be understood.",
		Do:    "Correct it as the sentence says.",
		text:  "%s. Correct it.", sample: []any{`Annotation fairlead.io/addresses: "192.0.2.300" is not an IP address`}},
	ForeignWriter: {On: "Service", Warning: true,
		Means: "Somebody else keeps changing the Service's status or, where kube-vip announces, what kube-vip reads; Fairlead waits longer and longer before it writes again.",
		Do:    "Find the other controller (kubectl get service -o yaml --show-managed-fields) and give one of the two a loadBalancerClass of its own.",
		text:  "Somebody else keeps writing this Service's %s. Find the other writer with kubectl get service -o yaml --show-managed-fields, and give one of the two a loadBalancerClass of its own.", sample: []any{"status (198.51.100.1 instead of 192.0.2.7)"}},
	LeaseLost: {On: "Service", Warning: true, Event: true,
		Means: "The address that a DHCP server gave the Service must not be used any more: the server took it back, or none renewed it in time.",
		Do:    "Nothing where that is meant; the Service gets another address as soon as a server gives one. Else see that the DHCP server works, and that it has enough addresses.",
		text:  "Address %s was leased and is withdrawn from node %s: %s. Another one is asked for; see that the DHCP server works.", sample: []any{sampleAddress, "worker-1", "no DHCP server has renewed it"}},
	LeaseRefused: {On: "Service", Warning: true, Event: true,
		Means: "A DHCP server refuses to give the Service an address.",
		Do:    "See in the server's log why, and that it has addresses left. It is asked again.",
		text:  "A DHCP server refuses to give an %s address on %s of node %s. See in its log why; it is asked again.", sample: []any{IPv4, "eth0", "worker-1"}},
	LeaseUnusable: {On: "Service", Warning: true, Event: true,
		Means: "What a DHCP server gives the Service cannot be used: somebody else has that address, no Service can be reached at it, or the answer makes no sense. It is given back.",
		Do:    "Take the address out of the range of the DHCP server, or find out whose server that is. It is asked again.",
		text:  "What a DHCP server gives as %s address on %s of node %s cannot be used: %s. See that the server gives no address that is somebody else's; it is asked again.", sample: []any{IPv4, "eth0", "worker-1", "192.0.2.11 is the address of a node"}},
	LeaseNotAsked: {On: "Service", Warning: true, Event: true,
		Means: "The Service's address is for a DHCP server to give, and no node can ask for it.",
		Do:    "See what is in the way of the nodes: the annotation kube-vip.io/serviceInterface must name an interface that is up on some node, and IPv6 needs an address of the node's own there.",
		text:  "No node can ask a DHCP server for an %s address. %s An interface that the annotation kube-vip.io/serviceInterface names must be up on some node.", sample: []any{IPv4, "No node can announce it: worker-1 has no interface for it that is up."}},
	NoLeaseServer: {On: "Service", Warning: true, Event: true,
		Means: "The Service's address is for a DHCP server to give, or to renew, and none answers.",
		Do:    "Start a DHCP server on the network of that interface, or name another interface in the annotation kube-vip.io/serviceInterface. Servers are asked again.",
		text:  "No DHCP server answers that gives, or renews, an %s address on %s of node %s. Start one there, or name another interface in the annotation kube-vip.io/serviceInterface.", sample: []any{IPv4, "eth0", "worker-1"}},
	Announced: {On: "Service", Ready: true, Event: true, MetalLB: "nodeAssigned",
		Means: "A node answers for the Service's address.",
		Do:    "Nothing.",
		text:  `Address %s: announcing from node "%s" with protocol "layer2" on %s.`, sample: []any{sampleAddress, "worker-1", "eth0"}},
	Moved: {On: "Service", Ready: true, Event: true, MetalLB: "nodeAssigned",
		Means: "Another node answers for the Service's address now.",
		Do:    "Nothing; established connections through the former node are broken, new ones work.",
		text:  `Address %s moved from %s, announcing from node "%s" with protocol "layer2": %s.`, sample: []any{sampleAddress, "worker-1", "worker-2", "node worker-1 is unreachable"}},
	AddressConflict: {On: "Service", Warning: true, Event: true,
		Means: "A host on the LAN that is no node of the cluster uses the Service's address, so the node does not.",
		Do:    "Find the host by its MAC address and give it another address, or exclude the address from the pool. It is tried again by itself.",
		text:  "Address %s is used by another host on %s of node %s, with MAC %s. Give that host another address, or exclude this one from the pool.", sample: []any{sampleAddress, "eth0", "worker-1", "02:00:5e:10:00:01"}},
	NotAnnounced: {On: "Service", Warning: true, Event: true, MetalLB: "announceFailed",
		Means: "The Service has an address, but no node can announce it.",
		Do:    "Mend what the sentence says of the nodes, or change how the pool is advertised: a Pool's advertise, or an L2Advertisement.",
		text:  "Nobody answers for address %s. %s Mend that, or change how the pool is advertised.", sample: []any{sampleAddress, "No node can announce it: worker-1 has no interface for it that is up."}},
	FamiliesApart: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The Service needs an address of each IP family, and from pools like MetalLB's both have to be from one pool, of which none has both.",
		Do:    "Add addresses of the other family to a pool, or change the Service's ipFamilyPolicy.",
		text:  "No available IPs: the Service needs an IPv4 and an IPv6 address of one pool, and none has both free: %s. Add addresses to one, or change the Service's ipFamilyPolicy.", sample: []any{`pool "edge" has no IPv6 addresses`}},
	AddressReleased: {On: "Service", Event: true, MetalLB: "ClearAssignment",
		Means: "The Service asks for something else than it had, and has given its address back.",
		Do:    "Nothing.",
		text:  "The Service gave back %s: %s.", sample: []any{"192.0.2.7", "it asks for another address"}},
	OldAnnotation: {On: "Service", Warning: true, Event: true, MetalLB: "deprecatedAnnotation",
		Means: "The Service has an annotation under MetalLB's prefix of old, which still works.",
		Do:    "Use the prefix metallb.io/ instead of metallb.universe.tf/.",
		text:  "Deprecated: %s. Use %s instead.", sample: []any{"metallb.universe.tf/loadBalancerIPs", "metallb.io/loadBalancerIPs"}},
	OffSubnet: {On: "Service", Warning: true, Event: true,
		Means: "The node that announces the address has no address of its own in a network with it: hosts there may reach the Service, but the answers may leave by another way and be dropped.",
		Do:    "Give the nodes addresses in the network of the Service's address, or take the address from a network that they have.",
		text:  "Address %s is in none of the networks of node %s, which announces it on %s: answers may leave by another way and be dropped. Give the node an address in that network.", sample: []any{sampleAddress, "worker-1", "eth0"}},
}
