package agent

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

// tenancy is a Service whose address this node announces.
type tenancy struct {
	service types.NamespacedName
	uid     types.UID
	pool    lb.PoolKey
}

// among says whether the Service is one of all.
func (t tenancy) among(all []tenancy) bool {
	return slices.ContainsFunc(all, func(o tenancy) bool { return o.service == t.service && o.uid == t.uid })
}

// change is that an address of a Service is announced here now, or no longer.
type change struct {
	tenancy
	addr      netip.Addr
	announced bool
	ifaces    []string
	from      string // the node that had it
	epoch     uint64
}

// reportRaised reports to the Services of addr that this node has it now, which it
// got from last, or that it is on other interfaces.
func (a *agent) reportRaised(addr netip.Addr, last string, now time.Time) {
	h := a.held[addr]
	reason := a.announcedHere(addr, h)
	var waits *move
	if last != "" && last != a.node {
		m := move{addr: addr, epoch: h.epoch, last: last, why: a.whyFrom(last, addr), until: now.Add(keptPatience)}
		if reason = a.movedReason(&m); !a.keptKnown(&m) {
			reason, waits = lb.Reason{}, &m
		}
		a.metrics.takeovers.Inc()
		if died, ok := a.diedAt(last); ok {
			a.metrics.takeoverTime.Observe(now.Sub(died).Seconds())
		}
	}
	before := h.tenants
	h.tenants = nil
	a.reportTenants(addr, h, reason, last)
	if waits != nil {
		waits.tenants = slices.Clone(h.tenants)
		a.moves = append(a.moves, *waits)
	}
	a.withdraw(addr, h, before)
}

func (a *agent) announcedHere(addr netip.Addr, h *holding) lb.Reason {
	return lb.Announced.With(addr, a.node, strings.Join(h.ifaces, ", "))
}

// refreshTenants reports to Services that have come to live on an address that is
// here, and notes those that have left it.
func (a *agent) refreshTenants(addr netip.Addr) {
	if h := a.held[addr]; h != nil && h.up {
		before := h.tenants
		a.reportTenants(addr, h, a.announcedHere(addr, h), "")
		a.withdraw(addr, h, before)
	}
}

// reportTenants writes an event on the Services of addr that have none yet. An agent
// that takes over from an earlier one on the node has no news for them, but logs
// what it announces.
func (a *agent) reportTenants(addr netip.Addr, h *holding, reason lb.Reason, last string) {
	// A cloud leads an address that it has placed to the node, whatever its networks.
	off := offSubnet(addr, a.links) && !a.directory.placed(addr)
	strays := off && !h.offSubnet
	var now, refused []tenancy
	for _, o := range a.directory.tenants(addr) {
		pool, _ := a.directory.pool(addr, o)
		t := tenancy{o.Request.Service, o.Request.UID, pool}
		event := func(r lb.Reason) {
			if !h.inherited && r.Code != "" {
				a.reporter.event(&o.Request, pool, r)
			}
		}
		if _, unshareable := a.directory.advertisements(addr, o); unshareable {
			refused = append(refused, t)
			if !t.among(h.refused) {
				event(lb.NotAnnounced.With(addr, elect.Outcome{Why: elect.Unshareable}.Advice()))
			}
			continue
		}
		now = append(now, t)
		news := !t.among(h.tenants)
		if news {
			a.changes = append(a.changes, change{t, addr, true, h.ifaces, last, h.epoch})
			a.observer.Announced(t.service, addr, a.announcer.Protocol(), true)
			event(reason)
		}
		if off && (news || strays) {
			event(lb.OffSubnet.With(addr, a.node, strings.Join(h.ifaces, ", ")))
		}
	}
	if !slices.Equal(now, h.tenants) {
		a.reportDirty, a.presenceDirty = true, true
	}
	h.tenants, h.refused, h.offSubnet, h.inherited = now, refused, off, false
}

// withdraw notes for which of the Services before addr is no longer announced.
func (a *agent) withdraw(addr netip.Addr, h *holding, before []tenancy) {
	for _, t := range before {
		if !t.among(h.tenants) {
			a.presenceDirty = true
			a.changes = append(a.changes, change{t, addr, false, h.ifaces, "", h.epoch})
			a.observer.Announced(t.service, addr, a.announcer.Protocol(), false)
		}
	}
}

// logChanges logs a line for each Service with the addresses that are announced for
// it now, or no longer. The first three attributes, and their order, are those that
// scripts search the logs of other load balancers for.
func (a *agent) logChanges() {
	type line struct {
		change
		ips []string
	}
	slices.SortStableFunc(a.changes, func(x, y change) int { return x.addr.Compare(y.addr) })
	var lines []*line
	at := map[string]*line{}
	for _, t := range a.changes {
		key := fmt.Sprint(t.announced, t.service, t.pool, t.ifaces, t.from)
		if at[key] == nil {
			at[key] = &line{change: t}
			lines = append(lines, at[key])
		}
		at[key].ips = append(at[key].ips, t.addr.String())
	}
	for _, l := range lines {
		event, message := "serviceWithdrawn", "service withdrawn"
		if l.announced {
			event, message = "serviceAnnounced", "service announced"
		}
		args := []any{"event", event, "ips", l.ips, "protocol", a.announcer.Protocol(), "service", l.service.String(), "pool", l.pool.String(), "interfaces", l.ifaces, "node", a.node}
		if l.announced {
			args = append(args, "from", l.from, "epoch", l.epoch)
		}
		a.log.Info(message, args...)
	}
	a.changes = a.changes[:0]
}

// reportRefused reports, once, that no node can announce addr, and why. Of all agents
// the first by name does so. While an address moves that the controller places, no node
// can for a moment: that is reported if it lasts (reportUnannounced).
func (a *agent) reportRefused(addr netip.Addr, o elect.Outcome) {
	a.noteOutcome(addr, o)
	switch o.Why {
	case elect.Kept, elect.ByHash, elect.NoEndpoint:
		delete(a.refused, addr)
		return
	case elect.NoNode, elect.NotAdvertised, elect.Unshareable:
	}
	if a.speaks() && (o.Why != elect.NoNode || !a.directory.placed(addr)) {
		a.tellRefused(addr, lb.NotAnnounced.With(addr, o.Advice()))
	}
}

// tellRefused logs why no node can announce addr, and writes an event, once.
func (a *agent) tellRefused(addr netip.Addr, reason lb.Reason) {
	if a.refused[addr] != reason.Text {
		a.refused[addr] = reason.Text
		a.log.Warn("no node can announce the address", "address", addr, "why", reason.Text)
		a.event(addr, reason)
	}
}

// speaks says whether this agent is the one of all that reports what every agent
// knows: the first by name.
func (a *agent) speaks() bool {
	return !slices.ContainsFunc(a.voters, func(n elect.Node) bool { return n.Alive && n.Name < a.node })
}

// whyFrom says why addr is no longer with last.
func (a *agent) whyFrom(last string, addr netip.Addr) string {
	candidate := a.candidate(addr, time.Now())
	for i := range a.voters {
		n := &a.voters[i]
		switch why := candidate.Obstacle(n); {
		case n.Name != last:
		case !n.Alive, a.presumed[n.Name]:
			return "node " + last + " is unreachable"
		case n.Leaving:
			return "the agent of node " + last + " leaves"
		case n.Cordoned:
			return "node " + last + " is cordoned"
		case why != elect.None:
			return "node " + last + " " + why.String()
		default:
			return "node " + a.node + " is preferred"
		}
	}
	return "node " + last + " is gone"
}

func (a *agent) reportConflict(addr netip.Addr, mac net.HardwareAddr, iface string) {
	a.log.Warn("another host uses the address", "address", addr, "mac", mac.String(), "interface", iface)
	a.event(addr, lb.AddressConflict.With(addr, iface, a.node, mac))
	a.reportDirty = true
}

// event queues an event on each Service that lives on addr.
func (a *agent) event(addr netip.Addr, reason lb.Reason) {
	for _, o := range a.directory.tenants(addr) {
		pool, _ := a.directory.pool(addr, o)
		a.reporter.event(&o.Request, pool, reason)
	}
}

// diedAt is when a member was found dead.
func (a *agent) diedAt(node string) (time.Time, bool) {
	if a.group == nil {
		return time.Time{}, false
	}
	return a.group.Died(node)
}
