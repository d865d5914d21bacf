package agent

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/elect"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

const (
	maxUnannounced = 500
	// maxMessage is how long a sentence may be in the Agent object, without the ellipsis of
	// one that is cut.
	maxMessage = 1023
	// endpointGrace is how long a Service may be without a serving endpoint: its pods
	// may be replaced.
	endpointGrace = 30 * time.Second
	// nodeGrace is how long there may be no node for an address: an agent may be
	// restarted.
	nodeGrace = 3 * time.Second
	// placedGrace is the same for an address that the controller places: it has to hear
	// of the dead node, and to make several calls to a cloud.
	placedGrace = 10 * time.Second
)

// silence is that no node announces an address, as far as this one knows.
type silence struct {
	reason lb.Reason
	since  time.Time
	// own: this node is the one that should announce it, and reports why it does not.
	// Of what all agents know, one of them is chosen.
	own bool
	// placed: the controller says which node is to announce it.
	placed bool
}

// grace is how long an address may be unannounced before that is reported.
func (s silence) grace() time.Duration {
	switch code := s.reason.Code; {
	case code == lb.NoServingEndpoint:
		return endpointGrace
	case code == lb.AddressConflict || code == lb.AddressIsNode:
		return 0
	case s.placed:
		return placedGrace
	}
	return nodeGrace
}

// unannounced returns the addresses that a node reports, of those that nobody
// announces, in order; mine says for which of them it is chosen of all that know. next
// is when there will be more, if nothing else changes.
func unannounced(silent map[netip.Addr]silence, mine func(netip.Addr) bool, now time.Time) (due []netip.Addr, next time.Time) {
	for addr, s := range silent {
		if !s.own && !mine(addr) {
			continue
		}
		if at := s.since.Add(s.grace()); !now.Before(at) {
			due = append(due, addr)
		} else if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	slices.SortFunc(due, netip.Addr.Compare)
	return due[:min(len(due), maxUnannounced)], next
}

// silenceOf returns why no node announces an address, by the outcome of its election;
// false if a node does, or is about to.
func silenceOf(addr netip.Addr, o elect.Outcome) (lb.Reason, bool) {
	if o.Owner != "" {
		return lb.Reason{}, false
	}
	if o.Why == elect.NoEndpoint {
		return lb.NoServingEndpoint.With(addr), true
	}
	return lb.NotAnnounced.With(addr, o.Advice()), true
}

// noteOutcome takes over what the election says about an address.
func (a *agent) noteOutcome(addr netip.Addr, o elect.Outcome) {
	if reason, silent := silenceOf(addr, o); silent {
		a.noteSilent(addr, reason, false)
	} else if s, was := a.silent[addr]; was && !s.own {
		delete(a.silent, addr)
		a.reportDirty = true
	}
}

// noteSilent notes why nobody announces an address. It is unannounced since then, even
// if the reason changes.
func (a *agent) noteSilent(addr netip.Addr, reason lb.Reason, own bool) {
	s, was := a.silent[addr]
	if was && s.own == own && s.reason.Equal(reason) {
		return
	}
	if !was {
		s.since = time.Now()
		if before, known := a.silentBefore[addr]; known && before.Before(s.since) {
			s.since = before
		}
		delete(a.silentBefore, addr)
	}
	s.reason, s.own, s.placed = reason, own, a.directory.placed(addr)
	a.silent[addr], a.reportDirty = s, true
}

// speaksOf says whether this agent is the one of all alive that reports an address.
func (a *agent) speaksOf(addr netip.Addr) bool {
	mine, known := a.speaking[addr]
	if !known {
		mine = chosen(a.node, addr.String(), a.roster, 1)
		a.speaking[addr] = mine
	}
	return mine
}

// trouble says why this node does not announce an address that it should.
func (a *agent) trouble(addr netip.Addr, h *holding) (lb.Reason, bool) {
	switch {
	case h.up:
	case h.rival != nil && !h.lost && a.nodeOf(h.rival) == "":
		return lb.AddressConflict.With(addr, strings.Join(a.ifacesOf(addr), ", "), a.node, h.rival), true
	case h.rival == nil && h.failed && !h.unfit:
		return lb.AddressRefused.With(addr, a.node, h.failure), true
	}
	return lb.Reason{}, false
}

// refreshSilent brings what is unannounced in line with what this node has, and with
// the addresses that there are.
func (a *agent) refreshSilent() {
	for addr, h := range a.held {
		if reason, troubled := a.trouble(addr, h); troubled {
			a.noteSilent(addr, reason, true)
		} else if a.silent[addr].own {
			delete(a.silent, addr)
		}
	}
	for addr, node := range a.nodeAddrs {
		if len(a.directory.addresses[addr]) > 0 {
			a.noteSilent(addr, lb.AddressIsNode.With(addr, node), false)
		}
	}
	for addr, s := range a.silent {
		_, ofNode := a.nodeAddrs[addr]
		if len(a.directory.addresses[addr]) == 0 || s.own && a.held[addr] == nil || s.reason.Code == lb.AddressIsNode && !ofNode {
			delete(a.silent, addr)
			delete(a.speaking, addr)
		}
	}
}

// reportUnannounced returns what this node reports of addresses that nobody announces,
// and when to look again.
func (a *agent) reportUnannounced(now time.Time) (out []v1alpha1.Unannounced, next time.Time) {
	if !a.synced { // nothing is decided yet: what an earlier agent said stands
		return a.unannouncedBefore, time.Time{}
	}
	a.refreshSilent()
	clear(a.silentBefore)
	a.unannouncedBefore = nil
	due, next := unannounced(a.silent, a.speaksOf, now)
	for _, addr := range due {
		s := a.silent[addr]
		if s.placed && s.reason.Code == lb.NotAnnounced {
			a.tellRefused(addr, s.reason)
		}
		u := v1alpha1.Unannounced{Address: addr.String(), Services: []string{}, Reason: string(s.reason.Code),
			Message: prose.Cut(s.reason.Text, maxMessage), Since: metav1.NewTime(s.since.Truncate(time.Second))}
		for _, o := range a.directory.addresses[addr] {
			if len(u.Services) < maxServices {
				u.Services = append(u.Services, o.Request.Service.String())
			}
		}
		out = append(out, u)
	}
	return out, next
}

// inheritStatus takes over what an earlier agent on this node has reported, so that a
// restart neither ends nor begins anything.
func (a *agent) inheritStatus(s *v1alpha1.AgentStatus) {
	a.lostNodes.Insert(s.Lost...)
	a.lostReported = s.Lost
	a.unannouncedBefore = slices.Clone(s.Unannounced)
	for _, u := range s.Unannounced {
		if addr, err := lb.ParseAddr(u.Address); err == nil {
			a.silentBefore[addr] = u.Since.Time
		}
	}
}
