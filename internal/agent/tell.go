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

// telling is that an address of a Service is announced here now, or no longer.
type telling struct {
	tenancy
	addr      netip.Addr
	announced bool
	places    []string
	from      string // the node that had it
	epoch     uint64
}

// tellRisen tells the Services of addr that this node has it now, which it got
// from last, or that it is on other interfaces.
func (a *agent) tellRisen(addr netip.Addr, last string, now time.Time) {
	h := a.held[addr]
	reason := a.announcedHere(addr, h)
	if last != "" && last != a.node {
		reason = lb.Moved.With(addr, last, a.node, a.whyFrom(last, addr))
		a.metrics.takeovers.Inc()
		if died, ok := a.diedAt(last); ok {
			a.metrics.takeoverTime.Observe(now.Sub(died).Seconds())
		}
	}
	told := h.tenants
	h.tenants = nil
	a.tellTenants(addr, h, reason, last)
	a.withdraw(addr, h, told)
}

func (a *agent) announcedHere(addr netip.Addr, h *holding) lb.Reason {
	return lb.Announced.With(addr, a.node, strings.Join(h.places, ", "))
}

// refreshTenants tells Services that have come to live on an address that is
// here, and notes those that have left it.
func (a *agent) refreshTenants(addr netip.Addr) {
	if h := a.held[addr]; h != nil && h.up {
		told := h.tenants
		a.tellTenants(addr, h, a.announcedHere(addr, h), "")
		a.withdraw(addr, h, told)
	}
}

// tellTenants tells the Services of addr that were not told yet. An agent that
// takes over from an earlier one on the node has no news for them, but logs what
// it announces.
func (a *agent) tellTenants(addr netip.Addr, h *holding, reason lb.Reason, last string) {
	off := offSubnet(addr, a.links)
	strays := off && !h.offSubnet
	var now, refused []tenancy
	for _, o := range a.directory.tenants(addr) {
		pool, _ := a.directory.pool(addr, o)
		t := tenancy{o.request.Service, o.request.UID, pool}
		tell := func(r lb.Reason) {
			if !h.inherited {
				a.reporter.event(o, pool.Dialect, r)
			}
		}
		if _, unshareable := a.directory.advertisements(addr, o); unshareable {
			refused = append(refused, t)
			if !t.among(h.refused) {
				tell(lb.NotAnnounced.With(addr, elect.Outcome{Why: elect.Unshareable}))
			}
			continue
		}
		now = append(now, t)
		news := !t.among(h.tenants)
		if news {
			a.tellings = append(a.tellings, telling{t, addr, true, h.places, last, h.epoch})
			a.metrics.classic.announces(t.service, a.node, addr, true)
			tell(reason)
		}
		if off && (news || strays) {
			tell(lb.OffSubnet.With(addr, a.node, strings.Join(h.places, ", ")))
		}
	}
	if !slices.Equal(now, h.tenants) {
		a.reportDirty, a.presenceDirty = true, true
	}
	h.tenants, h.refused, h.offSubnet, h.inherited = now, refused, off, false
}

// withdraw notes for which of the Services that were told addr is no longer
// announced.
func (a *agent) withdraw(addr netip.Addr, h *holding, told []tenancy) {
	for _, t := range told {
		if !t.among(h.tenants) {
			a.presenceDirty = true
			a.tellings = append(a.tellings, telling{t, addr, false, h.places, "", h.epoch})
			a.metrics.classic.announces(t.service, a.node, addr, false)
		}
	}
}

// logTellings logs a line for each Service with the addresses that are announced
// for it now, or no longer. The first three attributes are those, and in that
// order, that the logs of MetalLB's speakers are searched for.
func (a *agent) logTellings() {
	type line struct {
		telling
		ips []string
	}
	slices.SortStableFunc(a.tellings, func(x, y telling) int { return x.addr.Compare(y.addr) })
	var lines []*line
	at := map[string]*line{}
	for _, t := range a.tellings {
		key := fmt.Sprint(t.announced, t.service, t.pool, t.places, t.from)
		if at[key] == nil {
			at[key] = &line{telling: t}
			lines = append(lines, at[key])
		}
		at[key].ips = append(at[key].ips, t.addr.String())
	}
	for _, l := range lines {
		event, message := "serviceWithdrawn", "service withdrawn"
		if l.announced {
			event, message = "serviceAnnounced", "service announced"
		}
		args := []any{"event", event, "ips", l.ips, "protocol", layer2, "service", l.service.String(), "pool", l.pool.String(), "interfaces", l.places, "node", a.node}
		if l.announced {
			args = append(args, "from", l.from, "epoch", l.epoch)
		}
		a.log.Info(message, args...)
	}
	a.tellings = a.tellings[:0]
}

// tellNobody tells, once, that no node can announce addr, and why. Of all agents
// the first by name does so.
func (a *agent) tellNobody(addr netip.Addr, o elect.Outcome) {
	switch o.Why {
	case elect.Kept, elect.ByHash, elect.NoEndpoint:
		delete(a.nobody, addr)
		return
	case elect.NoNode, elect.NotAdvertised, elect.Unshareable:
	}
	if !a.speaks() {
		return
	}
	if why := o.String(); a.nobody[addr] != why {
		a.nobody[addr] = why
		a.log.Warn("no node can announce the address", "address", addr, "why", why)
		a.tell(addr, lb.NotAnnounced.With(addr, why))
	}
}

// speaks says whether this agent is the one of all that tells what every agent
// knows: the first by name.
func (a *agent) speaks() bool {
	return !slices.ContainsFunc(a.voters, func(n elect.Node) bool { return n.Alive && n.Name < a.node })
}

// whyFrom says why addr is no longer with last.
func (a *agent) whyFrom(last string, addr netip.Addr) string {
	candidate := a.directory.candidate(addr)
	for i := range a.voters {
		n := &a.voters[i]
		switch why := candidate.Obstacle(n); {
		case n.Name != last:
		case !n.Alive:
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

func (a *agent) tellConflict(addr netip.Addr, mac net.HardwareAddr, place string) {
	a.log.Warn("address is used by another host", "address", addr, "mac", mac.String(), "interface", place)
	a.tell(addr, lb.AddressConflict.With(addr, place, a.node, mac))
	a.reportDirty = true
}

// tell queues an event on each Service that lives on addr.
func (a *agent) tell(addr netip.Addr, reason lb.Reason) {
	for _, o := range a.directory.tenants(addr) {
		pool, _ := a.directory.pool(addr, o)
		a.reporter.event(o, pool.Dialect, reason)
	}
}

// diedAt is when a member was found dead.
func (a *agent) diedAt(node string) (time.Time, bool) {
	if a.group == nil {
		return time.Time{}, false
	}
	return a.group.Died(node)
}
