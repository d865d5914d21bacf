package snapshot

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/controller"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
	"fairlead.io/internal/reasons"
)

// stepRouted says which nodes announce an address to which routers, or why none does.
func (s *Snapshot) stepRouted(of *controller.Surveyed, a netip.Addr, b *ballot, all routing) Step {
	step := Step{Name: "announced", Mark: Passed}
	if why := s.Unelected(); why != "" {
		return unclear(step.Name, why)
	}
	nodes, peers := all.heard()
	reason, silent := s.silenceOf(a, b, all)
	if told, is := of.Silences[a.String()]; is && !all.reported() {
		reason, silent = told, true
	}
	switch {
	case len(nodes) > 0:
		step.Fact = fmt.Sprintf("%s by BGP from %s to %s", a, prose.Few(nodes), prose.Few(peers))
		if since := s.ago(all.since()); since != "" {
			step.Fact += ", for " + since
		}
		if b != nil {
			if wrong := b.pools("").RouteRequest(b.services).Wrong; wrong != "" {
				step.Reason = string(lb.BGPAnnotationInvalid)
				step.Fact += ". " + lb.BGPAnnotationInvalid.With(a, wrong).Text
			}
		}
	case !silent && s.cut() && !all.reported():
		step.Mark, step.Fact = Unclear, fmt.Sprintf("unknown: agents announce more addresses than they list, and %s is not listed", a)
	case !silent:
		step.Mark, step.Reason = Failed, string(lb.NotAnnounced)
		step.Fact = fmt.Sprintf("No router hears of address %s yet. Nodes should announce it, and have not started: kube-proxy may lack rules for it, or sessions begin.", a)
	default:
		step.Mark, step.Reason, step.Fact = Failed, string(reason.Code), reason.Text
	}
	for i := range all {
		s.explainRoutes(&step, &all[i], b)
	}
	if do := reasons.All[lb.Code(step.Reason)].Do; step.Mark == Failed && do != "" && len(step.Fix) == 0 {
		step.Fix = append(step.Fix, do)
	}
	return step
}

// stepAlsoRouted says which nodes announce an address to routers that is announced on a LAN as
// well.
func (s *Snapshot) stepAlsoRouted(of *controller.Surveyed, a netip.Addr) (Step, bool) {
	if s.cannot("agents") || s.cannot("nodes") {
		return Step{}, false
	}
	b := s.ballots()[a]
	all := s.routesOf(a, b)
	onLAN := len(s.claimed()[a]) > 0 || b != nil && (len(b.candidate.Advertisements) > 0 || b.candidate.Unshareable)
	if len(all) == 0 || !onLAN || b != nil && b.node != "" {
		return Step{}, false
	}
	if _, silent := of.Silences[a.String()]; silent && !all.reported() {
		return Step{}, false // that is said already
	}
	return s.stepRouted(of, a, b, all), true
}

// since is when the first of the nodes began that are heard.
func (r routing) since() (out time.Time) {
	for i := range r {
		if r[i].announces() && (out.IsZero() || r[i].reports.Since.Time.Before(out)) {
			out = r[i].reports.Since.Time
		}
	}
	return out
}

// explainRoutes adds to a step why a node does not announce an address, or not to all of its
// peers, and what would help.
func (s *Snapshot) explainRoutes(step *Step, n *nodeRoutes, b *ballot) {
	say := func(obstacle string, fix ...string) {
		step.Nodes = append(step.Nodes, NodeFact{Node: n.node, Obstacle: obstacle})
		for _, f := range fix {
			if f != "" {
				step.Fix = append(step.Fix, f)
			}
		}
	}
	switch {
	case n.reports == nil && n.reach == elect.Unreached:
		obstacle := n.why.String()
		if t, ready := s.agentOf(n.node); n.why == elect.NotAlive && !ready {
			obstacle = t.Message
		}
		say(obstacle, s.fixFor(elect.Refusal{Node: n.node, Why: n.why}, b))
	case n.reports == nil && n.unpeered:
		say("has no peer that the address is announced to", "kubectl get bgppeers -n "+s.Install.MetalLBNamespace+" -o wide")
	case n.reports == nil:
		say("does not announce it yet", s.lookAtAgent(n.node))
	case n.reach == elect.Draining && len(n.up) > 0:
		say("asks routers to use other nodes (graceful shutdown)")
	}
	if n.reports == nil {
		return
	}
	for _, session := range n.down {
		say(fmt.Sprintf("has no session with %s: %s", session.Peer, strings.TrimSuffix(session.Trouble, ".")), s.lookAtPeer(session))
	}
	for _, session := range n.up {
		if session.Trouble != "" {
			say(fmt.Sprintf("has a session with %s: %s", session.Peer, strings.TrimSuffix(session.Trouble, ".")), s.lookAtPeer(session))
		}
	}
}

// lookAtPeer is the command that shows more about a session.
func (s *Snapshot) lookAtPeer(of controller.Session) string {
	if strings.HasPrefix(of.Peer, string(kubevip.Name)+"/") { // of an environment: there is no object
		return s.lookAtAgent(of.Node)
	}
	return fmt.Sprintf("kubectl describe bgppeer -n %s %s", s.Install.MetalLBNamespace, of.Peer)
}

// routedNodes are the nodes from which routers hear of an address.
func (s *Snapshot) routedNodes(a netip.Addr) (out []string) {
	for _, r := range s.routed()[a] {
		out = append(out, r.Node)
	}
	slices.Sort(out)
	return out
}
