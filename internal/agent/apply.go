package agent

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/member"
	"fairlead.io/internal/nft"
)

// apply does to the kernel what was decided, for all addresses together: our
// tables first, so that nothing is answered for that should not be; then the
// addresses that come, and those that go; then it announces and claims.
func (a *agent) apply(now time.Time) {
	falling := slices.Concat(a.falling, a.lowering)
	for _, addr := range a.rising {
		a.prepare(addr, now)
	}
	for _, addr := range falling {
		a.setVIP(addr, nft.VIP{Ports: a.directory.ports(addr)})
	}
	a.dropGone()
	a.updateTable()
	for _, addr := range a.rising {
		h := a.held[addr]
		if h == nil || slices.Contains(falling, addr) {
			continue
		}
		before := h.places
		if !a.raise(addr, h, now) {
			continue
		}
		a.announce(addr, h)
		if !slices.Equal(before, h.places) {
			a.tellRisen(addr, a.came[addr], now)
		}
	}
	for _, addr := range falling {
		a.lower(addr)
	}
	for _, addr := range a.falling {
		if a.held[addr] != nil {
			delete(a.held, addr)
			a.claimsDirty = true
		}
	}
	if len(a.rising)+len(falling) > 0 {
		a.reportDirty = true
	}
	clear(a.came)
	a.watchAll()
	a.rising, a.falling, a.lowering = a.rising[:0], a.falling[:0], a.lowering[:0]
	a.publishClaims()
}

// setVIP notes what our tables are to say about addr.
func (a *agent) setVIP(addr netip.Addr, v nft.VIP) {
	a.state.VIPs[addr] = v
	a.tableChanges[addr] = &v
}

// updateTable writes what was noted.
func (a *agent) updateTable() {
	if len(a.tableChanges) == 0 {
		return
	}
	switch err := a.table.Update(a.tableChanges); {
	case errors.Is(err, nft.ErrTampered):
		a.rebuild("somebody else changed our nftables tables; writing them anew")
	case err != nil:
		a.log.Error("nftables not changed", "error", err)
		a.tableDirty = true
	}
	clear(a.tableChanges)
}

// prepare has our tables let addr through on the interfaces where it is to be,
// and leases granted there.
func (a *agent) prepare(addr netip.Addr, now time.Time) {
	want := a.placesOf(addr)
	for _, place := range want {
		if a.leases[place] {
			continue
		}
		if err := a.table.Grant(place); err != nil {
			a.log.Error("lease not granted", "interface", place, "error", err)
			continue
		}
		a.leases[place] = true
		a.extend(place, now)
	}
	a.setVIP(addr, nft.VIP{Ports: a.directory.ports(addr), Interfaces: want})
}

// raise puts addr on its interfaces. It says whether it is there now; if not, it
// is tried again.
func (a *agent) raise(addr netip.Addr, h *holding, now time.Time) bool {
	want := a.state.VIPs[addr].Interfaces
	h.failed, h.retry = true, now.Add(failureRetry)
	if len(want) == 0 {
		return false
	}
	for _, place := range want {
		if !a.leases[place] {
			return false // was logged
		}
		if err := a.kernel.Add(place, addr); err != nil {
			a.log.Error("address not added", "address", addr, "interface", place, "error", err)
			return false
		}
	}
	h.failed = false
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
	a.had[addr] = a.node
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
	told := h.tenants
	h.tenants, h.refused = nil, nil
	a.withdraw(addr, h, told)
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
		if isToken(addr) {
			if len(a.directory.members[addr]) == 0 {
				delete(a.had, addr)
				delete(a.nobody, addr)
			}
		} else if len(a.directory.tenants(addr)) == 0 {
			delete(a.state.VIPs, addr)
			a.tableChanges[addr] = nil
			delete(a.nobody, addr)
			delete(a.had, addr)
			a.metrics.classic.gratuitous.DeleteLabelValues(addr.String())
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
	for token, h := range a.leaseholds {
		mine = append(mine, member.Claim{Address: token, Node: a.node, Epoch: h.epoch, Up: true})
	}
	for token, p := range a.parting {
		mine = append(mine, member.Claim{Address: token, Node: a.node, Epoch: p.epoch, Up: true})
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
	a.settle(now, lost...)
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
