package agent

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/elect"
	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// holding is an address that this node has, or is about to have.
type holding struct {
	epoch  uint64
	up     bool     // the kernel answers for it
	places []string // interfaces it is on, if up
	since  time.Time

	probing bool
	// rival is a host on the LAN that is no node and uses the address; it is not
	// used here until a probe finds it free.
	rival net.HardwareAddr
	// told is when that was said last.
	told time.Time
	// tenants are the Services that were told that it is here, and refused those
	// that were told why it is not for them; offSubnet is whether that was told.
	tenants, refused []tenancy
	offSubnet        bool
	// inherited from an earlier agent on this node, which has told all that.
	inherited bool
	// failed: the kernel refused it.
	failed bool
	retry  time.Time // of both
}

// failureRetry is how often the kernel is asked again.
const failureRetry = time.Second

// rivalTold is how often the same stranger is told of.
const rivalTold = 10 * time.Minute

// rivalRetry is how often an address that a stranger uses is probed again.
const rivalRetry = 15 * time.Second

// estrangement is for how long after it took an address a node does not yield to
// another one that is no member: two leases, within which one whose agent has
// died falls silent.
const estrangement = 2 * nft.FenceTime

// claimsOf returns what is claimed of addr: by the others as they say, by this
// node as it is; and which node had it last, "" if none is known or the last
// that claimed it has found, or is finding out, whether a stranger uses it.
func (a *agent) claimsOf(addr netip.Addr) (claims []elect.Claim, last string) {
	if h := a.held[addr]; h != nil {
		return a.claimsWith(addr, &elect.Claim{Node: a.node, Epoch: h.epoch, Up: h.up})
	}
	return a.claimsWith(addr, nil)
}

// claimsWith is claimsOf where mine is what this node claims, if anything.
func (a *agent) claimsWith(addr netip.Addr, mine *elect.Claim) (claims []elect.Claim, last string) {
	var own, up, down uint64 // the highest epochs
	for _, c := range a.claims[addr] {
		if c.Node == a.node {
			own = max(own, c.Epoch)
			continue
		}
		claims = append(claims, elect.Claim{Node: c.Node, Epoch: c.Epoch, Up: c.Up && c.Standing != member.Orphaned})
		switch {
		case !c.Up:
			down = max(down, c.Epoch)
		case c.Epoch >= up:
			up, a.had[addr] = c.Epoch, c.Node
		}
	}
	if mine != nil {
		claims = append(claims, *mine)
	} else if own > max(up, down) { // of an earlier agent on this node
		claims = append(claims, elect.Claim{Node: a.node, Epoch: own})
	}
	if down > up {
		return claims, ""
	}
	return claims, a.had[addr]
}

// decide does what is to be done about one address. What changes the kernel is
// collected in a.rising and a.falling, and done for all addresses together.
func (a *agent) decide(addr netip.Addr, now time.Time) {
	h := a.held[addr]
	if len(a.directory.tenants(addr)) == 0 || a.isolated {
		if h != nil {
			a.falling = append(a.falling, addr)
		}
		return
	}
	if token, ok := a.directory.tokenFor(addr); ok {
		a.decideLeased(addr, token, now)
		return
	}
	candidate := a.directory.candidate(addr)
	claims, last := a.claimsOf(addr)
	outcome := elect.Elect(candidate, a.voters, claims)
	a.tellNobody(addr, outcome)
	if h != nil && h.up && len(a.places(&candidate)) == 0 {
		a.falling = append(a.falling, addr)
		return
	}
	switch task := outcome.Task(a.node, claims); task {
	case elect.Take:
		if up := h != nil && h.up; !up && !a.settled(a.places(&candidate), now) {
			return
		}
		a.take(addr, h, outcome.Epoch, last, now)
	case elect.Keep:
		if want := a.places(&candidate); !slices.Equal(want, h.places) {
			a.rising = append(a.rising, addr) // on other interfaces now
		}
	case elect.Drop, elect.Nothing:
		if h != nil {
			a.falling = append(a.falling, addr)
		}
	case elect.HandOver: // until the next owner is up
	}
}

// places returns the interfaces on which this node has the address.
func (a *agent) places(of *elect.Address) []string {
	return places(of.Addr, of.InterfacesOn(a.labels), a.links, a.scope.excluded)
}

func (a *agent) placesOf(addr netip.Addr) []string {
	if token, ok := a.directory.tokenFor(addr); ok {
		if h := a.leaseholds[token]; h != nil {
			return []string{h.place}
		}
		return nil
	}
	candidate := a.directory.candidate(addr)
	return a.places(&candidate)
}

// take claims an address. One that nobody is known to have had is probed first:
// somebody who is no node may use it. One that moves is not: its users wait.
func (a *agent) take(addr netip.Addr, h *holding, epoch uint64, last string, now time.Time) {
	switch {
	case h == nil:
		h = &holding{since: now}
		a.held[addr] = h
	case h.probing, (h.rival != nil || h.failed) && now.Before(h.retry):
		return
	}
	h.epoch = epoch
	if h.up || h.rival == nil && last != "" {
		a.came[addr] = last
		a.rising = append(a.rising, addr)
		return
	}
	h.probing = true
	a.claimsDirty = true
	a.probe(addr)
}

// probed takes over the answer of a probe.
func (a *agent) probed(r probeResult, now time.Time) {
	h := a.held[r.addr]
	if h == nil || !h.probing {
		return
	}
	h.probing = false
	if r.rival == nil {
		if h.rival != nil {
			a.log.Info("address is free again", "address", r.addr)
		}
		h.rival = nil
		a.came[r.addr] = ""
		a.rising = append(a.rising, r.addr)
		return
	}
	a.concede(r.addr, h, r.rival, r.place, now)
}

// heard is told of every frame in which another host says that it has addr. A
// member is not meant: the two settle it by their claims. A stranger is told off
// once; if it insists, it has its way (RFC 5227 §2.4). A node that is no member,
// because gossip between us fails, has taken the address believing that this one
// is dead, and has it from then on; unless this node has just taken it, in which
// case it is the other that believes so, or that is dead and has a lease to live.
func (a *agent) heard(addr netip.Addr, mac net.HardwareAddr, place string, now time.Time) {
	h := a.held[addr]
	if h == nil || !h.up || isMember(a.members, mac) {
		return
	}
	if node := a.nodeOf(mac); node != "" {
		if now.Sub(h.since) > estrangement {
			a.log.Warn("address is announced by a node that this one has lost", "address", addr, "node", node)
			a.yield(addr, h, mac, now)
		}
		return
	}
	if a.defend(addr, place) {
		return
	}
	a.concede(addr, h, mac, place, now)
}

// concede leaves an address to a stranger until it is free again.
func (a *agent) concede(addr netip.Addr, h *holding, mac net.HardwareAddr, place string, now time.Time) {
	if same := slices.Equal(h.rival, mac) && now.Sub(h.told) < rivalTold; a.nodeOf(mac) == "" && !same {
		h.told = now
		a.metrics.conflicts.Inc()
		a.tellConflict(addr, mac, place)
	}
	a.yield(addr, h, mac, now)
	for _, token := range a.directory.leasesAt(addr) {
		a.decline(a.leaseholds[token], fmt.Sprintf("%s is used by the host with the hardware address %s", addr, mac))
	}
}

// yield stops using an address until it is free. The claim stays, so that no
// other node runs into the same.
func (a *agent) yield(addr netip.Addr, h *holding, mac net.HardwareAddr, now time.Time) {
	h.rival, h.retry = mac, now.Add(rivalRetry)
	a.reportDirty = true
	if h.up {
		a.lowering = append(a.lowering, addr)
	}
}

// forgive tries addresses again that were left to a stranger who has turned out
// to be a node: agents that are started at the same moment ask for the same
// addresses before they know each other.
func (a *agent) forgive() {
	for addr, h := range a.held {
		if h.rival != nil && isMember(a.members, h.rival) {
			h.rival = nil
			a.dirty[addr] = true
			a.reportDirty = true
		}
	}
}

// nodeOf returns the node that mac belongs to, a member or not.
func (a *agent) nodeOf(mac net.HardwareAddr) string {
	for node, macs := range a.macs {
		if hasMAC(macs, mac) {
			return node
		}
	}
	return ""
}

func isMember(members map[string]member.Meta, mac net.HardwareAddr) bool {
	for _, m := range members {
		if hasMAC(m.MACs, mac) {
			return true
		}
	}
	return false
}

func hasMAC(macs []net.HardwareAddr, mac net.HardwareAddr) bool {
	return slices.ContainsFunc(macs, func(m net.HardwareAddr) bool { return slices.Equal(m, mac) })
}
