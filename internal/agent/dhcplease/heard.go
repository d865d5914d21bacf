package dhcplease

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
)

// A DHCP server may assign any address, by mistake or in bad faith. One that is
// somebody else's would take a node off the network, or traffic from another
// Service, on all nodes as soon as it is published. It is given back at once, and
// the client asks for another.

// repeatAfter is how often the same event is written on a Service.
const repeatAfter = 10 * time.Minute

// Heard takes over what a DHCP client reports.
func (l *Leases) Heard(n News) {
	h := n.of
	if l.held[h.name] != h {
		return
	}
	had, trouble := h.lease, h.err
	h.lease, h.err = n.lease, n.err
	if l.check(h) {
		return
	}
	renewed := had != nil && h.lease != nil && had.Addr == h.lease.Addr && had.Server == h.lease.Server && trouble == nil && n.err == nil
	if !renewed || outdated(h.written, h.lease.Until, time.Now()) {
		l.note(h)
	}
	useless, unfit := errors.AsType[dhcp.Useless](n.err)
	switch {
	case had != nil && (h.lease == nil || h.lease.Addr != had.Addr):
		l.event(h, lb.LeaseLost.With(had.Addr, l.o.Node, lossOf(n.err)))
	case errors.Is(n.err, dhcp.ErrNoServer):
		l.event(h, lb.NoLeaseServer.With(h.family, h.iface, l.o.Node, l.namedBy(h)))
	case unfit:
		l.event(h, lb.LeaseUnusable.With(h.family, h.iface, l.o.Node, useless.Why))
	case n.err != nil:
		l.event(h, lb.LeaseRefused.With(h.family, h.iface, l.o.Node))
	case h.lease != nil && (had == nil || had.Server != h.lease.Server):
		l.log.Info("leased", "address", h.lease.Addr, "services", l.memberNames(h.name), "server", h.lease.Server, "until", h.lease.Until)
	}
}

// namedBy is that with which the holder's Services name the interface.
func (l *Leases) namedBy(h *holding) string {
	for _, c := range l.members[h.name] {
		return c.NamedBy
	}
	return ""
}

// lossOf says why there is no lease, as the end of a sentence.
func lossOf(err error) string {
	switch {
	case errors.Is(err, dhcp.ErrNoServer):
		return "no DHCP server has renewed it"
	case errors.Is(err, dhcp.ErrRefused):
		return "the DHCP server took it back"
	}
	return "the DHCP server gave another"
}

// outdated says whether the Agent object needs a new expiry time of a lease:
// what it says falls behind by a good part of the lease's time. Servers can have it
// renewed every second.
func outdated(written, until, now time.Time) bool {
	return written.IsZero() != until.IsZero() || !until.IsZero() && until.Sub(written) > until.Sub(now)/4
}

// check gives back what a server assigned if that cannot be used, and says whether
// it has.
func (l *Leases) check(h *holding) bool {
	if h.lease == nil {
		return false
	}
	why := l.unfit(h)
	if why == "" {
		h.checked = h.lease.Addr
		return false
	}
	l.decline(h, why)
	return true
}

// unfit says what uses the address of a lease already, or "".
func (l *Leases) unfit(h *holding) string {
	addr := h.lease.Addr
	if why := l.host.Unusable(addr, false); why != "" {
		return why
	}
	for _, r := range l.host.Using(addr) {
		if l.precedes(r, addr, h.name) {
			return fmt.Sprintf("%s is the address of Service %s", addr, r.Service)
		}
	}
	if h.checked != addr { // looks at all Services
		return l.host.Unusable(addr, true)
	}
	return ""
}

// InUse gives back the leases of an address that another host uses.
func (l *Leases) InUse(addr netip.Addr, mac net.HardwareAddr) {
	for name := range l.at[addr].Clone() {
		if h := l.held[name]; h != nil && h.lease != nil {
			l.decline(h, fmt.Sprintf("%s is used by the host with the hardware address %s", addr, mac))
		}
	}
}

// decline gives the address of a lease back, which somebody else has.
func (l *Leases) decline(h *holding, why string) {
	l.log.Warn("leased address is unusable; released it", "address", h.lease.Addr, "services", l.memberNames(h.name), "server", h.lease.Server, "why", why)
	h.client.Decline(h.lease.Addr, why)
	h.lease, h.checked = nil, netip.Addr{}
	l.note(h)
}

// event writes an event on the Services of a lease; the same again only after a
// while.
func (l *Leases) event(h *holding, reason lb.Reason) {
	now := time.Now()
	if h.event == reason && now.Sub(h.eventAt) < repeatAfter {
		return
	}
	h.event, h.eventAt = reason, now
	l.log.Warn("lease", "reason", string(reason.Code), "services", l.memberNames(h.name), "message", reason.Text)
	for _, c := range l.members[h.name] {
		l.host.Event(c.Request, c.Pool, reason)
	}
}

// reportRefused says, once, that no node can have a lease, and why.
func (l *Leases) reportRefused(name string, o elect.Outcome) {
	if o.Owner != "" {
		delete(l.refused, name)
		return
	}
	why := o.String()
	if l.refused[name] == why {
		return
	}
	l.refused[name] = why
	l.log.Warn("no node can request the lease", "services", l.memberNames(name), "why", why)
	if l.host.Speaks() {
		for _, c := range l.members[name] {
			l.host.Event(c.Request, c.Pool, lb.LeaseNotAsked.With(c.family(name), why, c.NamedBy))
		}
	}
}
