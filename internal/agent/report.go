package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

const (
	// reportPause is the least time between two writes of the Agent object.
	reportPause = time.Second
	// reportMost keeps the object below the API server's limit of 1.5 MiB.
	reportMost = 500
	// reportServices is how many Services of one address the object may have.
	reportServices = 64
	// eventsKept bounds what waits while the API server is away.
	eventsKept = 1000
)

// report hands what this node does to the reporter, if it changed.
func (a *agent) report(now time.Time) {
	if !a.reportDirty {
		return
	}
	a.reportDirty = false
	var s v1alpha1.AgentStatus
	var conflicts []string
	for _, addr := range slices.SortedFunc(maps.Keys(a.held), netip.Addr.Compare) {
		h := a.held[addr]
		if h.rival != nil {
			conflicts = append(conflicts, fmt.Sprintf("%s (%s)", addr, h.rival))
		}
		if !h.up {
			continue
		}
		s.Announced++
		if len(s.Addresses) == reportMost {
			continue
		}
		n := v1alpha1.Announcement{Address: addr.String(), Interface: strings.Join(h.places, ","), Protocol: "ARP", Since: metav1.NewTime(h.since.Truncate(time.Second)), Services: []string{}}
		if lb.FamilyOf(addr) == lb.IPv6 {
			n.Protocol = "NDP"
		}
		names := a.directory.names(addr)
		for _, service := range names[:min(len(names), reportServices)] {
			n.Services = append(n.Services, service.String())
		}
		s.Addresses = append(s.Addresses, n)
	}
	reason := lb.AgentReady.With(plural(a.others, "other agent"))
	switch {
	case !a.leaving.IsZero():
		reason = lb.AgentLeaving.With()
	case a.isolated:
		reason = lb.AgentIsolated.With()
	case len(conflicts) > 0:
		reason = lb.AgentConflict.With(strings.Join(conflicts, ", "))
	}
	a.metrics.announced.Set(float64(s.Announced))
	status := metav1.ConditionFalse
	if reason.Ready() {
		status = metav1.ConditionTrue
	}
	s.Conditions = []metav1.Condition{{Type: "Ready", Status: status, Reason: string(reason.Code), Message: reason.Text, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second))}}
	a.reporter.set(s)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// tellRisen logs and tells that this node has addr now, which it got from last.
func (a *agent) tellRisen(addr netip.Addr, last string, now time.Time) {
	h := a.held[addr]
	reason := lb.Announced.With(addr, a.node, strings.Join(h.places, ", "))
	if last != "" && last != a.node {
		reason = lb.Moved.With(addr, last, a.node, a.whyFrom(last, addr))
		a.metrics.takeovers.Inc()
		if died, ok := a.diedAt(last); ok {
			a.metrics.takeoverTime.Observe(now.Sub(died).Seconds())
		}
	}
	a.log.Info("address announced", "address", addr, "interfaces", h.places, "from", last, "epoch", h.epoch)
	a.tell(addr, reason)
}

// tellNobody tells, once, that no node can announce addr, and why. Of all agents
// the first by name does so.
func (a *agent) tellNobody(addr netip.Addr, o elect.Outcome) {
	if o.Why != elect.NoNode {
		delete(a.nobody, addr)
		return
	}
	for _, n := range a.voters {
		if n.Alive && n.Name < a.node {
			return
		}
	}
	if why := o.String(); a.nobody[addr] != why {
		a.nobody[addr] = why
		a.log.Warn("no node can announce the address", "address", addr, "why", why)
		a.tell(addr, lb.NotAnnounced.With(addr, why))
	}
}

// whyFrom says why addr is no longer with last.
func (a *agent) whyFrom(last string, addr netip.Addr) string {
	for _, n := range a.voters {
		switch {
		case n.Name != last:
		case !n.Alive:
			return "node " + last + " is unreachable"
		case n.Leaving:
			return "the agent of node " + last + " leaves"
		case n.Cordoned:
			return "node " + last + " is cordoned"
		case !n.ProxyHealthy:
			return "kube-proxy of node " + last + " is not healthy"
		case n.Interfaces[lb.FamilyOf(addr)].Len() == 0:
			return "node " + last + " has no interface for it"
		default:
			return "node " + a.node + " is preferred"
		}
	}
	return "node " + last + " is gone"
}

func (a *agent) tellConflict(addr netip.Addr, mac net.HardwareAddr, place string) {
	a.log.Warn("address is used by another host", "address", addr, "mac", mac.String(), "interface", place)
	a.tell(addr, lb.AddressConflict.With(addr, place, a.node, mac))
	a.reportDirty = true
}

// tell queues an event on each Service that lives on addr.
func (a *agent) tell(addr netip.Addr, reason lb.Reason) {
	for _, o := range a.directory.tenants(addr) {
		a.reporter.event(o.request.Service, o.request.UID, reason)
	}
}

// diedAt is when a member was found dead.
func (a *agent) diedAt(node string) (time.Time, bool) {
	if a.group == nil {
		return time.Time{}, false
	}
	return a.group.Died(node)
}

// reporter writes the Agent object and events, in its own time.
type reporter struct {
	node   string
	uid    types.UID // of the Node
	kube   kubernetes.Interface
	client client.Client
	log    *slog.Logger

	mu      sync.Mutex
	status  *v1alpha1.AgentStatus
	events  []*corev1.Event
	arrived chan struct{}
}

func (r *reporter) set(s v1alpha1.AgentStatus) {
	r.mu.Lock()
	r.status = &s
	r.mu.Unlock()
	r.wake()
}

func (r *reporter) event(service types.NamespacedName, uid types.UID, reason lb.Reason) {
	now := time.Now()
	kind := corev1.EventTypeNormal
	if reason.Warning() {
		kind = corev1.EventTypeWarning
	}
	e := &corev1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: service.Namespace, Name: fmt.Sprintf("%s.%x", service.Name, now.UnixNano())},
		InvolvedObject:      corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: service.Namespace, Name: service.Name, UID: uid},
		Reason:              string(reason.Code),
		Message:             reason.Text,
		Type:                kind,
		Source:              corev1.EventSource{Component: "fairlead-agent", Host: r.node},
		ReportingController: "fairlead-agent",
		ReportingInstance:   r.node,
		FirstTimestamp:      metav1.NewTime(now),
		LastTimestamp:       metav1.NewTime(now),
		Count:               1,
	}
	r.mu.Lock()
	r.keep(append(r.events, e))
	r.mu.Unlock()
	r.wake()
}

// keep has events wait, of too many the latest.
func (r *reporter) keep(events []*corev1.Event) {
	r.events = events[max(0, len(events)-eventsKept):]
}

func (r *reporter) wake() {
	select {
	case r.arrived <- struct{}{}:
	default:
	}
}

// run writes until ctx ends.
func (r *reporter) run(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-r.arrived:
		}
		if err := r.write(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("report not written; trying again", "error", err)
			r.wake()
		}
		pause.Reset(reportPause)
	}
}

func (r *reporter) write(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.mu.Lock()
	status, events := r.status, r.events
	r.status, r.events = nil, nil
	r.mu.Unlock()
	if status != nil {
		if err := r.writeStatus(ctx, *status); err != nil {
			r.mu.Lock()
			if r.status == nil {
				r.status = status
			}
			r.keep(append(events, r.events...))
			r.mu.Unlock()
			return err
		}
	}
	for i, e := range events {
		if _, err := r.kube.CoreV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil && !refused(err) {
			r.mu.Lock()
			r.keep(append(events[i:], r.events...))
			r.mu.Unlock()
			return err
		}
	}
	return nil
}

// refused says whether an event will not be written, however often it is tried.
func refused(err error) bool {
	for _, is := range []func(error) bool{apierrors.IsNotFound, apierrors.IsForbidden, apierrors.IsAlreadyExists, apierrors.IsInvalid, apierrors.IsBadRequest, apierrors.IsRequestEntityTooLargeError} {
		if is(err) {
			return true
		}
	}
	return false
}

// writeStatus writes the Agent object's status, and makes the object if it is
// not there.
func (r *reporter) writeStatus(ctx context.Context, s v1alpha1.AgentStatus) error {
	var have v1alpha1.Agent
	err := r.client.Get(ctx, types.NamespacedName{Name: r.node}, &have)
	if apierrors.IsNotFound(err) {
		// It goes with its Node.
		have = v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Name: r.node, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: r.node, UID: r.uid}}}}
		err = r.client.Create(ctx, &have)
	}
	if err != nil {
		return err
	}
	if old := meta.FindStatusCondition(have.Status.Conditions, "Ready"); old != nil && old.Status == s.Conditions[0].Status {
		s.Conditions[0].LastTransitionTime = old.LastTransitionTime
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"announced": s.Announced, "addresses": s.Addresses, "conditions": s.Conditions}})
	if err != nil {
		return err
	}
	return r.client.Status().Patch(ctx, &have, client.RawPatch(types.MergePatchType, patch))
}
