package agent

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"sync/atomic"
	"time"

	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// leasehold is a lease that this node has, or asks for: it has the claim of its
// token.
type leasehold struct {
	token    netip.Addr
	family   lb.Family
	identity dhcp.Identity
	epoch    uint64
	since    time.Time
	place    string // the interface
	index    int    // of that
	// had is the address that another node, or an earlier agent, had; nobody has to
	// look whether it is free.
	had   netip.Addr
	lease *dhcp.Lease // nil if there is none
	err   error
	// vetted is the last address that was found to be of use, reported until when
	// others know it to be leased, and told what the Services were told last.
	vetted   netip.Addr
	reported time.Time
	told     lb.Reason
	toldAt   time.Time

	client  *dhcp.Client
	release atomic.Bool // when it ends
	end     context.CancelFunc
}

// parting is a claim that is kept for a while after the last Service of a lease
// is gone: other nodes hear of the end of a claim by gossip before they hear from
// the API server that there is nothing to claim any more, and would ask for what
// has just been given back.
type parting struct {
	epoch uint64
	until time.Time
}

const partingTime = 3 * time.Second

// part ends claims that were kept long enough.
func (a *agent) part(now time.Time) {
	for token, p := range a.parting {
		if now.After(p.until) {
			delete(a.parting, token)
			a.claimsDirty = true
		}
	}
}

// leaseNews is what a DHCP client says.
type leaseNews struct {
	of    *leasehold
	lease *dhcp.Lease
	err   error
}

// decideToken does what is to be done about one lease.
func (a *agent) decideToken(token netip.Addr, now time.Time) {
	h := a.leaseholds[token]
	if h != nil {
		a.vet(h)
	}
	if len(a.directory.members[token]) == 0 || a.isolated {
		if h != nil {
			a.endLease(h, !a.isolated)
		}
		if h != nil && !a.isolated {
			a.parting[token] = parting{h.epoch, now.Add(partingTime)}
		}
		return
	}
	delete(a.parting, token)
	candidate := a.directory.leaseCandidate(token)
	place, index := a.leasePlace(token, &candidate)
	if h != nil && (place != h.place || index != h.index || !reflect.DeepEqual(h.identity, a.directory.identity(token))) {
		a.endLease(h, false)
		if place != "" {
			a.beginLease(token, place, index, h.epoch, now)
		}
		h = a.leaseholds[token]
	}
	var mine *elect.Claim
	if h != nil {
		mine = &elect.Claim{Node: a.node, Epoch: h.epoch, Up: true}
	}
	claims, _ := a.claimsWith(token, mine)
	outcome := elect.Elect(candidate, a.voters, claims)
	if why := outcome.String(); outcome.Owner == "" && a.nobody[token] != why {
		a.nobody[token] = why
		a.log.Warn("no node can have the lease", "services", a.memberNames(token), "why", why)
		if a.speaks() {
			for _, o := range a.directory.members[token] {
				a.reporter.event(o, lb.KubeVIP, lb.LeaseNotAsked.With(familyOf(o, token), why))
			}
		}
	} else if outcome.Owner != "" {
		delete(a.nobody, token)
	}
	if last, err := lb.ParseAddr(a.directory.lastLease(token).Address); err == nil {
		a.tellNobody(last, outcome)
	}
	switch outcome.Task(a.node, claims) {
	case elect.Take:
		switch {
		case h != nil:
			h.epoch, a.claimsDirty = outcome.Epoch, true
			a.touch(a.directory.leased[token])
		case place != "" && a.settled([]string{place}, now):
			a.beginLease(token, place, index, outcome.Epoch, now)
		}
	case elect.Drop, elect.Nothing:
		if h != nil {
			a.endLease(h, false)
		}
	case elect.Keep, elect.HandOver:
	}
}

// decideLeased does what is to be done about an address that is a lease: it is
// where the lease is.
func (a *agent) decideLeased(addr, token netip.Addr, now time.Time) {
	held, h := a.held[addr], a.leaseholds[token]
	candidate := a.directory.candidate(addr)
	serves := candidate.AnyServing && !candidate.Unshareable && (!candidate.NeedsLocal || candidate.ServingNodes.Has(a.node))
	if h == nil || h.lease == nil || h.lease.Addr != addr || !serves {
		if held != nil {
			a.falling = append(a.falling, addr)
		}
		return
	}
	if held != nil && held.up && held.epoch == h.epoch && slices.Equal(held.places, []string{h.place}) {
		return
	}
	_, last := a.claimsOf(addr)
	if h.had == addr {
		last = cmp.Or(last, a.node)
	}
	a.take(addr, held, h.epoch, last, now)
}

// leasePlace returns the interface on which this node would lease: that which is
// named; of several the one whose network the last lease is from, then the first.
func (a *agent) leasePlace(token netip.Addr, of *elect.Address) (string, int) {
	last, _ := lb.ParseAddr(a.directory.lastLease(token).Address)
	if h := a.leaseholds[token]; h != nil && h.lease != nil {
		last = h.lease.Addr
	}
	return leasePlace(*of.Family, last, of.InterfacesOn(a.labels), a.links, a.scope.excluded)
}

func leasePlace(f lb.Family, last netip.Addr, named []string, links []link.Link, excluded *regexp.Regexp) (place string, index int) {
	near := false
	for i := range links {
		l := &links[i]
		switch {
		case !usable(l, f), len(l.MAC) != 6:
			continue
		case len(named) > 0 && !slices.Contains(named, l.Name):
			continue
		case len(named) == 0 && (excluded.MatchString(l.Name) || !l.Global[f]):
			continue
		}
		here := last.IsValid() && has(l, last)
		if place == "" || here && !near || here == near && l.Name < place {
			place, index, near = l.Name, l.Index, here
		}
	}
	return place, index
}

// beginLease asks for a lease. An address that was had before is used at once.
func (a *agent) beginLease(token netip.Addr, place string, index int, epoch uint64, now time.Time) {
	port := a.leasePort(place, index, now)
	if port == nil {
		a.postponed = true
		return
	}
	h := &leasehold{token: token, family: familyOf(a.directory.members[token][0], token), identity: a.directory.identity(token),
		epoch: epoch, since: now.UTC().Truncate(time.Microsecond), place: place, index: index}
	last := a.directory.lastLease(token)
	if before := last.Since.Time; !h.since.After(before) { // by a clock that is ahead of ours
		h.since = before.Add(time.Microsecond)
	}
	config := dhcp.Config{Family: h.family, Identity: h.identity, Transport: port}
	if addr, err := lb.ParseAddr(last.Address); err == nil {
		config.Had, config.HadServer = addr, last.Server
		if last.Until != nil {
			config.HadUntil = last.Until.Time
		}
		if l := (&dhcp.Lease{Addr: addr, Until: config.HadUntil}); !l.Ended(now) {
			h.had, h.lease, h.vetted = addr, l, addr
		}
	}
	ctx, cancel := context.WithCancel(a.background)
	h.end = cancel
	config.Changed = func(l *dhcp.Lease, err error) {
		select {
		case a.leaseNews <- leaseNews{h, l, err}:
		case <-ctx.Done():
		}
	}
	h.client = dhcp.New(config)
	a.running.Go(func() {
		h.client.Run(ctx)
		if h.release.Load() {
			if err := h.client.Release(); err != nil {
				a.log.Warn("lease not given back", "interface", place, "error", err)
			}
		}
	})
	a.leaseholds[token] = h
	if !a.vet(h) {
		a.noteLease(h)
	}
	a.log.Info("asking for a lease", "services", a.memberNames(token), "family", h.family.String(), "interface", place, "had", h.had, "epoch", epoch)
}

// endLease ends asking. The lease lasts on, for another node or agent, unless it
// is given back.
func (a *agent) endLease(h *leasehold, release bool) {
	h.release.Store(release)
	h.end()
	delete(a.leaseholds, h.token)
	a.log.Info("lease ended", "interface", h.place, "released", release && h.lease != nil)
	h.lease = nil
	a.noteLease(h)
}

// noteLease has everything else follow what is leased now.
func (a *agent) noteLease(h *leasehold) {
	var addr netip.Addr
	if h.lease != nil {
		addr = h.lease.Addr
	}
	a.touch(a.directory.setLease(h.token, addr)...)
	if h.reported = (time.Time{}); h.lease != nil {
		h.reported = h.lease.Until
	}
	a.claimsDirty, a.reportDirty = true, true
}

func (a *agent) touch(addresses ...netip.Addr) {
	for _, x := range addresses {
		if x.IsValid() {
			a.dirty[x], a.gone[x] = true, true
		}
	}
}

// leaseChanged takes over what a DHCP client says.
func (a *agent) leaseChanged(n leaseNews) {
	h := n.of
	if a.leaseholds[h.token] != h {
		return
	}
	had, trouble := h.lease, h.err
	h.lease, h.err = n.lease, n.err
	if a.vet(h) {
		return
	}
	renewed := had != nil && h.lease != nil && had.Addr == h.lease.Addr && had.Server == h.lease.Server && trouble == nil && n.err == nil
	if !renewed || untold(h.reported, h.lease.Until, time.Now()) {
		a.noteLease(h)
	}
	useless, unfit := errors.AsType[dhcp.Useless](n.err)
	switch {
	case had != nil && (h.lease == nil || h.lease.Addr != had.Addr):
		a.tellMembers(h, lb.LeaseLost.With(had.Addr, a.node, leaseTrouble(n.err)))
	case errors.Is(n.err, dhcp.ErrNoServer):
		a.tellMembers(h, lb.NoLeaseServer.With(h.family, h.place, a.node))
	case unfit:
		a.tellMembers(h, lb.LeaseUnusable.With(h.family, h.place, a.node, useless.Why))
	case n.err != nil:
		a.tellMembers(h, lb.LeaseRefused.With(h.family, h.place, a.node))
	case h.lease != nil && (had == nil || had.Server != h.lease.Server):
		a.log.Info("leased", "address", h.lease.Addr, "services", a.memberNames(h.token), "server", h.lease.Server, "until", h.lease.Until)
	}
}

// leaseTrouble tells why there is no lease, as the end of a sentence.
func leaseTrouble(err error) string {
	switch {
	case errors.Is(err, dhcp.ErrNoServer):
		return "no DHCP server has renewed it"
	case errors.Is(err, dhcp.ErrRefused):
		return "the DHCP server took it back"
	}
	return "the DHCP server gave another"
}

// untold says whether others have to be told until when a lease now lasts: what
// they know of it falls behind by a good part of its time. Servers can have it
// renewed every second.
func untold(told, until, now time.Time) bool {
	return told.IsZero() != until.IsZero() || !until.IsZero() && until.Sub(told) > until.Sub(now)/4
}

// tellMembers tells the Services of a lease something; the same again only after
// a while.
func (a *agent) tellMembers(h *leasehold, reason lb.Reason) {
	now := time.Now()
	if h.told == reason && now.Sub(h.toldAt) < rivalTold {
		return
	}
	h.told, h.toldAt = reason, now
	a.log.Warn("lease", "reason", string(reason.Code), "services", a.memberNames(h.token), "message", reason.Text)
	for _, o := range a.directory.members[h.token] {
		a.reporter.event(o, lb.KubeVIP, reason)
	}
}

func (a *agent) memberNames(token netip.Addr) (out []string) {
	for _, o := range a.directory.members[token] {
		out = append(out, o.request.Service.String())
	}
	return out
}
