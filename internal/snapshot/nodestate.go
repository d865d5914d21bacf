package snapshot

import (
	"slices"
	"strings"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// NodeState says how a node and its agent stand.
type NodeState struct {
	Name string `json:"name"`
	// State of the agent: ready, leaving, lost, troubled or none.
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Cordoned nodes get no new address.
	Cordoned bool `json:"cordoned,omitempty"`
	// Announced is how many addresses the node announces. Listed is how many of them the
	// agent lists.
	Announced int `json:"announced"`
	Listed    int `json:"listed"`
	// Interfaces of the node that are down, or on which it cannot announce, and why.
	Interfaces []string `json:"interfaces,omitempty"`
}

// NodeStates says how all nodes stand that could have an agent, by name.
func (s *Snapshot) NodeStates() (out []NodeState) {
	if s.Survey == nil || !announcesAddresses(s.Config) {
		return nil
	}
	for i := range s.Nodes {
		out = append(out, s.nodeState(s.Nodes[i].Name, s.Nodes[i].Spec.Unschedulable))
	}
	if s.cannot("nodes") {
		for i := range s.Agents {
			out = append(out, s.nodeState(s.Agents[i].Name, false))
		}
	}
	slices.SortFunc(out, func(a, b NodeState) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (s *Snapshot) nodeState(name string, cordoned bool) NodeState {
	n := NodeState{Name: name, State: "none", Cordoned: cordoned}
	t, ready := s.agentOf(name)
	if !ready {
		n.Reason, n.Message = t.Reason, t.Message
	}
	a := s.Agent(name)
	if a == nil {
		return n
	}
	n.Announced, n.Listed = int(a.Status.Announced), len(a.Status.Addresses)
	_, lost := s.Survey.Lost[name]
	switch {
	case lost:
		n.State = "lost"
	case ready:
		n.State = "ready"
	case t.Reason == string(lb.AgentLeaving):
		n.State = "leaving"
	default:
		n.State = "troubled"
	}
	for _, i := range a.Status.Interfaces {
		if text := ifaceTrouble(i); text != "" {
			n.Interfaces = append(n.Interfaces, i.Name+": "+text)
		}
	}
	return n
}

// ifaceTrouble is why nothing is announced on an interface, or "".
func ifaceTrouble(i v1alpha1.Interface) string {
	switch {
	case i.Obstacle != "":
		return i.Obstacle
	case !i.Up:
		return "down"
	}
	return ""
}

// ServiceStates says how all Services of type LoadBalancer stand, by namespace and name.
func (s *Snapshot) ServiceStates() (out []ServiceState) {
	if s.Survey == nil {
		return nil
	}
	for i := range s.Survey.Services {
		out = append(out, s.stateOf(&s.Survey.Services[i]))
	}
	return out
}
