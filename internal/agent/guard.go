package agent

import (
	"net/netip"
	"time"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/member"
)

// Packets to a Service's address are filtered on every node, but only while an agent
// claims the address: one that nobody claims may be somebody else's, whom the pods of
// this node must reach. Answers to ARP and ND are suppressed either way.

// guardGrace is for how long an address that nobody claims any more is filtered: an
// address that moves is claimed again long before.
const guardGrace = 30 * time.Second

// guards says whether packets to addr are filtered now.
func (a *agent) guards(addr netip.Addr, now time.Time) bool {
	claimed, was := a.isClaimed(addr, now)
	if claimed {
		delete(a.fading, addr)
		return true
	}
	if have, known := a.tables.state.VIPs[addr]; known {
		was = !have.Unclaimed
	}
	if was {
		a.fade(addr, now)
	}
	if now.Before(a.fading[addr]) {
		return true
	}
	delete(a.fading, addr)
	return false
}

// isClaimed says whether a living agent has addr, and whether a dead one had. One that
// leaves addr to another host does not have it.
func (a *agent) isClaimed(addr netip.Addr, now time.Time) (is, was bool) {
	if h := a.held[addr]; h != nil && h.up || a.routed[addr] != nil {
		return true, true
	}
	if a.group == nil { // nobody hears of claims, but all elect the same node
		candidate := a.candidate(addr, now)
		is = a.directory.lease(addr) != "" || elect.Elect(candidate, a.voters, nil).Owner != ""
		return is, is
	}
	for _, c := range a.claimed(addr) {
		was = was || c.Up
		is = is || c.Up && c.Node != a.node && (c.Standing != member.Orphaned || a.presumed[c.Node])
	}
	return is, was
}

// fade has the filter of addr end after a while, unless somebody claims it.
func (a *agent) fade(addr netip.Addr, now time.Time) {
	if a.fading[addr].IsZero() {
		a.fading[addr] = now.Add(guardGrace)
	}
}

// fadeOut looks again at addresses whose filter is to end.
func (a *agent) fadeOut(now time.Time) {
	for addr, until := range a.fading {
		if !now.Before(until) {
			a.dirty[addr] = true
		}
	}
}
