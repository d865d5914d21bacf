package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
)

const (
	// maxAddresses keeps the object below the API server's limit of 1.5 MiB.
	maxAddresses = 500
	// maxServices is how many Services of one address the object may have.
	maxServices = 64
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
		if h.rival != nil && !h.lost {
			conflicts = append(conflicts, fmt.Sprintf("%s (%s)", addr, h.rival))
		}
		if !h.up {
			continue
		}
		s.Announced++
		if len(s.Addresses) == maxAddresses {
			continue
		}
		n := v1alpha1.Announcement{Address: addr.String(), Interface: strings.Join(h.ifaces, ","), Protocol: "ARP", Since: metav1.NewTime(h.since.Truncate(time.Second)), Services: []string{}}
		if lb.FamilyOf(addr) == lb.IPv6 {
			n.Protocol = "NDP"
		}
		names := a.directory.names(addr)
		for _, service := range names[:min(len(names), maxServices)] {
			n.Services = append(n.Services, service.String())
		}
		s.Addresses = append(s.Addresses, n)
	}
	s.Leases = a.leases.Report()
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

// farewellTime is how long an agent that ends tries to say so.
const farewellTime = 3 * time.Second

// farewell says, as the last thing, that this node announces nothing any more,
// and removes what would go on saying so.
func (a *agent) farewell() {
	ctx, cancel := context.WithTimeout(a.background, farewellTime)
	defer cancel()
	a.reportDirty = true
	a.report(time.Now())
	if err := errors.Join(a.reporter.write(ctx), a.observer.Finish(ctx)); err != nil {
		a.log.Warn("could not report that this node stopped announcing", "error", err)
	}
}
