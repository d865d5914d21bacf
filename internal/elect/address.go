package elect

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

// Node is what counts about a node.
type Node struct {
	Name   string
	Labels labels.Set

	// Alive is what the members say. An agent without any peer that still reaches
	// the API puts the Nodes that are Ready here instead.
	Alive bool

	// ProxyHealthy: whatever forwards to pods there says that it does.
	ProxyHealthy bool

	// ProxyWasHealthy: it said so since the node was started, and does not any more. Its
	// rules still forward, so the node comes after healthy ones, and before none.
	ProxyWasHealthy bool

	// Excluded by the label node.kubernetes.io/exclude-from-external-load-balancers.
	Excluded bool

	// NetworkUnavailable is the condition of that name.
	NetworkUnavailable bool

	// Cordoned and Leaving nodes get an address only if no other node can have
	// it, and rather one that is cordoned than one whose agent is about to end.
	Cordoned, Leaving bool

	// Departing nodes are about to go: routers that lead there are told in time. They are
	// Cordoned as well.
	Departing bool

	// Interfaces are the names of the interfaces that can carry an address: the
	// link is up, and for IPv6 there is a global address on it already.
	Interfaces map[lb.Family]sets.Set[string]

	// Bare are those of them that carry an address only for an advertisement that names
	// them: they have no address of that family of their own, or are excluded.
	Bare map[lb.Family]sets.Set[string]

	// Silence is why the node's kernel does not answer on interfaces that are up, in the
	// words of its agent.
	Silence map[lb.Family]string
}

// Address is what counts about an address.
type Address struct {
	// Addr is invalid if the address is assigned by DHCP, and so unknown until a node
	// has the lease. Family and HashKey are set then.
	Addr netip.Addr

	// Family, if set, is that of the address that a node would get: interfaces count
	// that can carry one of that family.
	Family *lb.Family

	// HashKey is the first ingress address of the oldest Service that holds Addr, or
	// the name of its lease, so that all addresses of a Service move as one. Without
	// it Addr is hashed.
	HashKey string

	// Advertisements that apply to the address; without any, it has no owner. A node
	// can own it if one of them selects the node. It then is on the interfaces of all
	// advertisements that select the node, and their preferences count for the node.
	// The caller has applied ServiceSelectors already.
	Advertisements []lb.Advertisement

	// Unshareable: the address may be shared by Services, and an advertisement
	// that applies is for some Services only. Neither can then be done.
	Unshareable bool

	// Placed: the controller says which nodes may have the address; Carriers are their
	// names, lb.AnyNode alone being all. Such an address needs no serving endpoint.
	Placed   bool
	Carriers sets.Set[string]

	// AnyServing: a Service of the address has a serving endpoint somewhere.
	AnyServing bool

	// NeedsLocal: only nodes in ServingNodes, those with a serving endpoint, can
	// have the address (externalTrafficPolicy: Local).
	NeedsLocal   bool
	ServingNodes sets.Set[string]

	// StayingNodes are those of them with an endpoint that is not about to end.
	StayingNodes sets.Set[string]

	// Refused are the nodes whose kernel did not take the address.
	Refused sets.Set[string]
}

// FamilyOf returns that of the address that a node would have.
func (a *Address) FamilyOf() lb.Family {
	if a.Family != nil {
		return *a.Family
	}
	return lb.FamilyOf(a.Addr)
}

// sticky addresses stay where they are while that is as good as elsewhere. Others
// go back to the first by hash, as MetalLB's do.
func (a *Address) sticky() bool {
	for i := range a.Advertisements {
		if a.Advertisements[i].Failback {
			return false
		}
	}
	return true
}

// Claim is what a node says about its hold on the address.
type Claim struct {
	Node string

	// Epoch counts the times the address was taken; the higher one wins.
	Epoch uint64

	// Up: the node has the address; after a restart of all agents: had it last.
	// A claim that is not up is that of a node that gave the address up, or that
	// is about to take it; it only keeps epochs from being used twice.
	Up bool
}
