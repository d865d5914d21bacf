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
	AddressOwned      Code = "AddressOwned"
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
	AddressRefused    Code = "AddressRefused"
	NotAnnounced      Code = "NotAnnounced"
	NoServingEndpoint Code = "NoServingEndpoint"
	FamiliesApart     Code = "FamiliesApart"
	AddressReleased   Code = "AddressReleased"
	OffSubnet         Code = "OffSubnet"
)

var (
	sampleAddress = netip.MustParseAddr("192.0.2.7")
	sampleService = types.NamespacedName{Namespace: "shop", Name: "web"}
)

var serviceReasons = Table{
	Ready: {On: "Service", Ready: true,
		Means: "The Service has the addresses that it requests.",
		Do:    "Nothing.",
		Text:  "The Service has %s from %s.", Sample: []any{"192.0.2.7", `pool "edge"`}},
	SingleFamily: {On: "Service", Ready: true,
		Means: "The Service prefers both IP families and has an address of one. It gets the other as soon as a pool has one.",
		Do:    "Add addresses of the other family to a pool, or set ipFamilyPolicy: SingleStack.",
		Text:  "The Service has %s from %s. It prefers dual-stack, but %s. Add one to a pool, or set ipFamilyPolicy: SingleStack.", Sample: []any{"192.0.2.7", `pool "edge"`, "no pool has a free IPv6 address for it"}},
	OutOfPool: {On: "Service", Ready: true, Warning: true,
		Means: "The Service keeps an address that is in no pool that it may use: the pool was shrunk, deleted or refused, or its rules no longer admit the Service.",
		Do:    `Add the address to a pool again, or set the annotation fairlead.io/reallocate: "true" to move the Service to another address.`,
		Text:  `The Service keeps %s, which %s. Add that to a pool again, or set the annotation fairlead.io/reallocate: "true" to move the Service.`, Sample: []any{"192.0.2.7", "is in no pool any more"}},
	OutsidePools: {On: "Service", Ready: true, Warning: true,
		Means: "The Service has the address that it requests, although no pool that it may use contains it. Fairlead gives the address to no other Service, but hosts on the LAN may use it.",
		Do:    "Nothing if the address is kept free for the Service. Otherwise request an address of a pool, or none.",
		Text:  "The Service has %s as requested, although no pool that it may use contains it. Check that nothing else on the LAN uses it.", Sample: []any{"192.0.2.7"}},
	WaitingForLease: {On: "Service",
		Means: "The Service's address is assigned by DHCP, and no DHCP server has assigned it yet.",
		Do:    "Nothing. If this takes longer than a minute, check that a DHCP server answers on the LAN of the nodes.",
		Text:  "The Service waits for an %s address from a DHCP server. If this takes longer than a minute, check that a server answers on the LAN of the nodes.", Sample: []any{IPv4}},
	AddressContested: {On: "Service", Ready: true, Warning: true,
		Means: "Two Services had the same address. This one is older and keeps it.",
		Do:    "Nothing. Look for a second controller that serves the same class.",
		Text:  "Address %s was also published for Service %s. This Service is older and keeps it. Look for a second controller that serves the same class.", Sample: []any{sampleAddress, sampleService}},
	NoPool: {On: "Service", Warning: true,
		Means: "There is no pool that the Service's class may use.",
		Do:    "Create a pool, as the sentence says.",
		Text:  "No available IPs: there is no pool of addresses. Create %s.", Sample: []any{"a Pool (kubectl explain pool.spec)"}},
	PoolsUnreadable: {On: "Service", Warning: true,
		Means: "The controller cannot read the pools that the Service may use: it lacks a permission, or the CRD is not installed. Services keep the addresses that they have.",
		Do:    "Allow the controller's ServiceAccount to get, list and watch what the sentence names, or install the CRD. The Service is served within seconds.",
		Text:  "The controller cannot read %s: %s. %s.", Sample: []any{"pools.fairlead.io", `pools.fairlead.io is forbidden: User "system:serviceaccount:fairlead-system:fairlead" cannot list resource "pools" in API group "fairlead.io" at the cluster scope`, "Allow it to get, list and watch that"}},
	NoPoolMatches: {On: "Service", Warning: true,
		Means: "There are pools, but none gives addresses to this Service: their namespaces or selectors exclude it, they are disabled, or they are only used on request.",
		Do:    "Change a pool so that it admits the Service, or request a pool by name.",
		Text:  "No available IPs: no pool gives addresses to this Service: %s. %s.", Sample: []any{`pool "lab" is only used on request; pool "edge" is not for namespace "shop"`, "Change the rules of a pool, or request a pool with annotation fairlead.io/pool"}},
	PoolExhausted: {On: "Service", Warning: true,
		Means: "All pools that admit the Service are full.",
		Do:    "Add addresses to a pool, or delete a Service. This Service then gets an address at once.",
		Text:  "No available IPs: no %s address is free in %s. %s, or delete a Service.", Sample: []any{IPv4, `pool "edge" (8 of 8 used)`, "Add addresses"}},
	QuotaExceeded: {On: "Service", Warning: true,
		Means: "The namespace holds as many addresses of the pool as its quota allows.",
		Do:    "Raise the quota of the pool, or delete a Service of the namespace. This Service then gets an address at once.",
		Text:  "Namespace %q has used up its quota of pool %q: addresses held %d, allowed %d. Raise %s, or delete a Service of the namespace.", Sample: []any{"shop", "edge", 5, 5, "the pool's quotaPerNamespace"}},
	FamilyUnavailable: {On: "Service", Warning: true,
		Means: "No pool that admits the Service has addresses of an IP family that it needs.",
		Do:    "Add addresses of that family to a pool, or change the Service's ipFamilies or ipFamilyPolicy.",
		Text:  "No available IPs: the Service needs an %s address, but %s none. %s, or change the Service's ipFamilies or ipFamilyPolicy.", Sample: []any{IPv6, `pool "edge" has`, "Add addresses"}},
	UnknownPool: {On: "Service", Warning: true,
		Means: "The Service requests a pool that does not exist or that its class may not use.",
		Do:    "Correct the name, or create the pool.",
		Text:  "The Service requests an unknown pool %q. Existing pools: %s. Correct the annotation, or create the pool.", Sample: []any{"egde", `"edge" and "lab"`}},
	PoolNotAllowed: {On: "Service", Warning: true,
		Means: "The Service requests a pool, or an address of a pool, whose namespaces or selectors exclude the Service.",
		Do:    "Change the rules of the pool, or request another pool.",
		Text:  "The Service requests %s, but %s (pool %s not compatible for ip assignment). Change the rules of the pool, or request another pool.", Sample: []any{`pool "edge"`, `pool "edge" is not for namespace "shop"`, "edge"}},
	PoolUnavailable: {On: "Service", Warning: true,
		Means: "The requested pool hands out nothing: it is disabled, invalid, or refused because it overlaps with another.",
		Do:    "Fix or enable the pool. kubectl describe shows what is wrong with it.",
		Text:  "The Service requests %s, but %s. Fix or enable the pool, or request another.", Sample: []any{`address 192.0.2.7`, `pool "edge" is disabled`}},
	AddressNotInPool: {On: "Service", Warning: true,
		Means: "The Service requests an address outside every pool, or outside the pool that it requests.",
		Do:    "Request another address, or add this one to a pool.",
		Text:  `Address ["%s"] is not allowed in config: %s. Add it to a pool, or request another address.`, Sample: []any{sampleAddress, "it is in no pool"}},
	AddressInUse: {On: "Service", Warning: true,
		Means: "The Service requests an address that another Service has and does not share.",
		Do:    "Request another address, delete the other Service, or let both share the address.",
		Text:  "Address %s is in use by Service %s. Request another address, delete that Service, or let both share the address with %s.", Sample: []any{sampleAddress, sampleService, "annotation fairlead.io/share"}},
	AddressReserved: {On: "Service", Warning: true,
		Means: "The Service requests an address that the pool reserves for another Service.",
		Do:    "Request another address, or change the reservation in the pool.",
		Text:  "Address %s is reserved for Service %s in pool %q. Request another address, or change the reservation.", Sample: []any{sampleAddress, sampleService, "edge"}},
	AddressIsCluster: {On: "Service", Warning: true,
		Means: "The address belongs to somebody else: it is the ClusterIP of a Service, in a network of the Services or of the pods, a gateway or name server of a node, link-local, or, outside the pools, an external IP of another Service. Announcing it would cut off those who use it.",
		Do:    "Request another address.",
		Text:  "Address %s cannot be given to a Service: it is %s. Request another address.", Sample: []any{"10.96.0.1", "the ClusterIP of Service default/kubernetes"}},
	AddressOwned: {On: "Service", Ready: true, Warning: true,
		Means: "The Service has an address that also belongs to somebody else, as the sentence says. Fairlead would not assign it today.",
		Do:    `Request another address, or set the annotation fairlead.io/reallocate: "true" to move the Service. If a pool contains such addresses, exclude them.`,
		Text:  `The Service has %s, but that is %s. Request another address, or set the annotation fairlead.io/reallocate: "true" to move the Service.`, Sample: []any{sampleAddress, "the gateway of node worker-1"}},
	AddressIsNode: {On: "Service", Warning: true,
		Means: "The address belongs to a node of the cluster. Announcing it would take the node off the network.",
		Do:    "Exclude the node's address from the pool, or request another address.",
		Text:  "Address %s belongs to node %q. Exclude it from the pool, or request another address.", Sample: []any{sampleAddress, "worker-1"}},
	FamilyMismatch: {On: "Service", Warning: true,
		Means: "The requested addresses do not match the Service's IP families.",
		Do:    "Request one address for each of the Service's IP families, or change ipFamilies.",
		Text:  "The requested loadBalancer IP(s) [%s] does not match the ipFamily of the service (%s). Request one address for each of the Service's IP families.", Sample: []any{"2001:db8::7", IPv4}},
	SharingConflict: {On: "Service", Warning: true,
		Means: "The requested address is shared, but this Service cannot share it: it has another key, the same port, or another traffic policy.",
		Do:    "Use the same key on all Services, different ports, and the same externalTrafficPolicy (with Local: the same selector).",
		Text:  "Address %s cannot be shared with Service %s: %s. Use the same sharing key, different ports and the same externalTrafficPolicy, or request another address.", Sample: []any{sampleAddress, sampleService, "port tcp/80 is already in use"}},
	InvalidRequest: {On: "Service", Warning: true,
		Means: "The Service has a value that cannot be used.",
		Do:    "Correct the value that the sentence names.",
		Text:  "%s. Correct it.", Sample: []any{`Annotation fairlead.io/addresses: "192.0.2.300" is not an IP address`}},
	ForeignWriter: {On: "Service", Warning: true,
		Means: "Somebody else keeps changing what Fairlead writes on the Service. Fairlead waits longer each time before it writes again.",
		Do:    "Find the other controller (kubectl get service -o yaml --show-managed-fields), and give one of the two its own loadBalancerClass.",
		Text:  "Somebody else keeps writing this Service's %s. Find the other writer with kubectl get service -o yaml --show-managed-fields, and give one of the two its own loadBalancerClass.", Sample: []any{"status (198.51.100.1 instead of 192.0.2.7)"}},
	LeaseLost: {On: "Service", Warning: true, Event: true,
		Means: "The Service must no longer use the address that it had from DHCP: the server withdrew it, or did not renew it in time.",
		Do:    "Nothing if this is intended; the agent requests another address. Otherwise check that the DHCP server works and has free addresses.",
		Text:  "The agent removed address %s, assigned by DHCP, from node %s: %s. It requests another one. Check that the DHCP server works.", Sample: []any{sampleAddress, "worker-1", "no DHCP server has renewed it"}},
	LeaseRefused: {On: "Service", Warning: true, Event: true,
		Means: "A DHCP server refuses to assign an address to the Service.",
		Do:    "Look into the log of the server, and check that it has free addresses. The agent asks again.",
		Text:  "A DHCP server refuses to assign an %s address on %s of node %s. Its log says why. The agent asks again.", Sample: []any{IPv4, "eth0", "worker-1"}},
	LeaseUnusable: {On: "Service", Warning: true, Event: true,
		Means: "The address that a DHCP server assigns cannot be used: somebody else has it, it cannot be an address of a Service, or the answer is malformed. The agent gives it back.",
		Do:    "Remove the address from the range of the DHCP server, or find out whose server that is. The agent asks again.",
		Text:  "The %s address that a DHCP server assigns on %s of node %s cannot be used: %s. Check that the server assigns no address that is in use elsewhere. The agent asks again.", Sample: []any{IPv4, "eth0", "worker-1", "192.0.2.11 is the address of a node"}},
	LeaseNotAsked: {On: "Service", Warning: true, Event: true,
		Means: "The Service's address is assigned by DHCP, and no node can ask for it.",
		Do:    "Fix the nodes that the sentence lists. The interface that the Service names must be up on some node. For IPv6, the node needs an IPv6 address there.",
		Text:  "No node can ask a DHCP server for an %s address. %s The interface that %s names must be up on some node.", Sample: []any{IPv4, "No node can announce it: worker-1 has no interface for it that is up.", "the Service's annotation"}},
	NoLeaseServer: {On: "Service", Warning: true, Event: true,
		Means: "No DHCP server answers that assigns or renews the Service's address.",
		Do:    "Start a DHCP server on the network of that interface, or name another interface in the Service's annotation. The agent asks again.",
		Text:  "No DHCP server answers that assigns or renews an %s address on %s of node %s. Start one there, or name another interface with %s.", Sample: []any{IPv4, "eth0", "worker-1", "the Service's annotation"}},
	Announced: {On: "Service", Ready: true, Event: true,
		Means: "A node announces the Service's address.",
		Do:    "Nothing.",
		Text:  `Address %s: announcing from node "%s" with protocol "layer2" on %s.`, Sample: []any{sampleAddress, "worker-1", "eth0"}},
	Moved: {On: "Service", Ready: true, Event: true,
		Means: "Another node announces the Service's address now.",
		Do:    "Nothing. After a planned move, established connections continue through the former node, as long as it is up; the event says how many. If the former node failed, they break.",
		Text:  `Address %s moved from %s, announcing from node "%s" with protocol "layer2": %s.%s`, Sample: []any{sampleAddress, "worker-1", "worker-2", "node worker-1 is cordoned", " 12 established connections are kept."}},
	AddressConflict: {On: "Service", Warning: true, Event: true,
		Means: "A host on the LAN that is not a node of the cluster uses the Service's address, so the node does not announce it.",
		Do:    "Find the host by its MAC address and give it another address, or exclude the address from the pool. The agent tries again.",
		Text:  "Address %s is used by another host on %s of node %s, with MAC %s. Give that host another address, or exclude this one from the pool.", Sample: []any{sampleAddress, "eth0", "worker-1", "02:00:5e:10:00:01"}},
	AddressRefused: {On: "Service", Warning: true, Event: true,
		Means: "A node was to announce the Service's address, but its kernel does not accept it: another program has put the address on an interface, or an interface cannot carry it. Another node announces it, if one can.",
		Do:    "Look at the addresses of the node's interfaces, and remove what another program put there. The agent tries again every ten seconds.",
		Text:  "Node %[2]s cannot announce address %[1]s: %[3]v. Another node announces it, if one can.", Sample: []any{sampleAddress, "worker-1", "add 192.0.2.7 on eth0: another program already added the address to the interface"}},
	NotAnnounced: {On: "Service", Warning: true, Event: true,
		Means: "The Service has an address, but no node can announce it.",
		Do:    "Fix the nodes that the sentence lists, or change which nodes and interfaces announce the pool.",
		Text:  "Address %s is not announced. %s", Sample: []any{sampleAddress, "No node can announce it: worker-1 has no interface for it that is up. Fix that, or change how the pool is advertised."}},
	NoServingEndpoint: {On: "Service", Warning: true, Event: true,
		Means: "The Service has an address, but no endpoint that serves, so no node announces the address.",
		Do:    "Check the Service's selector, and that its pods are Ready. The address is announced as soon as one endpoint serves.",
		Text:  "Address %s is not announced, because no endpoint of the Service serves. Check the Service's selector, and that its pods are Ready.", Sample: []any{sampleAddress}},
	FamiliesApart: {On: "Service", Warning: true,
		Means: "The Service needs an address of each IP family, both must be from one pool, and no pool has both free.",
		Do:    "Add addresses of the missing family to a pool, or change the Service's ipFamilyPolicy.",
		Text:  "No available IPs: the Service needs an IPv4 and an IPv6 address of one pool, but no pool has both free: %s. Add addresses to one, or change the Service's ipFamilyPolicy.", Sample: []any{`pool "edge" has no IPv6 addresses`}},
	AddressReleased: {On: "Service", Event: true,
		Means: "The Service has released its address, because it requests something else or is no longer served.",
		Do:    "Nothing.",
		Text:  "The Service released %s: %s.", Sample: []any{"192.0.2.7", "it requests another address"}},
	OffSubnet: {On: "Service", Warning: true, Event: true,
		Means: "The node that announces the address has no address in the same network. Hosts there may reach the Service, but replies may take another route and be dropped.",
		Do:    "Give the nodes addresses in the network of the Service's address, or use addresses of a network that the nodes have.",
		Text:  "Address %s is in none of the networks of node %s, which announces it on %s. Replies may take another route and be dropped. Give the node an address in that network.", Sample: []any{sampleAddress, "worker-1", "eth0"}},
}
