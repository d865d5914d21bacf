package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/config"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

// Health is what a command found: its exit code.
type Health int

// Exit codes.
const (
	Healthy Health = iota
	Problems
	Unknown
)

// Status is how everything is: the answer of "kubectl fairlead status".
type Status struct {
	// Time when the facts were read.
	Time metav1.Time `json:"time"`
	// Configuration says where the configuration was read.
	Configuration string `json:"configuration"`
	// Classes that are served, and by which backend.
	Classes    []ClassState    `json:"classes,omitempty"`
	Controller ControllerState `json:"controller"`
	Agents     AgentsState     `json:"agents"`
	Pools      []PoolState     `json:"pools,omitempty"`
	// Services counts Services of type LoadBalancer by their state.
	Services map[State]int `json:"services,omitempty"`
	// Backends have a section each.
	Backends []Section `json:"backends,omitempty"`
	// Problems, and what to do about each.
	Problems []Problem `json:"problems"`
	// Unknown is what could not be read.
	Unknown []string `json:"unknown,omitempty"`
}

// ClassState is one class that is served.
type ClassState struct {
	// Name is the spec.loadBalancerClass; empty means Services without one.
	Name    string `json:"name"`
	Backend string `json:"backend"`
}

// ControllerState is how the controllers are.
type ControllerState struct {
	Ready  int    `json:"ready"`
	Pods   int    `json:"pods"`
	Leader string `json:"leader,omitempty"`
	// Unknown is why it is not known.
	Unknown string `json:"unknown,omitempty"`
}

// AgentsState is how the agents are.
type AgentsState struct {
	// Used says whether agents announce addresses of any class.
	Used  bool `json:"used"`
	Ready int  `json:"ready"`
	Nodes int  `json:"nodes"`
	// Trouble are the nodes whose agent is not ready.
	Trouble []AgentTrouble `json:"trouble,omitempty"`
	Unknown string         `json:"unknown,omitempty"`
}

// AgentTrouble is one of them.
type AgentTrouble struct {
	Node    string `json:"node"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	// For is how long that has been so.
	For string `json:"for,omitempty"`
}

// Problem is something that is wrong, and the command to run next.
type Problem struct {
	About   string `json:"about"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	Next    string `json:"next,omitempty"`
}

// Section is what is known of one backend.
type Section struct {
	Backend string `json:"backend"`
	// Facts are lines such as "3 Services".
	Facts    []string  `json:"facts,omitempty"`
	Problems []Problem `json:"-"`
}

// section makes the part of the status that is about one backend.
type section func(s *Snapshot, b config.Backend, of []ServiceState) Section

// sections has those of backends that have more to tell than their Services. A backend
// adds a line here.
var sections = map[config.Backend]section{config.Announce: announceSection, config.OVN: ovnSection}

// Status returns how everything is.
func (s *Snapshot) Status() Status {
	out := Status{Time: metav1.NewTime(s.At), Configuration: s.Install.ConfigFrom, Unknown: s.Unknown, Services: map[State]int{}, Problems: []Problem{}}
	for _, c := range s.Config.Classes {
		out.Classes = append(out.Classes, ClassState{c.Name, string(c.Backend)})
	}
	out.Controller = s.controllers(&out)
	out.Agents = s.agents(&out)
	if s.Survey == nil {
		return out
	}
	out.Pools = s.pools()
	for _, p := range out.Pools {
		if !p.Ready && p.Reason != string(lb.PoolDisabled) {
			out.Problems = append(out.Problems, Problem{About: "pool " + p.Name, Reason: p.Reason, Message: p.Message, Next: "kubectl fairlead ip --pool " + p.Name})
		}
	}
	for _, w := range s.Survey.Warnings {
		out.Problems = append(out.Problems, Problem{About: strings.ToLower(w.About.Kind) + " " + w.About.Name, Reason: string(w.Reason.Code), Message: w.Reason.Text})
	}
	byBackend := map[config.Backend][]ServiceState{}
	for i := range s.Survey.Services {
		of := &s.Survey.Services[i]
		state := s.stateOf(of)
		out.Services[state.State]++
		if state.State == Waiting || state.State == Unreachable {
			out.Problems = append(out.Problems, Problem{About: "service " + state.Service, Reason: state.Reason, Message: state.Message, Next: "kubectl fairlead why " + state.Service})
		}
		if of.Class != nil {
			byBackend[of.Class.Backend] = append(byBackend[of.Class.Backend], state)
		}
	}
	for _, b := range s.Config.Backends() {
		make := cmpOr(sections[b], countServices)
		part := make(s, b, byBackend[b])
		out.Backends = append(out.Backends, part)
		out.Problems = append(out.Problems, part.Problems...)
	}
	return out
}

func cmpOr(first, second section) section {
	if first != nil {
		return first
	}
	return second
}

// countServices is the section of a backend that has nothing else to tell.
func countServices(_ *Snapshot, b config.Backend, of []ServiceState) Section {
	n := map[State]int{}
	for _, s := range of {
		n[s.State]++
	}
	return Section{Backend: string(b), Facts: []string{services(n)}}
}

// services counts Services in words.
func services(n map[State]int) string {
	var parts []string
	for _, state := range []State{OK, Waiting, Unreachable, NotServed, Unsure} {
		if n[state] > 0 || state == OK {
			parts = append(parts, fmt.Sprintf("%d %s", n[state], state))
		}
	}
	return strings.Join(parts, ", ")
}

// controllers says how the controllers are.
func (s *Snapshot) controllers(out *Status) (c ControllerState) {
	if s.cannot("pods") {
		c.Unknown = "cannot list pods"
		return c
	}
	for i := range s.Install.Controllers {
		if c.Pods++; podReady(&s.Install.Controllers[i]) {
			c.Ready++
		}
	}
	c.Leader, c.Unknown = s.Install.Leader, s.Install.LeaderUnknown
	switch {
	case c.Pods == 0:
		out.Problems = append(out.Problems, Problem{About: "controller", Message: "No pod of the controller exists: Fairlead is not installed, or its Deployment has no replicas.", Next: "kubectl get deployments,daemonsets -A -l " + labelName + "=" + labelFairlead})
	case c.Leader == "" && c.Unknown == "":
		p := &s.Install.Controllers[0]
		out.Problems = append(out.Problems, Problem{About: "controller", Message: "No controller leads: nothing is decided.", Next: fmt.Sprintf("kubectl logs -n %s %s", p.Namespace, p.Name)})
	case c.Ready < c.Pods:
		for i := range s.Install.Controllers {
			if p := &s.Install.Controllers[i]; !podReady(p) {
				out.Problems = append(out.Problems, Problem{About: "controller", Message: "Pod " + p.Name + " is not ready.", Next: fmt.Sprintf("kubectl describe pod -n %s %s", p.Namespace, p.Name)})
			}
		}
	}
	return c
}

// agents says how the agents are.
func (s *Snapshot) agents(out *Status) (a AgentsState) {
	a.Used = announcesAddresses(s.Config)
	switch {
	case s.Install.Assumed != "":
		a.Used, a.Unknown = true, s.Install.Assumed // a node without an agent may be as it should be
		return a
	case !a.Used:
		return a
	case s.cannot("agents"):
		a.Unknown = "cannot list agents"
		return a
	case s.cannot("nodes"):
		a.Unknown = "cannot list nodes"
		return a
	case s.Survey == nil:
		a.Unknown = "cannot list services"
		return a
	}
	a.Nodes = len(s.Nodes)
	for i := range s.Nodes {
		t, ready := s.agentOf(s.Nodes[i].Name)
		if ready {
			a.Ready++
			continue
		}
		a.Trouble = append(a.Trouble, t)
		if t.Reason != string(lb.AgentLeaving) {
			out.Problems = append(out.Problems, Problem{About: "agent " + t.Node, Reason: t.Reason, Message: t.Message, Next: s.lookAtAgent(t.Node)})
		}
	}
	slices.SortFunc(a.Trouble, func(x, y AgentTrouble) int { return cmp.Compare(x.Node, y.Node) })
	return a
}

// agentOf says how the agent of a node is.
func (s *Snapshot) agentOf(node string) (t AgentTrouble, ready bool) {
	t.Node = node
	a := s.Agent(node)
	if a == nil {
		t.Message = "The node has no agent."
		return t, false
	}
	c := meta.FindStatusCondition(a.Status.Conditions, "Ready")
	if why, lost := s.Survey.Lost[node]; lost {
		t.Reason, t.Message = string(why.Code), why.Text
		if c != nil && c.Status == metav1.ConditionUnknown {
			t.For = s.ago(c.LastTransitionTime.Time)
		}
		return t, false
	}
	if c == nil || c.Status != metav1.ConditionTrue {
		t.Message = "The agent has not reported yet."
		if c != nil {
			t.Reason, t.Message, t.For = c.Reason, c.Message, s.ago(c.LastTransitionTime.Time)
		}
		return t, false
	}
	return t, true
}

// lookAtAgent is the command that shows more about the agent of a node.
func (s *Snapshot) lookAtAgent(node string) string {
	for i := range s.Install.AgentPods {
		if p := &s.Install.AgentPods[i]; p.Spec.NodeName == node {
			if podReady(p) {
				return fmt.Sprintf("kubectl logs -n %s %s", p.Namespace, p.Name)
			}
			return fmt.Sprintf("kubectl describe pod -n %s %s", p.Namespace, p.Name)
		}
	}
	return "kubectl describe node " + node
}

// Health sums up.
func (s Status) Health() Health {
	switch {
	case len(s.Problems) > 0:
		return Problems
	case len(s.Unknown) > 0 || s.Controller.Unknown != "" || s.Agents.Unknown != "":
		return Unknown
	}
	return Healthy
}

// Summary is the pool in one line.
func (p PoolState) Summary() string {
	if text := p.fullness(); text != "" {
		return text
	}
	return "no addresses of its own"
}

// Text lists the nodes of agents in trouble.
func (a AgentsState) Text() string {
	var names []string
	for _, t := range a.Trouble {
		text := t.Node
		if t.Reason != "" {
			text += " " + t.Reason
		}
		if t.For != "" {
			text += " for " + t.For
		}
		names = append(names, text)
	}
	return prose.Few(names)
}
