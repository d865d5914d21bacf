package snapshot

import (
	"slices"

	"fairlead.io/internal/elect"
)

// RouteChange is an address that other nodes would announce by BGP, or in another way.
type RouteChange struct {
	Address  string   `json:"address"`
	Services []string `json:"services"`
	// Before and After are the nodes that announce it.
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
	// Drained are those of After that would ask routers to use the others.
	Drained []string `json:"drained,omitempty"`
	// Cost to clients, in a sentence.
	Cost string `json:"cost"`
	// Reason why no node would announce it.
	Reason string `json:"reason,omitempty"`
}

// What changes of routes cost clients.
const (
	costWithdrawn = "no new connection fails; connections through nodes that routers no longer use may be reset"
	costMoreNodes = "no new connection fails; routers may spread connections anew"
	costLastNodes = "none: routers have no other node"
	costOnLAN     = "not reachable through routers; reachable on the LAN"
)

// routers are the nodes that announce the address by BGP, in order, and those of them that ask
// routers to use others.
func (b *ballot) routers(voters []elect.Node) (nodes, drained []string) {
	if len(b.routes) == 0 || b.node != "" {
		return nil, nil
	}
	for i := range voters {
		reach, _ := b.reach(&voters[i])
		if reach == elect.Unreached || len(b.peers(&voters[i])) == 0 {
			continue
		}
		nodes = append(nodes, voters[i].Name)
		if reach == elect.Draining || b.asksDrain() {
			drained = append(drained, voters[i].Name)
		}
	}
	slices.Sort(nodes)
	slices.Sort(drained)
	return nodes, drained
}

// asksDrain says whether the Services ask that routers use another way.
func (b *ballot) asksDrain() bool { return b.pools("").RouteRequest(b.services).Drain }

// compareRoutes says which other nodes would announce an address by BGP. onLAN says whether a
// node would announce it on a LAN.
func (s *Snapshot) compareRoutes(b *ballot, voters []elect.Node, onLAN bool) (RouteChange, bool) {
	out := RouteChange{Address: b.addr.String(), Before: s.routedNodes(b.addr)}
	var drained []string
	if now := s.ballots()[b.addr]; now != nil {
		_, drained = now.routers(s.voters(s.Nodes))
	}
	out.After, out.Drained = b.routers(voters)
	if slices.Equal(out.Before, out.After) && slices.Equal(drained, out.Drained) {
		return out, false
	}
	for _, of := range b.services {
		out.Services = append(out.Services, of.Request.Service.String())
	}
	left := func(node string) bool {
		return !slices.Contains(out.After, node) || slices.Contains(out.Drained, node) && !slices.Contains(drained, node)
	}
	switch {
	case len(out.After) == 0 && onLAN:
		out.Cost = costOnLAN
	case len(out.After) == 0:
		out.Cost = costSilence
		if len(b.routes) > 0 {
			out.Reason = b.routedOutcome(voters).String()
		}
	case len(out.Before) == 0:
		out.Cost = costStart
	case len(out.After) == len(out.Drained) && slices.Equal(out.Before, out.After):
		out.Cost = costLastNodes
	case slices.ContainsFunc(out.Before, left):
		out.Cost = costWithdrawn
	default:
		out.Cost = costMoreNodes
	}
	return out, true
}
