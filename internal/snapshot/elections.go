package snapshot

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// ballot is the election of one address: what agents know when they decide.
type ballot struct {
	addr      netip.Addr
	services  []*sources.Service
	pool      lb.PoolKey
	candidate elect.Address
	claims    []elect.Claim
	// routes are how it is announced by BGP, pools those that a node knows, and serving where a
	// Service serves.
	routes  []lb.Route
	pools   func(node string) *sources.Pools
	serving func(*sources.Service) sources.Serving
	// leased addresses are elected by the name of their lease, which only agents know.
	leased bool
	// node has the address as its own, so nobody announces it.
	node string
}

// ballotsOf makes a ballot for each address that Services publish, or would publish: in
// a survey of what would be, that is what was decided for them.
func (s *Snapshot) ballotsOf(all *objects, survey *controller.Survey, amend func([]lb.Pool) []lb.Pool) map[netip.Addr]*ballot {
	ctx := still
	reader, pools := s.poolsOf(all, "", amend)
	if pools == nil {
		return nil // never: it is in memory
	}
	poolsOn := func(string) *sources.Pools { return pools }
	if theirs := s.Install.KubeVIPBGP; theirs != nil && theirs.Annotations != "" {
		known := map[string]*sources.Pools{"": pools}
		poolsOn = func(node string) *sources.Pools {
			if known[node] == nil {
				_, known[node] = s.poolsOf(all, node, amend)
			}
			return known[node]
		}
	}
	var services corev1.ServiceList
	_ = all.List(ctx, &services)
	holders := lb.ByAge[netip.Addr, *tenant]{}
	for i := range services.Items {
		object := &services.Items[i]
		if survey != s.Survey && s.Survey != nil {
			object = decided(object, survey)
		}
		if of := reader.Service(object); of != nil {
			for _, a := range of.Published {
				holders.Add(a, &tenant{of})
			}
		}
	}
	serves, nodes, claims := servingOf(all), nodeAddresses(all.nodes()), s.claims()
	serving := func(of *sources.Service) sources.Serving { return serves[of.Request.Service] }
	out := map[netip.Addr]*ballot{}
	for a, holding := range holders {
		b := &ballot{addr: a, claims: claims[a], node: nodes[a], pools: poolsOn, serving: serving}
		for _, t := range sources.Tenants(holding, func(t *tenant) string { return t.Request.ShareKey }) {
			b.services = append(b.services, t.Service)
			b.leased = b.leased || t.Lease != nil && t.Lease.Families[lb.FamilyOf(a)]
		}
		first := b.services[0]
		b.pool, _ = pools.Of(a, first)
		b.candidate = pools.Candidate(a, b.services, first.Published[0].String(), serving)
		b.routes = pools.Routes(a, first)
		out[a] = b
	}
	return out
}

// poolsOf reads pools, routes and peers as the agent of a node does.
func (s *Snapshot) poolsOf(all *objects, node string, amend func([]lb.Pool) []lb.Pool) (*sources.Reader, *sources.Pools) {
	reader := sources.NewOf(sources.Options{
		Config: s.Config, MetalLBNamespace: s.Install.MetalLBNamespace,
		KubeVIP: types.NamespacedName(s.Install.KubeVIPMap), Interface: s.Install.KubeVIPInterface,
		KubeVIPBGP: s.Install.KubeVIPBGP, Node: node,
	}, all)
	pools, err := reader.Pools(still)
	if err != nil {
		return nil, nil // never: it is in memory
	}
	if amend != nil {
		pools.Amend(amend)
	}
	return reader, pools
}

// tenant is a Service that has an address.
type tenant struct{ *sources.Service }

// Older says which of two is older.
func (t *tenant) Older(o *tenant) bool { return t.Request.Older(&o.Request) }

// decided returns the Service with the addresses in its status that were decided.
func decided(object *corev1.Service, survey *controller.Survey) *corev1.Service {
	key := types.NamespacedName{Namespace: object.Namespace, Name: object.Name}
	for i := range survey.Services {
		if of := &survey.Services[i]; of.Key == key && of.Settled {
			object = object.DeepCopy()
			object.Status.LoadBalancer.Ingress = nil
			for _, a := range of.Verdict.Addresses {
				object.Status.LoadBalancer.Ingress = append(object.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a.String()})
			}
		}
	}
	return object
}

// servingOf has, by Service, where its endpoints serve.
func servingOf(all *objects) map[types.NamespacedName]sources.Serving {
	var list discoveryv1.EndpointSliceList
	_ = all.List(still, &list)
	out := map[types.NamespacedName]sources.Serving{}
	for i := range list.Items {
		slice := &list.Items[i]
		nodes := sources.ServingNodes(slice)
		if len(nodes.Serving) == 0 {
			continue
		}
		key := kubeapi.ServiceOf(slice)
		if out[key] == nil {
			out[key] = sources.Serving{}
		}
		out[key][slice.Name] = nodes
	}
	return out
}

// nodeAddresses has the node of each address of a node.
func nodeAddresses(nodes []corev1.Node) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for i := range nodes {
		for _, a := range kubeapi.Node(&nodes[i]).Addresses {
			out[a] = nodes[i].Name
		}
	}
	return out
}

// claims are what agents report that they announce on LANs. The one that took an address last
// has the higher epoch.
func (s *Snapshot) claims() map[netip.Addr][]elect.Claim {
	out := map[netip.Addr][]elect.Claim{}
	for i := range s.Agents {
		for _, a := range s.Agents[i].Status.Addresses {
			if addr, err := lb.ParseAddr(a.Address); err == nil && a.Protocol != protocolBGP {
				out[addr] = append(out[addr], elect.Claim{Node: s.Agents[i].Name, Epoch: uint64(max(0, a.Since.Unix())), Up: true})
			}
		}
	}
	return out
}

// voters are all nodes, as far as Nodes and Agents tell.
func (s *Snapshot) voters(nodes []corev1.Node) []elect.Node {
	var out []elect.Node
	for i := range nodes {
		v := sources.Voter(&nodes[i])
		v.Excluded = v.Excluded && !s.Install.IgnoreExcludeLabel
		if a := s.Agent(nodes[i].Name); a != nil {
			sources.Report(&v, &a.Status)
			_, lost := s.Survey.Lost[a.Name]
			reason := agentReason(a)
			v.Alive = !lost && reason != lb.AgentIsolated
			v.Leaving = reason == lb.AgentLeaving
		}
		out = append(out, v)
	}
	return out
}

// agentReason is what the agent says of itself.
func agentReason(a *v1alpha1.Agent) lb.Code {
	if c := meta.FindStatusCondition(a.Status.Conditions, "Ready"); c != nil {
		return lb.Code(c.Reason)
	}
	return ""
}

// elect returns which node should announce the address, among these.
func (b *ballot) elect(voters []elect.Node) elect.Outcome {
	return elect.Elect(b.candidate, voters, b.claims)
}

// announcement is what an agent reports of an address that it announces.
type announcement struct {
	Node string
	v1alpha1.Announcement
}

// announced returns who announces each address on LANs. Of several nodes it is the one that the
// controller believes.
func (s *Snapshot) announced() map[netip.Addr]announcement {
	out := map[netip.Addr]announcement{}
	by := controller.Announcer(s.Agents, s.Nodes)
	for i := range s.Agents {
		a := &s.Agents[i]
		if _, lost := s.Survey.Lost[a.Name]; lost {
			continue
		}
		for _, n := range a.Status.Addresses {
			if addr, err := lb.ParseAddr(n.Address); err == nil && n.Protocol != protocolBGP && by[n.Address] == a.Name {
				out[addr] = announcement{a.Name, n}
			}
		}
	}
	return out
}

// obstacles are why each node cannot announce the address; nodes that can are not
// among them.
func (b *ballot) obstacles(voters []elect.Node) (out []elect.Refusal) {
	for i := range voters {
		if why := b.candidate.Obstacle(&voters[i]); why != elect.None {
			out = append(out, elect.Refusal{Node: voters[i].Name, Why: why})
		}
	}
	slices.SortFunc(out, func(x, y elect.Refusal) int {
		if x.Node < y.Node {
			return -1
		}
		return 1
	})
	return out
}
