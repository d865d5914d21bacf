package dhcplease

import (
	"context"
	"net/netip"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/member"
)

// decide does what is to be done about one lease.
func (l *Leases) decide(name string, now time.Time) {
	h := l.held[name]
	if h != nil {
		l.check(h)
	}
	if len(l.members[name]) == 0 || l.host.Isolated() {
		delete(l.waiting, name)
		if h != nil {
			l.finish(h, !l.host.Isolated())
			if !l.host.Isolated() {
				l.tombstones[name] = tombstone{h.epoch, now.Add(tombstoneTime)}
			}
		}
		if len(l.members[name]) == 0 {
			delete(l.refused, name)
		}
		return
	}
	delete(l.tombstones, name)
	candidate := l.candidate(name)
	iface, index := l.host.Interface(*candidate.Family, l.lastAddr(name), &candidate)
	if h != nil && (iface != h.iface || index != h.index || !reflect.DeepEqual(h.identity, l.identity(name))) {
		l.finish(h, false)
		if iface != "" {
			l.begin(name, iface, index, h.epoch, now)
		}
		h = l.held[name]
	}
	var mine *elect.Claim
	if h != nil {
		mine = &elect.Claim{Node: l.o.Node, Epoch: h.epoch, Up: true}
	}
	outcome, task := l.host.Elect(member.Lease(name), candidate, mine)
	l.reportRefused(name, outcome)
	if last, err := lb.ParseAddr(l.last(name).Address); err == nil {
		l.host.NotElected(last, outcome)
	}
	switch task {
	case elect.Take:
		switch {
		case h != nil:
			h.epoch = outcome.Epoch
			l.host.Changed()
			if a := l.leased[name]; a.IsValid() {
				l.host.Touched(a)
			}
		case iface != "" && l.host.Settled(iface, now) && l.informed(name, now):
			delete(l.waiting, name)
			l.begin(name, iface, index, outcome.Epoch, now)
		case iface != "":
			l.postponed[name] = true
		}
	case elect.Drop, elect.Nothing:
		delete(l.waiting, name)
		if h != nil {
			l.finish(h, false)
		}
	case elect.Keep, elect.HandOver:
	}
}

// reportsPatience is how long taking a lease waits for what agents report. Without it,
// the address that the Service publishes is the one that was leased last.
const reportsPatience = 400 * time.Millisecond

// informed says whether what agents report is known since the lease is to be taken.
func (l *Leases) informed(name string, now time.Time) bool {
	since, waiting := l.waiting[name]
	if !waiting {
		if !l.host.ReadReports() {
			return true
		}
		l.waiting[name] = now
		return false
	}
	return !l.read.Before(since) || now.Sub(since) >= reportsPatience
}

// candidate returns what the election needs to know about a lease. A lease is had
// also while nothing serves.
func (l *Leases) candidate(name string) elect.Address {
	members := l.members[name]
	f := members[0].family(name)
	out := elect.Address{Family: &f, HashKey: l.Names(members[0].Request.Service)[0], Advertisements: lb.AdvertisedOn(members[0].Interface)}
	services := make([]types.NamespacedName, len(members))
	for i, c := range members {
		services[i] = c.Request.Service
	}
	l.host.Serving(&out, services)
	onNodes := out.ServingNodes.Len()
	if out.ServingNodes.Has("") { // outside of the cluster
		onNodes--
	}
	out.AnyServing, out.NeedsLocal = true, out.NeedsLocal && onNodes > 0
	return out
}

// lastAddr is the address that was leased last, if any.
func (l *Leases) lastAddr(name string) netip.Addr {
	if h := l.held[name]; h != nil && h.lease != nil {
		return h.lease.Addr
	}
	last, _ := lb.ParseAddr(l.last(name).Address)
	return last
}

// begin asks for a lease. An address that was had before is used at once.
func (l *Leases) begin(name, iface string, index int, epoch uint64, now time.Time) {
	port := l.port(iface, index, now)
	if port == nil {
		l.postponed[name] = true
		return
	}
	h := &holding{name: name, family: l.members[name][0].family(name), identity: l.identity(name),
		epoch: epoch, since: now.UTC().Truncate(time.Microsecond), iface: iface, index: index}
	last := l.last(name)
	if before := last.Since.Time; !h.since.After(before) { // by a clock that is ahead of ours
		h.since = before.Add(time.Microsecond)
	}
	config := dhcp.Config{Family: h.family, Identity: h.identity, Transport: port}
	if addr, err := lb.ParseAddr(last.Address); err == nil {
		config.Had, config.HadServer = addr, last.Server
		if last.Until != nil {
			config.HadUntil = last.Until.Time
		}
		if lease := (&dhcp.Lease{Addr: addr, Until: config.HadUntil}); !lease.Ended(now) {
			h.had, h.lease, h.checked = addr, lease, addr
		}
	}
	ctx, cancel := context.WithCancel(l.ctx)
	h.end = cancel
	config.Changed = func(lease *dhcp.Lease, err error) {
		select {
		case l.news <- News{h, lease, err}:
		case <-ctx.Done():
		}
	}
	h.client = dhcp.New(config)
	l.running.Go(func() {
		h.client.Run(ctx)
		if h.release.Load() {
			if err := h.client.Release(); err != nil {
				l.log.Warn("lease not released", "interface", iface, "error", err)
			}
		}
	})
	l.held[name] = h
	if !l.check(h) {
		l.note(h)
	}
	l.log.Info("requesting a lease", "services", l.memberNames(name), "family", h.family.String(), "interface", iface, "had", h.had, "epoch", epoch)
}

// finish ends asking. The lease lasts on, for another node or agent, unless it is
// released.
func (l *Leases) finish(h *holding, release bool) {
	h.release.Store(release)
	h.end()
	delete(l.held, h.name)
	l.log.Info("lease ended", "interface", h.iface, "released", release && h.lease != nil)
	h.lease = nil
	l.note(h)
}

// note has everything else follow what is leased now.
func (l *Leases) note(h *holding) {
	var addr netip.Addr
	if h.lease != nil {
		addr = h.lease.Addr
	}
	if services := l.setLeased(h.name, addr); len(services) > 0 {
		l.host.Moved(services...)
	}
	if h.written = (time.Time{}); h.lease != nil {
		h.written = h.lease.Until
	}
	l.host.Changed()
}

const portRetry = 10 * time.Second

type openPort struct {
	port  Port
	index int
	retry time.Time // if it could not be opened
}

// port returns the one for DHCP on an interface, which all leases there have in
// common. It is nil if it could not be opened, which is tried again after a while.
func (l *Leases) port(iface string, index int, now time.Time) Port {
	have, ok := l.ports[iface]
	switch {
	case ok && have.index == index && (have.port != nil || now.Before(have.retry)):
		return have.port
	case have.port != nil:
		_ = have.port.Close()
	}
	port, err := l.o.Open(iface)
	if err != nil {
		port = nil // not an interface around nothing
		l.log.Error("cannot request a lease", "interface", iface, "error", err)
	}
	l.ports[iface] = openPort{port, index, now.Add(portRetry)}
	return port
}
