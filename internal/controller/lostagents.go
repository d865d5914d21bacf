package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

// Types of conditions on Agents. The agent writes agentReady. The controller marks that
// as Unknown for an agent that is lost, and keeps what the agent said last as
// agentReported; the next write of the agent removes that.
const (
	agentReady    = "Ready"
	agentReported = "Reported"
)

// lostAgents are the agents that do not answer: the agent of another node says so, or
// the kubelet is no longer heard of, and the agent has not objected since. Of two that call each other lost, the one whose
// Node is Ready is believed. Agents of Nodes that are gone are lost as well.
func lostAgents(list []v1alpha1.Agent, nodes []corev1.Node) map[string]lb.Reason {
	status, since := map[string]corev1.ConditionStatus{}, map[string]time.Time{}
	for i := range nodes {
		status[nodes[i].Name] = "" // not reported yet
		for _, c := range nodes[i].Status.Conditions {
			if c.Type == corev1.NodeReady {
				status[nodes[i].Name], since[nodes[i].Name] = c.Status, c.LastTransitionTime.Time
			}
		}
	}
	calls := map[string][]string{}
	for i := range list {
		calls[list[i].Name] = list[i].Status.Lost
	}
	out := map[string]lb.Reason{}
	for i := range list {
		name := list[i].Name
		if is, there := status[name]; !there || is == corev1.ConditionUnknown && !objects(&list[i], since[name]) {
			out[name] = lb.AgentUnheard.With()
		}
	}
	for i := range list {
		by := list[i].Name
		if _, unheard := out[by]; unheard && out[by].Code == lb.AgentUnheard {
			continue
		}
		for _, name := range list[i].Status.Lost {
			mutual := slices.Contains(calls[name], by) && status[name] == corev1.ConditionTrue
			if _, has := calls[name]; !has || mutual || name == by || out[name].Code == lb.AgentLost {
				continue
			}
			out[name] = lb.AgentLost.With(by)
		}
	}
	return out
}

// objects says whether an agent has taken the mark off again that it got when its
// kubelet fell silent: only the kubelet is gone.
func objects(a *v1alpha1.Agent, silent time.Time) bool {
	c := meta.FindStatusCondition(a.Status.Conditions, agentReady)
	return c != nil && c.Status != metav1.ConditionUnknown && !silent.IsZero() && !c.LastTransitionTime.Time.Before(silent)
}

// marked returns the status that a should have, given why it is lost (nil if it is
// not), or nil if it has that. The list of addresses stays: agents that start read
// there who had what.
func marked(a *v1alpha1.Agent, why *lb.Reason, now time.Time) *v1alpha1.AgentStatus {
	ready := meta.FindStatusCondition(a.Status.Conditions, agentReady)
	said := meta.FindStatusCondition(a.Status.Conditions, agentReported)
	switch {
	case why == nil && said == nil, ready == nil:
		return nil
	case why != nil && said != nil && ready.Reason == string(why.Code):
		return nil // by whom it was missed first does not matter
	}
	before := *ready
	if said != nil {
		before = *said
	}
	out := &v1alpha1.AgentStatus{}
	if why == nil {
		before.Type, before.LastTransitionTime = agentReady, metav1.NewTime(now.Truncate(time.Second))
		out.Announced, out.Conditions = int32(len(a.Status.Addresses)), []metav1.Condition{before}
		return out
	}
	before.Type = agentReported
	lost := metav1.Condition{Type: agentReady, Status: metav1.ConditionUnknown, Reason: string(why.Code), Message: why.Text, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}
	if ready.Status == lost.Status {
		lost.LastTransitionTime = ready.LastTransitionTime
	}
	out.Conditions = []metav1.Condition{lost, before}
	return out
}

// markLost makes Agent objects say which agents are lost, and removes those of Nodes
// that are gone. An agent that writes at the same moment knows better. One that cannot be
// written keeps no other from it.
func (a *agents) markLost(ctx context.Context, list []v1alpha1.Agent, nodes []corev1.Node, lost map[string]lb.Reason) error {
	there := map[string]bool{}
	for i := range nodes {
		there[nodes[i].Name] = true
	}
	var wrong []error
	for i := range list {
		agent := &list[i]
		var why *lb.Reason
		if r, is := lost[agent.Name]; is {
			why = &r
		}
		var err error
		if !there[agent.Name] {
			err = a.removeAgent(ctx, agent)
		} else if s := marked(agent, why, time.Now()); s != nil {
			err = a.mark(ctx, agent, s)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			wrong = append(wrong, fmt.Errorf("agent %s: %w", agent.Name, err))
		}
	}
	return errors.Join(wrong...)
}

func (a *agents) mark(ctx context.Context, agent *v1alpha1.Agent, s *v1alpha1.AgentStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": agent.ResourceVersion},
		"status":   map[string]any{"announced": s.Announced, "conditions": s.Conditions},
	})
	if err != nil {
		return err
	}
	answer := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: agent.Name}} // agent is the cache's
	return a.client.Status().Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(component))
}

// removeAgent removes the object of a Node that is gone. The cache of Nodes may be
// behind that of Agents, so the API server is asked.
func (a *agents) removeAgent(ctx context.Context, agent *v1alpha1.Agent) error {
	if _, err := a.kube.CoreV1().Nodes().Get(ctx, agent.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return err
	}
	err := a.client.Delete(ctx, &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: agent.Name}},
		client.Preconditions{UID: &agent.UID, ResourceVersion: &agent.ResourceVersion})
	if err == nil {
		a.log.Info("agent removed: its Node is gone", "agent", agent.Name)
	}
	return err
}
