package controller

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/lb"
)

// ConditionReady is the type of our condition on Services.
const ConditionReady = native.ConditionReady

// statusPatch returns the one strategic merge patch of s's status subresource
// that makes s say what v says, or nil if it does already. It carries the
// resourceVersion that the decision was made on, so that it fails rather than
// overwrites what somebody else has written since.
//
// host, if set, is the node that announces s, for those who look for it in the
// way of kube-vip.
func statusPatch(s *corev1.Service, v lb.Verdict, host string, now time.Time) []byte {
	metadata := map[string]any{}
	status := map[string]any{}
	if !publishes(s, v) {
		status["loadBalancer"] = map[string]any{"ingress": ingress(v)}
	}
	notes := map[string]any{}
	// What is out of pool goes on naming the pool that it is from: that says how it
	// is announced.
	if outOfPool := len(v.Addresses) > 0 && len(v.Pools) == 0; !outOfPool {
		maps.Copy(notes, annotations(s, v))
	}
	if host != "" && s.Annotations[kubevip.AnnotationHost] != host {
		notes[kubevip.AnnotationHost] = host
	}
	if _, has := s.Annotations[native.AnnotationReason]; has { // of the days when kube-vip announced it
		notes[native.AnnotationReason] = nil
	}
	if len(notes) > 0 {
		metadata["annotations"] = notes
	}
	if !saysReason(s, v.Reason) {
		status["conditions"] = []metav1.Condition{condition(s, v.Reason, now)}
	}
	return marshalPatch(s, metadata, status)
}

// releasePatch returns the patch that takes off everything of ours, or nil if
// there is nothing. The API server clears ingress addresses when the type changes;
// where it has not, those that we wrote are taken off.
func releasePatch(s *corev1.Service) []byte {
	metadata := map[string]any{}
	status := map[string]any{}
	if notes := annotations(s, lb.Verdict{}); len(notes) > 0 {
		metadata["annotations"] = notes
	}
	if len(s.Status.LoadBalancer.Ingress) > 0 && attested(s) {
		status["loadBalancer"] = map[string]any{"ingress": ingress(lb.Verdict{})}
	}
	if readyCondition(s) != nil {
		status["conditions"] = []any{map[string]any{"$patch": "delete", "type": ConditionReady}}
	}
	return marshalPatch(s, metadata, status)
}

func marshalPatch(s *corev1.Service, metadata, status map[string]any) []byte {
	if len(metadata) == 0 && len(status) == 0 {
		return nil
	}
	metadata["resourceVersion"] = s.ResourceVersion
	patch := map[string]any{"metadata": metadata}
	if len(status) > 0 {
		patch["status"] = status
	}
	data, err := json.Marshal(patch)
	if err != nil { // maps of strings, lists and API types always marshal
		panic(err)
	}
	return data
}

// ingress of v. ipMode is what the API server would fill in: without it, the
// object would differ from what we wrote, and be written again.
func ingress(v lb.Verdict) []corev1.LoadBalancerIngress {
	if len(v.Addresses) == 0 {
		return nil
	}
	vip := corev1.LoadBalancerIPModeVIP
	out := make([]corev1.LoadBalancerIngress, 0, len(v.Addresses))
	for _, a := range v.Addresses {
		out = append(out, corev1.LoadBalancerIngress{IP: a.String(), IPMode: &vip})
	}
	return out
}

// publishes says whether s's status has exactly the addresses of v, in order.
func publishes(s *corev1.Service, v lb.Verdict) bool {
	return slices.EqualFunc(s.Status.LoadBalancer.Ingress, ingress(v), func(a, b corev1.LoadBalancerIngress) bool {
		return a.IP == b.IP && a.Hostname == "" && len(a.Ports) == 0 && a.IPMode != nil && *a.IPMode == *b.IPMode
	})
}

// attested says whether the addresses in s's status were written by a Fairlead
// controller, this one or another: those are in the sentence of the condition,
// which is written together with them.
func attested(s *corev1.Service) bool {
	c := readyCondition(s)
	if c == nil {
		return false
	}
	words := strings.Fields(c.Message)
	for i := range words {
		words[i] = strings.TrimRight(words[i], ".,;")
	}
	return !slices.ContainsFunc(native.Published(s), func(a netip.Addr) bool { return !slices.Contains(words, a.String()) })
}

// annotations are the changes that make those of s name the pools of v, ours all
// of them, MetalLB's those of its kind, and the families of DHCP servers. A value of nil removes one.
func annotations(s *corev1.Service, v lb.Verdict) map[string]any {
	var all, classic, leased []string
	for _, f := range lb.Families {
		if v.DHCP[f] {
			leased = append(leased, f.String())
		}
	}
	for _, p := range v.Pools {
		all = append(all, p.String())
		if p.Dialect == lb.MetalLB {
			classic = append(classic, p.Name)
		}
	}
	var changes map[string]any
	for _, note := range [...]struct {
		key   string
		names []string
	}{{native.AnnotationAllocatedFrom, all}, {metallb.AnnotationAllocatedFrom, classic}, {native.AnnotationDHCP, leased}} {
		has, ok := s.Annotations[note.key]
		want := strings.Join(note.names, ",")
		if has == want && ok == (want != "") {
			continue
		}
		if changes == nil {
			changes = map[string]any{}
		}
		changes[note.key] = nil
		if want != "" {
			changes[note.key] = want
		}
	}
	return changes
}

func readyCondition(s *corev1.Service) *metav1.Condition {
	for i := range s.Status.Conditions {
		if s.Status.Conditions[i].Type == ConditionReady {
			return &s.Status.Conditions[i]
		}
	}
	return nil
}

// reasonOn returns the reason that is written on s: in its condition or, where the
// status is kube-vip's to write, in an annotation.
func reasonOn(s *corev1.Service) (r lb.Reason, known bool) {
	if c := readyCondition(s); c != nil {
		return lb.Rebuilt(lb.Code(c.Reason), c.Message, c.Status == metav1.ConditionTrue), true
	}
	code, text, known := strings.Cut(s.Annotations[native.AnnotationReason], ": ")
	if !known {
		return lb.Reason{}, false
	}
	return lb.Rebuilt(lb.Code(code), text, lb.Common[lb.Code(code)].Ready), true
}

func saysReason(s *corev1.Service, r lb.Reason) bool {
	c := readyCondition(s)
	return c != nil && c.Status == conditionStatus(r) && c.Reason == string(r.Code) && c.Message == r.Text
}

func condition(s *corev1.Service, r lb.Reason, now time.Time) metav1.Condition {
	c := metav1.Condition{
		Type:               ConditionReady,
		Status:             conditionStatus(r),
		Reason:             string(r.Code),
		Message:            r.Text,
		LastTransitionTime: metav1.NewTime(now),
	}
	if old := readyCondition(s); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	return c
}

func conditionStatus(r lb.Reason) metav1.ConditionStatus {
	if r.Ready() {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}
