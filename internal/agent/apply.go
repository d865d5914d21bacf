package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/link"
	"fairlead.io/internal/nft"
)

// apply does to the kernel what was decided, for all addresses at once: our tables
// first, so that nothing is answered for that should not be; then the addresses
// that come, and those that go; then it announces and claims.
func (a *agent) apply(now time.Time) {
	falling := slices.Concat(a.falling, a.lowering)
	for _, addr := range a.rising {
		a.prepare(addr, now)
	}
	for _, addr := range falling {
		v := nft.VIP{Ports: a.directory.ports(addr), Unclaimed: !a.guards(addr, now)}
		if !v.Unclaimed {
			a.fade(addr, now) // another agent may claim it, or not
		}
		a.tables.set(addr, v)
	}
	a.forgetGone()
	a.tables.write()
	var raised []netip.Addr
	for _, addr := range a.rising {
		h := a.held[addr]
		if h == nil || slices.Contains(falling, addr) {
			continue
		}
		before := h.ifaces
		if !a.raise(addr, h, now) {
			continue
		}
		if len(before) == 0 {
			raised = append(raised, addr)
		}
		a.tellRaised(addr, h)
		a.announcer.Own(addr, h.ifaces)
		if !slices.Equal(before, h.ifaces) {
			a.reportRaised(addr, a.came[addr], now)
		}
	}
	a.strays.of(&a.running, raised)
	for _, addr := range falling {
		a.lower(addr)
	}
	for _, addr := range a.falling {
		if a.held[addr] != nil {
			delete(a.held, addr)
			a.claim(addr)
		}
	}
	if len(a.rising)+len(falling) > 0 {
		a.reportDirty = true
	}
	clear(a.came)
	a.announcer.Commit()
	a.rising, a.falling, a.lowering = a.rising[:0], a.falling[:0], a.lowering[:0]
	a.publishClaims()
}

// prepare has our tables let addr through on the interfaces where it is to be, and
// fences granted there.
func (a *agent) prepare(addr netip.Addr, now time.Time) {
	want := a.ifacesOf(addr)
	for _, iface := range want {
		a.tables.grant(iface, now)
	}
	a.tables.set(addr, nft.VIP{Ports: a.directory.ports(addr), Interfaces: want, Counted: a.directory.placed(addr)})
}

// raise puts addr on its interfaces. It says whether it is there now; if not, it
// is tried again.
func (a *agent) raise(addr netip.Addr, h *holding, now time.Time) bool {
	want := a.tables.state.VIPs[addr].Interfaces
	if err := a.put(addr, want); err != nil {
		a.log.Error("address not added", "address", addr, "error", err)
		a.fail(addr, h, err, now)
		return false
	}
	h.failed, h.failures, h.failure = false, 0, nil
	h.unfit = false
	for _, iface := range h.ifaces {
		if !slices.Contains(want, iface) {
			a.announcer.Disown(addr, iface)
			a.remove(iface, addr)
		}
	}
	if !h.up {
		h.since = now
	}
	h.up, h.ifaces = true, want
	a.had[addr] = a.node
	a.claim(addr)
	return true
}

// put puts addr on interfaces.
func (a *agent) put(addr netip.Addr, ifaces []string) error {
	if len(ifaces) == 0 {
		return errors.New("no interface can carry it")
	}
	for _, iface := range ifaces {
		if !a.tables.fences[iface] {
			return fmt.Errorf("the fence of %s cannot be granted", iface)
		}
		err := a.kernel.Add(iface, addr)
		if errors.Is(err, link.ErrOccupied) && a.directory.placed(addr) {
			// Whoever put it there, the controller says that it belongs here.
			a.log.Warn("another program already added the address to the interface; serving it as it is", "address", addr, "interface", iface)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lower takes addr off its interfaces.
func (a *agent) lower(addr netip.Addr) {
	h := a.held[addr]
	if h == nil || !h.up {
		return
	}
	for _, iface := range h.ifaces {
		a.announcer.Disown(addr, iface)
		a.remove(iface, addr)
	}
	before := h.tenants
	h.tenants, h.refused = nil, nil
	a.withdraw(addr, h, before)
	h.up, h.ifaces = false, nil
	a.claim(addr)
	a.tellLowered(addr, time.Now())
}

func (a *agent) remove(iface string, addr netip.Addr) {
	if err := a.kernel.Remove(iface, addr); err != nil {
		a.log.Error("address not removed", "address", addr, "interface", iface, "error", err)
	}
}

// forgetGone takes addresses that no Service has any more out of our tables.
func (a *agent) forgetGone() {
	for addr := range a.gone {
		if len(a.directory.tenants(addr)) == 0 {
			a.tables.remove(addr)
			delete(a.refused, addr)
			delete(a.had, addr)
			delete(a.fading, addr)
			a.observer.Forget(addr)
		}
	}
	clear(a.gone)
}

// renew renews the fences of all interfaces that carry addresses. Where one was
// lost, others may have taken the addresses meanwhile: this node gives up all of
// them, and asks for them again.
func (a *agent) renew() {
	used := map[string]bool{}
	for _, h := range a.held {
		for _, iface := range h.ifaces {
			used[iface] = true
		}
	}
	lost := a.tables.renew(used)
	if len(lost) == 0 {
		return
	}
	now := time.Now()
	a.settle(now, lost...)
	a.log.Warn("fences expired: this node stopped answering for a while", "interfaces", lost)
	for addr, h := range a.held {
		if slices.ContainsFunc(h.ifaces, func(iface string) bool { return slices.Contains(lost, iface) }) {
			a.falling = append(a.falling, addr)
		}
	}
	a.apply(now)
	a.allDirty = true
}

// keep renews the addresses' lifetimes.
func (a *agent) keep() {
	var mine []link.Address
	for addr, h := range a.held {
		for _, iface := range h.ifaces {
			if own := (link.Address{Interface: iface, Addr: addr}); !a.occupied(own) {
				mine = append(mine, own)
			}
		}
	}
	missing, err := a.kernel.Renew(mine)
	if err != nil {
		a.log.Error("lifetimes of addresses not renewed", "error", err)
	}
	a.restore(missing)
}

// restore puts addresses back that another program has taken off an interface:
// network managers do so when they tidy up.
func (a *agent) restore(missing []link.Address) {
	for _, m := range missing {
		a.log.Warn("another program removed the address; adding it again", "address", m.Addr, "interface", m.Interface)
		a.metrics.restored.Inc()
		if !slices.Contains(a.rising, m.Addr) {
			a.rising = append(a.rising, m.Addr)
		}
		a.announcer.Disown(m.Addr, m.Interface) // and announced again
	}
}

// occupied says whether an address of this node is on its interface without our mark:
// another program has added it. It is not ours to renew.
func (a *agent) occupied(own link.Address) bool {
	i := slices.IndexFunc(a.links, func(l link.Link) bool { return l.Name == own.Interface })
	return i >= 0 && a.links[i].Has(own.Addr)
}

// missing returns the addresses that should be on interfaces and are not.
func (a *agent) missing() (out []link.Address) {
	there := map[link.Address]bool{}
	for _, own := range a.kernel.Ours() {
		there[own] = true
	}
	for addr, h := range a.held {
		for _, iface := range h.ifaces {
			if own := (link.Address{Interface: iface, Addr: addr}); !there[own] && !a.occupied(own) {
				out = append(out, own)
			}
		}
	}
	return out
}
