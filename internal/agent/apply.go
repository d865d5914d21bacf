package agent

import (
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// apply does to the kernel what was decided: first all addresses that come, in
// one change of our tables, then those that go, so that a move within the node
// leaves no gap; then it announces and claims.
func (a *agent) apply(now time.Time) {
	if len(a.rising)+len(a.falling)+len(a.lowering) == 0 && !a.tableDirty {
		a.publishClaims()
		return
	}
	var risen []netip.Addr
	for _, addr := range a.rising {
		if a.raise(addr, now) {
			risen = append(risen, addr)
		}
	}
	for _, addr := range slices.Concat(a.falling, a.lowering) {
		a.state.VIPs[addr] = nft.VIP{Ports: a.directory.ports(addr)}
	}
	a.dropGone()
	if err := a.table.Apply(a.state); err != nil {
		a.log.Error("nftables not changed", "error", err)
	}
	for _, addr := range slices.Concat(a.falling, a.lowering) {
		a.lower(addr)
	}
	for _, addr := range a.falling {
		if a.held[addr] != nil {
			delete(a.held, addr)
			a.claimsDirty = true
		}
	}
	for _, addr := range risen {
		a.announce(addr, a.held[addr])
		a.tellRisen(addr, a.came[addr], now)
	}
	clear(a.came)
	a.watchAll()
	a.rising, a.falling, a.lowering, a.tableDirty = a.rising[:0], a.falling[:0], a.lowering[:0], false
	a.publishClaims()
	a.reportDirty = true
}

// raise puts addr on its interfaces. It says whether the address is news there.
func (a *agent) raise(addr netip.Addr, now time.Time) bool {
	h := a.held[addr]
	if h == nil {
		return false
	}
	want := places(addr, a.directory.advertisement(addr).Interfaces, a.links)
	for _, place := range want {
		if !a.leases[place] {
			if err := a.table.Grant(place); err != nil {
				a.log.Error("lease not granted", "interface", place, "error", err)
				return false
			}
			a.leases[place] = true
			a.extend(place, now)
		}
		if err := a.kernel.Add(place, addr); err != nil {
			a.log.Error("address not added", "address", addr, "interface", place, "error", err)
			return false
		}
	}
	for _, place := range h.places {
		if !slices.Contains(want, place) {
			a.silence(place, addr)
			a.remove(place, addr)
		}
	}
	if !h.up {
		h.since = now
	}
	h.up, h.places = true, want
	a.had[addr] = true
	a.state.VIPs[addr] = nft.VIP{Ports: a.directory.ports(addr), Interfaces: want}
	a.claimsDirty = true
	return true
}

// lower takes addr off its interfaces.
func (a *agent) lower(addr netip.Addr) {
	h := a.held[addr]
	if h == nil || !h.up {
		return
	}
	for _, place := range h.places {
		a.silence(place, addr)
		a.remove(place, addr)
	}
	a.log.Info("address withdrawn", "address", addr, "interfaces", h.places)
	h.up, h.places = false, nil
	a.claimsDirty = true
}

func (a *agent) remove(place string, addr netip.Addr) {
	if err := a.kernel.Remove(place, addr); err != nil {
		a.log.Error("address not removed", "address", addr, "interface", place, "error", err)
	}
}

// dropGone takes addresses that no Service has any more out of our tables.
func (a *agent) dropGone() {
	for addr := range a.gone {
		if len(a.directory.tenants(addr)) == 0 {
			delete(a.state.VIPs, addr)
			delete(a.outcomes, addr)
			delete(a.had, addr)
		}
	}
	clear(a.gone)
}

// publishClaims tells the other agents what this node has.
func (a *agent) publishClaims() {
	if !a.claimsDirty || a.group == nil {
		return
	}
	a.claimsDirty = false
	mine := make([]member.Claim, 0, len(a.held))
	for addr, h := range a.held {
		mine = append(mine, member.Claim{Address: addr, Node: a.node, Epoch: h.epoch, Up: h.up})
	}
	a.group.SetClaims(mine)
}

// renew renews the leases of all interfaces that carry addresses. Where one was
// lost (the process was stopped, the machine asleep), others may have taken the
// addresses meanwhile: all are given up, and asked for again.
func (a *agent) renew() {
	used := map[string]bool{}
	for _, h := range a.held {
		for _, place := range h.places {
			used[place] = true
		}
	}
	var names []string
	for place := range a.leases {
		if used[place] {
			names = append(names, place)
			continue
		}
		delete(a.leases, place)
		if err := a.table.Revoke(place); err != nil {
			a.log.Error("lease not revoked", "interface", place, "error", err)
		}
	}
	if len(names) == 0 {
		return
	}
	now := time.Now()
	lost, err := a.table.Renew(names)
	if err != nil {
		a.log.Error("leases not renewed", "error", err)
		return
	}
	for _, place := range names {
		if !slices.Contains(lost, place) {
			a.extend(place, now)
		}
	}
	if len(lost) == 0 {
		return
	}
	a.quietUntil = now.Add(settlePause)
	a.log.Warn("leases lost: this node was not answering for a while", "interfaces", lost)
	for _, place := range lost {
		delete(a.leases, place)
	}
	for addr, h := range a.held {
		if slices.ContainsFunc(h.places, func(p string) bool { return slices.Contains(lost, p) }) {
			a.falling = append(a.falling, addr)
		}
	}
	a.apply(now)
	a.allDirty = true
}
