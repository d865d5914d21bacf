package controller

import (
	"cmp"
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// Routing is what agents report about routers.
type Routing struct {
	Known bool // Agents were read
	// Sessions by peer, then by node.
	Sessions []Session
	// Refused objects, by kind, name and node.
	Refused []RefusedObject
}

// Session is what one node has with one router.
type Session struct {
	Peer, Node  string
	Established bool
	// Trouble is what is wrong, in a sentence or a part of one; "" if nothing is. Reason is its
	// code, as the agent reports it.
	Trouble string
	Reason  lb.Code
}

// RefusedObject is an object that a node does not use, or not entirely.
type RefusedObject struct {
	Kind, Name, Node string
	Reason           lb.Reason
}

// sessionEstablished is the state of a session that is up, in Agent objects.
const sessionEstablished = "Established"

// routingOf reads Agent objects, of which some are known to be lost. Agents that leave do not
// count: their sessions end as they should. Reasons that are not known are not passed on.
func routingOf(list []v1alpha1.Agent, lost map[string]lb.Reason, known lb.Table) Routing {
	out := Routing{Known: true}
	for i := range list {
		a := &list[i]
		if leaving(a) {
			continue
		}
		why, isLost := lost[a.Name]
		for _, p := range a.Status.Peers {
			s := Session{Peer: p.Name, Node: a.Name, Established: p.State == sessionEstablished, Trouble: p.Message, Reason: lb.Code(p.Reason)}
			switch {
			case isLost && why.Code != lb.AgentUnheard: // that one may well live
				s.Established, s.Trouble, s.Reason = false, "its agent does not answer", why.Code
			case s.Trouble == "" && p.Reason != string(lb.PeerReady):
				s.Trouble = p.Reason
			case s.Trouble == "" && !s.Established:
				s.Trouble = p.State
			}
			out.Sessions = append(out.Sessions, s)
		}
		for _, r := range a.Status.Refused {
			if _, is := known[lb.Code(r.Reason)]; is && !isLost {
				out.Refused = append(out.Refused, RefusedObject{r.Kind, r.Name, a.Name, known.Rebuilt(lb.Code(r.Reason), r.Message)})
			}
		}
	}
	slices.SortFunc(out.Sessions, func(x, y Session) int {
		return cmp.Or(strings.Compare(x.Peer, y.Peer), strings.Compare(x.Node, y.Node))
	})
	slices.SortFunc(out.Refused, func(x, y RefusedObject) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Name, y.Name), strings.Compare(x.Node, y.Node))
	})
	return out
}

// protocolBGP is announcing to routers, in Agent objects.
const protocolBGP = "BGP"

// unheardRoutes counts the addresses that agents announce to routers, and on no LAN, while none
// of these agents has a session.
func unheardRoutes(list []v1alpha1.Agent, lost map[string]lb.Reason) (n int) {
	routed, reached := map[string]bool{}, map[string]bool{}
	for i := range list {
		a := &list[i]
		if _, is := lost[a.Name]; is {
			continue
		}
		up := slices.ContainsFunc(a.Status.Peers, func(p v1alpha1.Peer) bool { return p.State == sessionEstablished })
		for _, x := range a.Status.Addresses {
			byBGP := x.Protocol == protocolBGP
			routed[x.Address] = routed[x.Address] || byBGP
			reached[x.Address] = reached[x.Address] || up || !byBGP
		}
	}
	for address := range routed {
		if routed[address] && !reached[address] {
			n++
		}
	}
	return n
}

// countUnheard counts them now.
func (a *agents) countUnheard(ctx context.Context) int {
	list, nodes, err := a.list(ctx)
	if err != nil {
		return 0 // the cache is not filled yet
	}
	return unheardRoutes(list, lostAgents(list, nodes))
}

// leaving agents say themselves that they end.
func leaving(a *v1alpha1.Agent) bool {
	return slices.ContainsFunc(a.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == agentReady && c.Reason == string(lb.AgentLeaving)
	})
}

// reportedRouting is what agents reported last about routers; nothing if no class needs agents.
func (a *agents) reportedRouting() Routing {
	if a == nil {
		return Routing{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.routing
}
