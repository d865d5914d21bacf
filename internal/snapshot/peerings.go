package snapshot

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/lb"
)

// Peering is a router, and the nodes that are to have a session with it.
type Peering struct {
	Peer  lb.Peer
	Nodes []string
}

// Peerings are what agents would know if each node ran one: the peers of all formats that can be
// used, by name.
func (s *Snapshot) Peerings() (out []Peering) {
	_, pools := s.poolsOf(s.objects, "", nil)
	theirs := s.Install.KubeVIPBGP
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if theirs != nil && theirs.Annotations != "" { // each node has peers of its own
			_, pools = s.poolsOf(s.objects, n.Name, nil)
		}
		if pools == nil {
			continue // never: it is in memory
		}
		for j := range pools.Peers {
			peer := &pools.Peers[j]
			if !peer.On(labels.Set(n.Labels)) {
				continue
			}
			k := slices.IndexFunc(out, func(p Peering) bool { return p.Peer.Name == peer.Name })
			if k < 0 {
				k = len(out)
				out = append(out, Peering{Peer: *peer})
			}
			out[k].Nodes = append(out[k].Nodes, n.Name)
		}
	}
	for i := range out {
		slices.Sort(out[i].Nodes)
	}
	slices.SortFunc(out, func(a, b Peering) int { return strings.Compare(a.Peer.Name, b.Peer.Name) })
	return out
}

// RouteProblems are the objects about BGP that are not used, or not entirely, whatever agents
// report about them.
func (s *Snapshot) RouteProblems() []Problem {
	return slices.DeleteFunc(s.objectProblems(), func(p Problem) bool { return p.Reason == string(metallb.PeerUnused) })
}

// SessionEstablished says whether a node reports a session with a peer that is up. If not, it says
// what the agent says about it.
func (s *Snapshot) SessionEstablished(peer, node string) (bool, string) {
	for _, session := range s.Survey.Routing.Sessions {
		if session.Peer == peer && session.Node == node {
			return session.Established, session.Trouble
		}
	}
	if s.Agent(node) == nil {
		return false, "no agent reports from this node"
	}
	return false, "the agent does not report this peer"
}

// MissingRoutes are the addresses that some nodes are to announce by BGP and do not, with these
// nodes.
func (s *Snapshot) MissingRoutes() map[string][]string {
	out := map[string][]string{}
	ballots, voters := s.ballots(), s.voters(s.Nodes)
	for _, a := range sortedAddrs(ballots) {
		nodes, _ := ballots[a].routers(voters)
		announce := s.routedNodes(a)
		if missing := slices.DeleteFunc(nodes, func(n string) bool { return slices.Contains(announce, n) }); len(missing) > 0 {
			out[a.String()] = missing
		}
	}
	return out
}
