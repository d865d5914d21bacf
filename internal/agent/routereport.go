package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/bfd"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/prose"
)

const (
	// maxPeers is how many peers the Agent object has.
	maxPeers = 64
	// protocolBGP is announcing to routers, in the words of users.
	protocolBGP = "bgp"
	// fewNodes is how many nodes may each write an event about the same address; of more, one
	// does.
	fewNodes = 10
)

// reportRoute reports to Services that an address of theirs is announced to peers now, and
// notes for which it no longer is.
func (a *agent) reportRoute(addr netip.Addr, before, now []tenancy, peers string) {
	for _, t := range now {
		if t.among(before) {
			continue
		}
		a.log.Info("service announced", "event", "serviceAnnounced", "ips", []string{addr.String()}, "protocol", protocolBGP,
			"service", t.service.String(), "pool", t.pool.String(), "peers", peers, "node", a.node)
		a.observer.Announced(t.service, addr, protocolBGP, true)
		if o := a.directory.services[t.service]; o != nil && (len(a.voters) <= fewNodes || a.speaks()) {
			a.reporter.event(&o.Request, t.pool, lb.Routed.With(addr, a.node, peers))
		}
	}
	for _, t := range before {
		if !t.among(now) {
			a.log.Info("service withdrawn", "event", "serviceWithdrawn", "ips", []string{addr.String()}, "protocol", protocolBGP,
				"service", t.service.String(), "pool", t.pool.String(), "node", a.node)
			a.observer.Announced(t.service, addr, protocolBGP, false)
		}
	}
}

// reportRouted returns the addresses that this node announces to routers, as the Agent object
// has them.
func (a *agent) reportRouted(addr netip.Addr) v1alpha1.Announcement {
	n := v1alpha1.Announcement{Address: addr.String(), Protocol: "BGP", Since: metav1.NewTime(a.routed[addr].since.Truncate(time.Second)), Services: []string{}}
	for _, t := range a.routed[addr].tenants[:min(len(a.routed[addr].tenants), maxServices)] {
		n.Services = append(n.Services, t.service.String())
	}
	return n
}

// reportPeers returns the sessions with routers, as the Agent object has them.
func (a *agent) reportPeers() []v1alpha1.Peer {
	var out []v1alpha1.Peer
	all := a.routers.Statuses()
	var carried [len(lb.Families)]bool // by some session
	for i := range all {
		for f, yes := range all[i].Families {
			carried[f] = carried[f] || yes
		}
	}
	for i := range all[:min(len(all), maxPeers)] {
		s := &all[i]
		// Peers of one family each are the usual way to announce both.
		s.Withheld = slices.DeleteFunc(slices.Clone(s.Withheld), func(w bgp.Withheld) bool {
			return w.Why == bgp.NoFamily && carried[lb.FamilyOf(w.Prefix.Addr())]
		})
		out = append(out, peerReport(s))
	}
	return out
}

// peerReport returns one of them. What changes with every attempt to connect is left out: routers
// that are away for long would have the object written again every few seconds.
func peerReport(s *PeerStatus) v1alpha1.Peer {
	state := bgp.Idle
	if s.State == bgp.Established {
		state = s.State
	}
	out := v1alpha1.Peer{Name: s.Name, ASN: int64(s.PeerAS), State: state.String(), Established: int64(s.Established), Prefixes: int32(s.Prefixes)}
	switch {
	case s.Remote.IsValid() && state == bgp.Established:
		out.Address = s.Remote.String()
	case s.Peer.Address.IsValid():
		out.Address = s.Peer.Address.String()
	}
	if out.ASN == 0 {
		out.ASN = int64(s.Peer.PeerAS)
	}
	if !s.Since.IsZero() {
		since := metav1.NewTime(s.Since.Truncate(time.Second))
		out.Since = &since
	}
	switch code, text := peerTrouble(s); {
	case text != "":
		out.Reason, out.Message = string(code), prose.Cut(text, maxMessage)
	default:
		out.Reason = string(lb.PeerReady)
	}
	if s.BFD != nil {
		out.BFD = s.BFD.State.String()
	}
	return out
}

// peerTrouble returns what is wrong with a session; "" if nothing is.
func peerTrouble(s *PeerStatus) (lb.Code, string) {
	switch {
	case s.Invalid != "":
		return lb.PeerUnusable, s.Invalid
	case s.Failure != nil:
		return failureCodes[s.Failure.Kind], s.Failure.Text
	case s.State != bgp.Established:
		return lb.PeerDown, "connecting"
	case s.SourceMissing:
		return lb.PeerSourceMissing, lb.PeerSourceMissing.With(s.Peer.Source).Text
	case len(s.Withheld) > 0:
		return withheldReason(s.Withheld)
	case s.Filtered != "":
		return lb.ReversePathFiltered, lb.ReversePathFiltered.With(s.Filtered).Text
	case s.BFD != nil && s.BFD.State != bfd.Up && s.BFD.Reason != nil:
		return s.BFD.Reason.Code, s.BFD.Reason.Text
	}
	return "", ""
}

// withheldReason says why prefixes are not announced: of several reasons the first counts.
func withheldReason(all []bgp.Withheld) (lb.Code, string) {
	first, n := all[0], 0
	for _, w := range all {
		if w.Why == first.Why {
			n++
		}
	}
	which := fmt.Sprintf("%s (the first of %d is %s)", first.Why, n, first.Prefix)
	if first.Why == bgp.OverMaximum {
		return lb.PeerFull, lb.PeerFull.With(which).Text
	}
	return lb.NoNextHop, lb.NoNextHop.With(which).Text
}

// failureCodes are the reasons of sessions that fail.
var failureCodes = map[bgp.Kind]lb.Code{
	bgp.Unreachable: lb.PeerDown, bgp.Silent: lb.PeerDown, bgp.Closed: lb.PeerDown, bgp.HoldExpired: lb.PeerDown, bgp.Stuck: lb.PeerDown,
	bgp.Stalled: lb.PeerDown, bgp.NoRouter: lb.PeerDown, bgp.Ended: lb.PeerDown, bgp.SeveralRouters: lb.PeerDown,
	bgp.Refused: lb.PeerRefused, bgp.Rejected: lb.PeerRefused, bgp.Garbage: lb.PeerRefused,
	bgp.Conflict: lb.PeerConflict, bgp.Full: lb.PeerFull,
}

// inOrder returns all addresses that this node announces, by whatever protocol.
func (a *agent) inOrder() []netip.Addr {
	var out []netip.Addr
	for addr := range a.held {
		out = append(out, addr)
	}
	for addr := range a.routed {
		if a.held[addr] == nil {
			out = append(out, addr)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// routesOfServices returns the peers to which each Service that is observed is announced.
func (a *agent) routesOfServices() map[types.NamespacedName][]string {
	out := map[types.NamespacedName][]string{}
	for _, r := range a.routed {
		for _, t := range r.tenants {
			if !a.observer.Observes(t.pool) {
				continue
			}
			for i := range r.paths {
				out[t.service] = append(out[t.service], r.paths[i].Peer)
			}
		}
	}
	for service, peers := range out {
		slices.Sort(peers)
		out[service] = slices.Compact(peers)
	}
	return out
}
