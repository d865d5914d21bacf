package sources

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// What the election must know, from objects of the API server. Agents and the tools
// that predict what agents do share it.

// Serving has the nodes with endpoints of one Service, by EndpointSlice.
type Serving map[string]NodesOf

// NodesOf are the nodes with endpoints of one EndpointSlice; "" is one outside of the cluster.
// Serving have one that serves, Staying one that does and is not about to end.
type NodesOf struct{ Serving, Staying sets.Set[string] }

// Equal compares.
func (n NodesOf) Equal(m NodesOf) bool {
	return n.Serving.Equal(m.Serving) && n.Staying.Equal(m.Staying)
}

// ServingNodes returns the nodes with endpoints of a slice. An endpoint that is terminating
// serves until it says otherwise.
func ServingNodes(slice *discoveryv1.EndpointSlice) NodesOf {
	nodes := NodesOf{sets.New[string](), sets.New[string]()}
	for _, e := range slice.Endpoints {
		c := e.Conditions
		if c.Ready != nil && !*c.Ready && (c.Serving == nil || !*c.Serving) {
			continue
		}
		node := ""
		if e.NodeName != nil {
			node = *e.NodeName
		}
		nodes.Serving.Insert(node)
		if c.Terminating == nil || !*c.Terminating {
			nodes.Staying.Insert(node)
		}
	}
	return nodes
}

// Advertisements returns those that are for a as an address of s, and whether it cannot
// be announced for s because it may be shared while one of them is for some Services
// only.
func (p *Pools) Advertisements(a netip.Addr, s *Service) (ads []lb.Advertisement, unshareable bool) {
	_, all := p.Of(a, s)
	for _, ad := range all {
		if len(ad.ServiceSelectors) == 0 {
			ads = append(ads, ad)
		} else if slices.ContainsFunc(ad.ServiceSelectors, func(l labels.Selector) bool { return l.Matches(s.Request.Labels) }) {
			unshareable = unshareable || s.Request.Shares(lb.FamilyOf(a))
			ads = append(ads, ad)
		}
	}
	return ads, unshareable
}

// Tenants returns those of all, the Services that publish an address, the oldest first,
// that live on it. Of Services that have one address without having agreed to share it,
// only the oldest counts, as the controller will decide as well.
func Tenants[T any](all []T, shareKey func(T) string) []T {
	if len(all) == 0 {
		return nil
	}
	out := all[:1:1]
	for _, o := range all[1:] {
		if key := shareKey(all[0]); key != "" && shareKey(o) == key {
			out = append(out, o)
		}
	}
	return out
}

// Candidate returns what the election needs to know about a, on which tenants live. The
// hash key is that of the first of them.
func (p *Pools) Candidate(a netip.Addr, tenants []*Service, hashKey string, serving func(*Service) Serving) elect.Address {
	out := elect.Address{Addr: a, HashKey: hashKey}
	announced := 0
	for _, s := range tenants {
		ads, unshareable := p.Advertisements(a, s)
		if unshareable {
			continue
		}
		// Services share an address of one pool, and advertisements for some Services
		// only are not for those that share: what is for one is for all.
		if announced++; announced == 1 {
			out.Advertisements = ads
		}
		if s.Placed { // what one says, all say that share it
			out.Placed, out.Carriers = true, out.Carriers.Union(sets.New(s.Carriers[a]...))
		}
		FillServing(&out, s, serving(s))
	}
	out.Unshareable = len(tenants) > 0 && announced == 0
	return out
}

// FillServing adds to an address where a Service serves that it is announced for. A
// node that is to have the pods of one Local Service must have those of all: sharing
// asks for the same selector.
func FillServing(out *elect.Address, s *Service, serving Serving) {
	for _, nodes := range serving {
		out.AnyServing = true
		if s.Local {
			out.ServingNodes = nodes.Serving.Union(out.ServingNodes)
			out.StayingNodes = nodes.Staying.Union(out.StayingNodes)
		}
	}
	out.NeedsLocal = out.NeedsLocal || s.Local
}

// Voter returns what the election must know of a node, as far as its Node object says
// it.
func Voter(n *corev1.Node) elect.Node {
	out := elect.Node{Name: n.Name, Labels: n.Labels, Excluded: kubeapi.NodeExcluded(n), Departing: kubeapi.NodeDeparting(n)}
	out.Cordoned = n.Spec.Unschedulable || out.Departing
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionTrue {
			out.NetworkUnavailable = true
		}
	}
	return out
}

// Report adds to n what its agent reports in its Agent object: what agents tell each
// other by gossip. The caller knows whether the agent is alive, and whether it is
// leaving. Why an interface is silent is its Obstacle.
func Report(n *elect.Node, s *v1alpha1.AgentStatus) {
	n.ProxyHealthy = s.KubeProxy == v1alpha1.KubeProxyHealthy || s.KubeProxy == v1alpha1.KubeProxyAbsent
	n.ProxyWasHealthy = s.KubeProxy == v1alpha1.KubeProxyUnhealthy
	n.Interfaces, n.Bare = map[lb.Family]sets.Set[string]{}, map[lb.Family]sets.Set[string]{}
	for _, f := range lb.Families {
		n.Interfaces[f], n.Bare[f] = sets.New[string](), sets.New[string]()
		for i := range s.Interfaces {
			carries, named := carriesOf(&s.Interfaces[i], f)
			if carries {
				n.Interfaces[f].Insert(s.Interfaces[i].Name)
			}
			if named {
				n.Bare[f].Insert(s.Interfaces[i].Name)
			}
		}
	}
}

// carriesOf says whether an interface can carry addresses of family f, and whether only
// if it is named. Earlier agents do not report that: it is then concluded from the
// addresses of the interface.
func carriesOf(l *v1alpha1.Interface, f lb.Family) (carries, named bool) {
	if len(l.Families) > 0 || l.Obstacle != "" || !l.Up {
		return slices.Contains(l.Families, f.String()), slices.Contains(l.NamedOnly, f.String())
	}
	has := slices.ContainsFunc(l.Addresses, func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && lb.FamilyOf(p.Addr()) == f
	})
	carries = has || f == lb.IPv4
	return carries, carries && !has
}
