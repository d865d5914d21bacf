package snapshot

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/controller"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/reasons"
)

// stepAnnounced says which node announces an address of the Service, or why none does.
func (s *Snapshot) stepAnnounced(of *controller.Surveyed, a netip.Addr) Step {
	step := Step{Name: "announced", Mark: Passed}
	if why := s.unread("agents", "nodes"); why != "" {
		return unclear(step.Name, why)
	}
	b := s.ballots()[a]
	if by := s.routesOf(a, b); len(by) > 0 && (b == nil || len(b.candidate.Advertisements) == 0 && !b.candidate.Unshareable) && len(s.claimed()[a]) == 0 {
		return s.stepRouted(of, a, b, by)
	}
	if silence, silent := of.Silences[a.String()]; silent {
		step.Mark, step.Reason, step.Fact = Failed, string(silence.Code), silence.Text
		s.explain(&step, b)
		if do := reasons.All[silence.Code].Do; do != "" && len(step.Fix) == 0 {
			step.Fix = append(step.Fix, do)
		}
		return step
	}
	if by, ok := s.announced()[a]; ok {
		step.Fact = fmt.Sprintf("%s by node %s on %s", a, by.Node, by.Interface)
		if since := s.ago(by.Since.Time); since != "" {
			step.Fact += ", for " + since
		}
		return step
	}
	if why := s.Unelected(); why != "" {
		return unclear(step.Name, why)
	}
	step.Mark, step.Reason = Failed, string(lb.NotAnnounced)
	switch {
	case b == nil:
		step.Fact = fmt.Sprintf("No agent announces %s.", a)
	case b.node != "":
		step.Reason, step.Fact = string(lb.AddressIsNode), fmt.Sprintf("%s is an address of node %s, so no agent announces it.", a, b.node)
	default:
		outcome := b.elect(s.voters(s.Nodes))
		step.Fact = fmt.Sprintf("%s: %s", a, outcome)
		switch {
		case outcome.Owner != "" && s.cut():
			step.Mark, step.Fact = Unclear, fmt.Sprintf("unknown: agents announce more addresses than they list, and %s is not listed", a)
		case outcome.Owner != "":
			step.Fact = fmt.Sprintf("No agent announces %s. Node %s should, and has not taken it yet.", a, outcome.Owner)
			step.Fix = append(step.Fix, s.lookAtAgent(outcome.Owner))
		case outcome.Why == elect.NoEndpoint:
			step.Reason = string(lb.NoServingEndpoint)
		}
		s.explain(&step, b)
	}
	return step
}

// cut says whether an agent announces more addresses than it lists.
func (s *Snapshot) cut() bool {
	for i := range s.Agents {
		if int(s.Agents[i].Status.Announced) > len(s.Agents[i].Status.Addresses) {
			return true
		}
	}
	return false
}

// explain adds to a step why each node cannot announce the address, and what would help.
func (s *Snapshot) explain(step *Step, b *ballot) {
	if b == nil || b.node != "" || s.Unelected() != "" {
		return
	}
	if len(b.candidate.Advertisements) == 0 && !b.candidate.Unshareable {
		step.Fix = append(step.Fix, "Advertise the pool: it has no advertisement for this Service.")
		return
	}
	voters, obstacles := s.voters(s.Nodes), map[string]bool{}
	for _, r := range b.obstacles(voters) {
		obstacles[r.Node] = true
		fact := NodeFact{Node: r.Node, Obstacle: r.Why.String()}
		switch r.Why {
		case elect.NotAlive:
			if t, ready := s.agentOf(r.Node); !ready {
				fact.Obstacle = t.Message
			}
		case elect.NoInterface, elect.Silenced:
			if text := s.interfacesOf(r.Node); text != "" {
				fact.Obstacle += " (" + text + ")"
			}
		default: // others say all
		}
		step.Nodes = append(step.Nodes, fact)
		if fix := s.fixFor(r, b); fix != "" {
			step.Fix = append(step.Fix, fix)
		}
	}
	for i := range voters { // that could, and whose agents are not as they should be
		if t, ready := s.agentOf(voters[i].Name); !ready && !obstacles[t.Node] {
			step.Nodes = append(step.Nodes, NodeFact{Node: t.Node, Obstacle: t.Message})
		}
	}
}

// interfacesOf lists the interfaces of a node with what is wrong with each.
func (s *Snapshot) interfacesOf(node string) string {
	a := s.Agent(node)
	if a == nil {
		return ""
	}
	var out []string
	for _, i := range a.Status.Interfaces {
		switch {
		case i.Obstacle != "":
			out = append(out, i.Name+": "+i.Obstacle)
		case len(i.NamedOnly) == len(i.Families):
			out = append(out, i.Name+": a pool has to name it")
		}
	}
	return strings.Join(out, "; ")
}

// fixFor is a command that lets the node announce the address, or "" if there is none
// that is right in every case.
func (s *Snapshot) fixFor(r elect.Refusal, b *ballot) string {
	switch r.Why {
	case elect.Excluded:
		return fmt.Sprintf("kubectl label node %s %s-", r.Node, corev1.LabelNodeExcludeBalancers)
	case elect.NotAlive, elect.ProxyUnhealthy:
		if s.Agent(r.Node) == nil {
			return fmt.Sprintf("kubectl get pods -A -o wide --field-selector spec.nodeName=%s", r.Node)
		}
		return s.lookAtAgent(r.Node)
	case elect.NetworkUnavailable:
		return "kubectl describe node " + r.Node
	case elect.NoLocalEndpoint:
		key := b.services[0].Request.Service
		return fmt.Sprintf(`kubectl patch service -n %s %s -p '{"spec":{"externalTrafficPolicy":"Cluster"}}'`, key.Namespace, key.Name)
	case elect.NotSelected, elect.NoInterface, elect.Silenced, elect.NotPlaced, elect.KernelRefuses, elect.None:
	}
	return ""
}
