package snapshot

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/agent/sources"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

// protocolBGP is announcing to routers, in Agent objects.
const protocolBGP = "BGP"

// nodeRoutes is what one node has to do with an address that is announced by BGP.
type nodeRoutes struct {
	node string
	// reports is what its agent says that it announces; nil if it does not.
	reports *announcement
	// reach is how it should announce the address, and why it should not.
	reach elect.Reach
	why   elect.Obstacle
	// unpeered: it has no peer to announce the address to.
	unpeered bool
	// up and down are the sessions with the peers that it announces the address to.
	up, down []controller.Session
}

// announces says whether a router hears of the address from the node.
func (n *nodeRoutes) announces() bool { return n.reports != nil && len(n.up) > 0 }

// routing is an address that is announced by BGP, node by node.
type routing []nodeRoutes

// heard are the nodes from which routers hear of the address, and the peers that do.
func (r routing) heard() (nodes, peers []string) {
	for i := range r {
		if !r[i].announces() {
			continue
		}
		nodes = append(nodes, r[i].node)
		for _, session := range r[i].up {
			peers = append(peers, session.Peer)
		}
	}
	slices.Sort(peers)
	return nodes, slices.Compact(peers)
}

// down is a session that is missing, of a node that announces the address; nil if there is none.
func (r routing) down() *controller.Session {
	for i := range r {
		if r[i].reports != nil && len(r[i].down) > 0 {
			return &r[i].down[0]
		}
	}
	return nil
}

// reported says whether an agent announces the address to routers, whatever sessions it has.
func (r routing) reported() bool {
	return slices.ContainsFunc(r, func(n nodeRoutes) bool { return n.reports != nil })
}

// routesOf says how an address is announced by BGP; nil if it is not.
func (s *Snapshot) routesOf(a netip.Addr, b *ballot) (out routing) {
	reports := s.routed()[a]
	if len(reports) == 0 && (b == nil || len(b.routes) == 0) {
		return nil
	}
	voters := s.voters(s.Nodes)
	slices.SortFunc(voters, func(x, y elect.Node) int { return strings.Compare(x.Name, y.Name) })
	for i := range voters {
		v := &voters[i]
		n := nodeRoutes{node: v.Name, reach: elect.Reached}
		if j := slices.IndexFunc(reports, func(r announcement) bool { return r.Node == v.Name }); j >= 0 {
			n.reports = &reports[j]
		}
		var to []string // nil: all
		if b != nil && len(b.routes) > 0 {
			n.reach, n.why = b.reach(v)
			to = b.peers(v)
			n.unpeered = len(to) == 0
		}
		for _, session := range s.Survey.Routing.Sessions {
			switch {
			case session.Node != v.Name || b != nil && len(b.routes) > 0 && !slices.Contains(to, session.Peer):
			case session.Established:
				n.up = append(n.up, session)
			default:
				n.down = append(n.down, session)
			}
		}
		out = append(out, n)
	}
	return out
}

// reach says how a node announces the address to routers. Each of the Services that share it
// counts for itself.
func (b *ballot) reach(n *elect.Node) (best elect.Reach, why elect.Obstacle) {
	for _, of := range b.services {
		one := elect.Address{Addr: b.addr}
		sources.FillServing(&one, of, b.serving(of))
		one = one.ForRoutes(b.routesOn(n.Name))
		reach, obstacle := one.Announces(n)
		if !one.AnyServing {
			reach, obstacle = elect.Unreached, elect.NoLocalEndpoint
		}
		if reach > best {
			best, why = reach, elect.None
		} else if best == elect.Unreached && why == elect.None {
			why = obstacle
		}
	}
	return best, why
}

// peers are those to which a node announces the address, if it does.
func (b *ballot) peers(n *elect.Node) (out []string) {
	var services []labels.Set
	for _, of := range b.services {
		services = append(services, of.Request.Labels)
	}
	routes := b.routesOn(n.Name)
	paths, _ := lb.Paths(b.addr, services, n.Labels, routes, b.pools(n.Name).PeersOf(n.Labels, routes))
	for i := range paths {
		out = append(out, paths[i].Peer)
	}
	return slices.Compact(out)
}

// routesOn is how a node announces the address.
func (b *ballot) routesOn(node string) []lb.Route { return b.pools(node).Routes(b.addr, b.services[0]) }

// onlyRouted says that the address is announced to routers, and on no LAN.
func (b *ballot) onlyRouted() bool {
	return len(b.routes) > 0 && len(b.candidate.Advertisements) == 0 && !b.candidate.Unshareable
}

// routedOutcome says whether any node announces the address to routers.
func (b *ballot) routedOutcome(voters []elect.Node) elect.Outcome {
	all := elect.Address{Addr: b.addr}
	for _, of := range b.services {
		sources.FillServing(&all, of, b.serving(of))
	}
	return elect.Routed(all.ForRoutes(b.routes), voters)
}

// routedBy returns which agents say that they announce each address to routers, by node.
func (s *Snapshot) routedBy() map[netip.Addr][]announcement {
	out := map[netip.Addr][]announcement{}
	for i := range s.Agents {
		agent := &s.Agents[i]
		if _, lost := s.Survey.Lost[agent.Name]; lost {
			continue
		}
		for _, n := range agent.Status.Addresses {
			if a, err := lb.ParseAddr(n.Address); err == nil && n.Protocol == protocolBGP {
				out[a] = append(out[a], announcement{agent.Name, n})
			}
		}
	}
	for _, all := range out {
		slices.SortFunc(all, func(x, y announcement) int { return strings.Compare(x.Node, y.Node) })
	}
	return out
}

// unheard returns why no router hears of an address that is announced by BGP, and by nothing
// else; false if one does, or if the address is not announced by BGP.
func (s *Snapshot) unheard(a netip.Addr) (lb.Reason, bool) {
	if !s.Survey.AgentsKnown || len(s.claimed()[a]) > 0 || s.Unelected() != "" {
		return lb.Reason{}, false
	}
	var b *ballot
	missing := slices.ContainsFunc(s.Survey.Routing.Sessions, func(x controller.Session) bool { return !x.Established })
	switch reports := s.routed()[a]; {
	case len(reports) > 0 && !missing, len(reports) == 0 && s.cut():
		return lb.Reason{}, false
	default:
		b = s.ballots()[a]
	}
	if b != nil && !b.onlyRouted() && len(s.routed()[a]) == 0 {
		return lb.Reason{}, false // agents say what is wrong on LANs
	}
	all := s.routesOf(a, b)
	if nodes, _ := all.heard(); len(all) == 0 || len(nodes) > 0 {
		return lb.Reason{}, false
	}
	return s.silenceOf(a, b, all)
}

func (s *Snapshot) isUnheard(a netip.Addr) bool {
	_, unheard := s.unheard(a)
	return unheard
}

// silenceOf is why no router hears of an address, of which is known that none does; false if a
// node will announce it in a moment.
func (s *Snapshot) silenceOf(a netip.Addr, b *ballot, all routing) (lb.Reason, bool) {
	session := all.down()
	switch {
	case session != nil:
		text := "No router hears of address " + a.String() + ": no node that announces it has a session. " + session.Node + " with " + session.Peer + ": " + strings.TrimSuffix(session.Trouble, ".") + "."
		return lb.Rebuilt(session.Reason, text, false), true
	case all.reported(), b == nil: // its session is not reported yet
		return lb.Reason{}, false
	}
	switch outcome := b.routedOutcome(s.voters(s.Nodes)); {
	case !s.knowsEndpoints(): // agents report what comes of them
	case outcome.Why == elect.NoEndpoint:
		return lb.NoServingEndpoint.With(a), true
	case outcome.Owner == "":
		return lb.NotAnnounced.With(a, outcome.Advice()), true
	}
	for i := range all {
		if (all[i].reach != elect.Unreached || !s.knowsEndpoints()) && !all[i].unpeered {
			return lb.Reason{}, false
		}
	}
	return lb.NotAnnounced.With(a, "The pool is advertised by BGP, and no node that could announce it has a peer. Create a BGPPeer, or change its nodeSelectors or the peers of the advertisement."), true
}
