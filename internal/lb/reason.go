package lb

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// Code is the name of a reason: the reason of the condition and of the event,
// and the label of the metric.
type Code string

// Reason is one thing that is told to a user: a code of the closed list below
// and a full sentence with what, which, why and what to do.
type Reason struct {
	Code Code
	Text string
}

// Ready says whether an object with this reason works as it asks to.
func (r Reason) Ready() bool { return Reasons[r.Code].Ready }

// Warning says whether the reason's event is a warning.
func (r Reason) Warning() bool { return Reasons[r.Code].Warning }

func (r Reason) String() string { return string(r.Code) + ": " + r.Text }

// About says what a code means, for the code and for the reference page that is
// generated from it.
type About struct {
	On      string // the kind the reason is seen on
	Ready   bool   // the condition is True
	Warning bool   // the event is a warning
	Event   bool   // told by an event alone, never by a condition
	MetalLB string // the event's reason where it is told in MetalLB's words
	Cloud   string // the event's reason where it is told in the words of cloud controllers
	Means   string // one sentence for the reference
	Do      string // what the reader can do about it
	text    string // format of Reason.Text
	sample  []any  // arguments of the example in the reference
}

// Example returns the sentence as a user may see it.
func (a About) Example() string { return fmt.Sprintf(a.text, a.sample...) }

// With returns the reason of this code with args for the blanks in its text.
func (c Code) With(args ...any) Reason {
	return Reason{Code: c, Text: cut(fmt.Sprintf(Reasons[c].text, args...))}
}

// textMost is how long a text may be: what somebody wrote into an annotation or
// a pool is in it, and the API server refuses conditions that are too long.
const textMost = 4096

func cut(text string) string {
	if len(text) <= textMost {
		return text
	}
	end := textMost
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// Say is With for texts whose blanks are all %s and args that are text already.
// It does without fmt, because every allocation says Ready.
func (c Code) Say(args ...string) Reason {
	var b strings.Builder
	rest := Reasons[c].text
	size := len(rest)
	for _, a := range args {
		size += len(a)
	}
	b.Grow(size)
	for _, a := range args {
		before, after, _ := strings.Cut(rest, "%s")
		b.WriteString(before)
		b.WriteString(a)
		rest = after
	}
	b.WriteString(rest)
	return Reason{Code: c, Text: cut(b.String())}
}

// Keeping adds to r that the Service keeps the addresses it has until what it
// asks for can be had.
func (r Reason) Keeping(addresses []netip.Addr) Reason {
	if len(addresses) > 0 {
		r.Text += " Until then the Service keeps " + ListAddrs(addresses) + "."
	}
	return r
}

// And adds to r what o says, too. The code stays that of r.
func (r Reason) And(o Reason) Reason {
	r.Text = cut(r.Text + " " + o.Text)
	return r
}

// ListAddrs writes addresses as they are read in a sentence.
func ListAddrs(addresses []netip.Addr) string {
	if len(addresses) == 1 {
		return addresses[0].String()
	}
	var b strings.Builder
	for i, a := range addresses {
		switch {
		case i > 0 && i == len(addresses)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(a.String())
	}
	return b.String()
}

// Reasons on Services.
const (
	Ready             Code = "Ready"
	SingleFamily      Code = "SingleFamily"
	OutOfPool         Code = "OutOfPool"
	OutsidePools      Code = "OutsidePools"
	WaitingForLease   Code = "WaitingForLease"
	LeftToLease       Code = "LeftToLease"
	AddressContested  Code = "AddressContested"
	NoPool            Code = "NoPool"
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
	FamilyMismatch    Code = "FamilyMismatch"
	SharingConflict   Code = "SharingConflict"
	InvalidRequest    Code = "InvalidRequest"
	ForeignWriter     Code = "ForeignWriter"
	LeaseLost         Code = "LeaseLost"
	LeaseRefused      Code = "LeaseRefused"
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

// Reasons on agents.
const (
	AgentReady    Code = "AgentReady"
	AgentIsolated Code = "AgentIsolated"
	AgentLeaving  Code = "AgentLeaving"
	AgentConflict Code = "AgentConflict"
)

// Reasons on pools.
const (
	PoolReady    Code = "PoolReady"
	PoolDisabled Code = "PoolDisabled"
	PoolOverlap  Code = "PoolOverlap"
	PoolInvalid  Code = "PoolInvalid"
)

// Reasons on the ConfigMap of kube-vip's cloud provider.
const (
	KeyInvalid  Code = "KeyInvalid"
	KeyShadowed Code = "KeyShadowed"
	KeyUnknown  Code = "KeyUnknown"
)

// Reasons on nodes that are servers of a cloud.
const (
	NodeNotFound       Code = "NodeNotFound"
	NodeAmbiguous      Code = "NodeAmbiguous"
	NodeForeign        Code = "NodeForeign"
	NodeAddressUnknown Code = "NodeAddressUnknown"
)

// Reasons on objects of MetalLB's kinds; their pools have those of pools, too.
const (
	AdvertisementReady   Code = "AdvertisementReady"
	AdvertisementInvalid Code = "AdvertisementInvalid"
	WrongNamespace       Code = "WrongNamespace"
	NotServed            Code = "NotServed"
)

var (
	sampleAddress = netip.MustParseAddr("192.0.2.7")
	sampleService = types.NamespacedName{Namespace: "shop", Name: "web"}
)

// Reasons is the closed list of everything that can be told to a user.
var Reasons = map[Code]About{
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
	AddressContested: {On: "Service", Ready: true, Warning: true,
		Means: "Two Services were found with one address; this one is older and keeps it.",
		Do:    "Nothing; look for a second controller that serves the same class.",
		text:  "Address %s was also published for Service %s; this Service is older and keeps it. Look for a second controller that serves the same class.", sample: []any{sampleAddress, sampleService}},
	NoPool: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "There is no pool at all that the Service's class may use.",
		Do:    "Create a Pool, or an IPAddressPool of MetalLB's.",
		text:  "No available IPs: there is no pool of addresses. Create a Pool (kubectl explain pool.spec) or an IPAddressPool of MetalLB's."},
	NoPoolMatches: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "There are pools, but none hands addresses to this Service: their namespaces or selectors leave it out, they are disabled, or they are only given on request.",
		Do:    "Change the rules of a pool, or ask for one with the annotation fairlead.io/pool or metallb.io/address-pool.",
		text:  "No available IPs: no pool gives addresses to this Service: %s. Change a pool's rules, or ask for a pool with the annotation fairlead.io/pool or metallb.io/address-pool.", sample: []any{`pool "edge" is not for namespace "shop"; pool "lab" is only given on request`}},
	PoolExhausted: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "Every pool that admits the Service is full.",
		Do:    "Add addresses to a pool or delete a Service; this one is served at once then.",
		text:  "No available IPs: no %s address is free in %s. Add addresses or delete a Service.", sample: []any{IPv4, `pool "edge" (8 of 8 used)`}},
	QuotaExceeded: {On: "Service", Warning: true, MetalLB: "AllocationFailed",
		Means: "The namespace holds as many addresses of the pool as it may.",
		Do:    "Raise the pool's quota or delete a Service of the namespace; this one is served at once then.",
		text:  "Namespace %q has used up its quota of pool %q: addresses held %d, allowed %d. Raise the pool's quotaPerNamespace, or delete a Service of the namespace.", sample: []any{"shop", "edge", 5, 5}},
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
		Means: "Somebody else keeps changing the Service's status; Fairlead waits longer and longer before it writes again.",
		Do:    "Find the other controller (kubectl get service -o yaml --show-managed-fields) and give one of the two a loadBalancerClass of its own.",
		text:  "Somebody else keeps writing this Service's status (%s instead of %s). Find the other writer with kubectl get service -o yaml --show-managed-fields, and give one of the two a loadBalancerClass of its own.", sample: []any{"198.51.100.1", "192.0.2.7"}},
	LeaseLost: {On: "Service", Warning: true, Event: true,
		Means: "The address that a DHCP server gave the Service must not be used any more: the server took it back, or none renewed it in time.",
		Do:    "Nothing where that is meant; the Service gets another address as soon as a server gives one. Else see that the DHCP server works, and that it has enough addresses.",
		text:  "Address %s was leased and is withdrawn from node %s: %s. Another one is asked for; see that the DHCP server works.", sample: []any{sampleAddress, "worker-1", "no DHCP server has renewed it"}},
	LeaseRefused: {On: "Service", Warning: true, Event: true,
		Means: "A DHCP server refuses to give the Service an address.",
		Do:    "See in the server's log why, and that it has addresses left. It is asked again.",
		text:  "A DHCP server refuses to give an %s address on %s of node %s. See in its log why; it is asked again.", sample: []any{IPv4, "eth0", "worker-1"}},
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

	AgentReady: {On: "Agent", Ready: true,
		Means: "The node announces the addresses that are its own.",
		Do:    "Nothing.",
		text:  "The node announces what is its own; it sees %s.", sample: []any{"2 other agents"}},
	AgentIsolated: {On: "Agent", Warning: true,
		Means: "The agent reaches neither another agent nor the API server, and announces nothing.",
		Do:    "Look for what keeps the node off the network.",
		text:  "The agent reaches neither another agent nor the API server, and announces nothing. Look for what keeps the node off the network."},
	AgentLeaving: {On: "Agent",
		Means: "The agent ends, and hands its addresses over.",
		Do:    "Nothing.",
		text:  "The agent ends, and hands its addresses over."},
	AgentConflict: {On: "Agent", Warning: true,
		Means: "Hosts on the LAN that are no nodes use addresses of Services.",
		Do:    "Find the hosts by their MAC addresses.",
		text:  "Other hosts use %s. Give them other addresses, or exclude these from the pools.", sample: []any{"192.0.2.7 (02:00:5e:10:00:01)"}},

	PoolReady: {On: "Pool", Ready: true,
		Means: "The pool hands out addresses.",
		Do:    "Nothing.",
		text:  "The pool hands out addresses."},
	PoolDisabled: {On: "Pool",
		Means: "The pool is disabled: nothing new is handed out, what is held stays.",
		Do:    "Remove disabled: true to use it again, or delete it once nothing is held.",
		text:  "The pool is disabled: it hands out nothing new, what is held stays. Remove disabled: true to use it again."},
	PoolOverlap: {On: "Pool", Warning: true,
		Means: "The pool has addresses that an older pool has, too: it hands out nothing until one of them is changed.",
		Do:    "Change or delete one of the two; the refusal is lifted by itself.",
		text:  "Pool %q is refused: its addresses %s overlap with pool %q. Change or delete one of them.", sample: []any{"lab", "192.0.2.0-192.0.2.7", "edge"}},
	PoolInvalid: {On: "Pool", Warning: true,
		Means: "Something in the pool cannot be understood or used: it hands out nothing new, what is held stays.",
		Do:    "Correct it as the sentence says.",
		text:  "The pool is refused: %s. Correct it.", sample: []any{`addresses[0]: "192.0.2.300" is not an IP address`}},

	NodeNotFound: {On: "Node", Warning: true, Event: true,
		Means: "A new node waits for the cloud to say what it is, but the cloud has no such server.",
		Do:    "Register the node under the name of its server, or with its providerID; and look whether the access token is one of the project that the server is in.",
		text:  "Node %s stays uninitialized: the project of the access token has no server %s. Register the node under the name of its server (the kubelet's --hostname-override), or with its providerID.", sample: []any{"worker-1", `named "worker-1"`}},
	NodeAmbiguous: {On: "Node", Warning: true, Event: true,
		Means:  "A new node waits for the cloud to say what it is, but several servers have its name.",
		Do:     "Give the servers different names, or set the node's spec.providerID.",
		text:   "%d servers are named %q, so the node stays uninitialized. Set the node's spec.providerID to the one that it is (cloudscale://%s, cloudscale://%s, …), or rename the others.",
		sample: []any{2, "worker-1", "6a4ffbab-1ba6-4a8f-8f5f-2d4e4d6b2f0e", "0f7a3c0e-98f7-4c53-8d0b-70f0a6a3f4f6"}},
	NodeForeign: {On: "Node", Warning: true, Event: true,
		Means: "A new node waits for the cloud to say what it is, but its providerID is not one of this cloud.",
		Do:    "If the node is of this cloud, delete the Node and register it again without a providerID, or with the right one; if not, remove its taint.",
		text:  "Node %s stays uninitialized: its providerID %s is not like cloudscale://UUID. If the node is a server of this cloud, delete the Node and register it again without a providerID; if not, remove its taint node.cloudprovider.kubernetes.io/uninitialized.", sample: []any{"worker-1", "aws:///eu-central-2a/i-0abc"}},
	NodeAddressUnknown: {On: "Node", Warning: true, Event: true,
		Means: "The kubelet was told an address of the node that the cloud does not know its server by.",
		Do:    "Give the kubelet an address of the server in --node-ip, or none, and restart it.",
		text:  "The kubelet of node %s was told to use %s (--node-ip), but the cloud knows the server by %s; so %s. Give the kubelet one of these addresses, or none, and restart it.", sample: []any{"worker-1", "10.9.9.9", "5.102.148.123, 2a06:c01:1000:1165::123, 10.1.1.123", "it stays uninitialized"}},

	AdvertisementReady: {On: "L2Advertisement", Ready: true,
		Means: "The advertisement applies.",
		Do:    "Nothing.",
		text:  "The advertisement applies to %s.", sample: []any{`pool "edge"`}},
	AdvertisementInvalid: {On: "L2Advertisement", Warning: true,
		Means: "Something in the advertisement cannot be understood: it does not apply, others do.",
		Do:    "Correct it as the sentence says.",
		text:  "The advertisement does not apply: %s. Correct it.", sample: []any{`ipAddressPools: "edge" is listed twice`}},
	WrongNamespace: {On: "MetalLB's kinds", Warning: true,
		Means: "Objects of MetalLB's kinds count in one namespace only, and this one is in another.",
		Do:    "Create it in the namespace that the sentence names.",
		text:  "The resource must be created in %s namespace. Here it has no effect.", sample: []any{"metallb-system"}},
	NotServed: {On: "MetalLB's BGP kinds", Warning: true, Event: true,
		Means: "Fairlead announces by ARP and NDP; objects of this kind have no effect.",
		Do:    "Announce the addresses with an L2Advertisement.",
		text:  "Fairlead does not serve %s: it has no effect. Announce the addresses with an L2Advertisement.", sample: []any{"BGPPeer"}},

	KeyInvalid: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A value in the ConfigMap cannot be understood or used; all other keys count.",
		Do:    "Correct it as the sentence says.",
		text:  "Key %s: %s. Correct it.", sample: []any{"cidr-global", `"192.0.2.300" is not an IP address`}},
	KeyShadowed: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A key in the ConfigMap has no effect, because another one comes before it.",
		Do:    "Remove one of the two keys, or set pool-precedence: namespace-first, with which the keys of a namespace come before those for all.",
		text:  "Key %s has no effect, because key %s comes before it. Remove one of them, or set pool-precedence to namespace-first, with which the keys of a namespace come first.", sample: []any{"range-shop", "cidr-global"}},
	KeyUnknown: {On: "ConfigMap", Warning: true, Event: true,
		Means: "A key in the ConfigMap has no effect.",
		Do:    "Correct or remove it.",
		text:  "Key %s has no effect: %s. Correct or remove it.", sample: []any{"cird-global", "there are cidr-global and range-global"}},
}
