package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

const (
	// maxAddresses keeps the object below the API server's limit of 1.5 MiB.
	maxAddresses = 500
	// maxServices is how many Services of one address the object may have.
	maxServices = 64
)

// reported is what the Agent object says besides what the node announces.
type reported struct {
	// lookAgain is when there may be more to report although nothing has changed.
	lookAgain time.Time
	// reportRest is until when nothing is reported, and reportTimer ends then.
	reportRest  time.Time
	reportTimer *time.Timer

	proxyState            proxyState
	gateways, nameServers []netip.Addr
	// servers are the name servers outside of the cluster.
	servers []string

	interfaces []v1alpha1.Interface
	// own are the addresses of the node, ofServices those of them that a Service
	// publishes.
	own, ofServices                 sets.Set[netip.Addr]
	interfacesDirty, publishedDirty bool

	roster    []string // agents that are alive and stay, in order
	lostNodes sets.Set[string]
	// lostReported are those of them that this agent reported last.
	lostReported []string

	silent map[netip.Addr]silence
	// speaking says which of them this agent reports, of those that all know.
	speaking map[netip.Addr]bool
	// nodeAddrs are the addresses of all nodes.
	nodeAddrs map[netip.Addr]string
	// silentBefore and unannouncedBefore are what an earlier agent on this node said.
	silentBefore      map[netip.Addr]time.Time
	unannouncedBefore []v1alpha1.Unannounced
}

// lookAround takes over what is not told by anybody: the state of kube-proxy, routers,
// name servers.
func (a *agent) lookAround(now time.Time) {
	if a.interfacesDirty {
		a.interfacesDirty, a.reportDirty = false, true
		a.readInterfaces()
	}
	gateways, servers := a.around.now()
	if proxy := a.proxy.state(); proxy != a.proxyState || !slices.Equal(gateways, a.gateways) || !slices.Equal(servers, a.nameServers) {
		a.proxyState, a.gateways, a.nameServers, a.reportDirty = proxy, gateways, servers, true
		a.servers = nil
		for _, addr := range servers {
			if len(a.servers) < maxNameServers && a.insideCluster(addr) == "" {
				a.servers = append(a.servers, addr.String())
			}
		}
	}
	a.reporter.repair(now)
	if !a.lookAgain.IsZero() && !now.Before(a.lookAgain) {
		a.reportDirty = true
	}
}

const (
	// reportShare of the loop's time goes into reports at most: one is about all addresses,
	// and while thousands of them change, each turn of the loop is about a few.
	reportShare = 10
	// maxReportRest is how late a report can be.
	maxReportRest = 500 * time.Millisecond
)

// reportInTurn reports what has changed, unless it is too early after the last time: then
// a later turn of the loop does.
func (a *agent) reportInTurn(now time.Time) {
	if rest := a.reportRest.Sub(now); rest > 0 {
		a.reportTimer.Reset(rest)
		return
	}
	began := time.Now()
	a.report(now)
	if a.synced {
		a.reportPresence()
	}
	took := time.Since(began)
	a.reportRest = began.Add(took + min((reportShare-1)*took, maxReportRest))
}

// report hands what this node does to the reporter, if it changed.
func (a *agent) report(now time.Time) {
	a.lookAround(now)
	if !a.reportDirty {
		return
	}
	a.reportDirty = false
	s := v1alpha1.AgentStatus{Version: a.version, KubeProxy: string(a.proxyState), Interfaces: a.interfaces, Gateways: prose.Texts(a.gateways), NameServers: a.servers, Lost: a.reportLost()}
	s.Unannounced, a.lookAgain = a.reportUnannounced(now)
	var conflicts []string
	for _, addr := range a.inOrder() {
		if a.routed[addr] != nil {
			if s.Announced++; len(s.Addresses) < maxAddresses {
				s.Addresses = append(s.Addresses, a.reportRouted(addr))
			}
		}
		h := a.held[addr]
		if h == nil {
			continue
		}
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
	s.Leases, s.Peers, s.Refused = a.leases.Report(), a.reportPeers(), a.reportUnused()
	s.Carried = a.carriedTold
	reason := lb.AgentReady.With()
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
