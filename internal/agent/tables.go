package agent

import (
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"time"

	"go4.org/netipx"

	"fairlead.io/internal/nft"
)

// tables keeps our nftables tables in line with what is wanted. What fails is tried
// again with the next retry.
type tables struct {
	nft     Tables
	log     *slog.Logger
	state   nft.State               // what is wanted
	changes map[netip.Addr]*nft.VIP // since the last write; nil is gone
	fences  map[string]bool         // interfaces whose fence was granted, and not lost since
	stands  map[string]time.Time    // until when they do, at least
	failed  bool                    // the kernel does not have what is wanted
	// renewed is called with each fence that was renewed, and when.
	renewed func(iface string, at time.Time)
}

func newTables(t Tables, log *slog.Logger, renewed func(string, time.Time)) *tables {
	return &tables{nft: t, log: log, renewed: renewed, state: nft.State{VIPs: map[netip.Addr]nft.VIP{}},
		changes: map[netip.Addr]*nft.VIP{}, fences: map[string]bool{}, stands: map[string]time.Time{}}
}

// inherit takes over what an earlier agent has left. Only fences that still stand
// are renewed.
func (t *tables) inherit(now time.Time) {
	left, fences := t.nft.Leftover()
	if left.VIPs != nil {
		t.state = left
	}
	lost, err := t.nft.Renew(fences)
	if err != nil {
		return
	}
	for _, iface := range fences {
		if !slices.Contains(lost, iface) {
			t.stand(iface, now)
		}
	}
}

// set notes what the tables are to say about addr.
func (t *tables) set(addr netip.Addr, v nft.VIP) {
	t.state.VIPs[addr] = v
	t.changes[addr] = &v
}

// refresh is set, if that is new.
func (t *tables) refresh(addr netip.Addr, v nft.VIP) {
	have, known := t.state.VIPs[addr]
	if !known || have.Unclaimed != v.Unclaimed || have.Counted != v.Counted || !slices.Equal(have.Ports, v.Ports) || !slices.Equal(have.Interfaces, v.Interfaces) {
		t.set(addr, v)
	}
}

// remove notes that no Service has addr.
func (t *tables) remove(addr netip.Addr) {
	delete(t.state.VIPs, addr)
	t.changes[addr] = nil
}

// write writes what was noted.
func (t *tables) write() {
	if len(t.changes) == 0 {
		return
	}
	switch err := t.nft.Update(t.changes); {
	case errors.Is(err, nft.ErrTampered):
		t.rebuild("another program changed our nftables tables; writing them again")
	case err != nil:
		t.log.Error("nftables not changed", "error", err)
		t.failed = true
	}
	clear(t.changes)
}

// route has packets to these addresses not sent back that nobody has translated.
func (t *tables) route(ranges []netipx.IPRange) {
	if slices.Equal(ranges, t.state.Routed) && !t.failed {
		return
	}
	t.state.Routed = ranges
	switch err := t.nft.Route(ranges); {
	case errors.Is(err, nft.ErrTampered):
		t.rebuild("another program changed our nftables tables; writing them again")
	case err != nil:
		t.log.Error("nftables not changed", "error", err)
		t.failed = true
	}
}

// rebuild writes everything again.
func (t *tables) rebuild(why string) {
	t.log.Warn(why)
	err := t.nft.Rebuild(t.state, slices.Collect(maps.Keys(t.fences)))
	if t.failed = err != nil; err != nil {
		t.log.Error("nftables tables not rebuilt", "error", err)
	}
}

// retry writes again what failed.
func (t *tables) retry() {
	if t.failed {
		t.rebuild("trying again to write our nftables tables")
	}
}

// grant grants the fence of an interface that has none.
func (t *tables) grant(iface string, now time.Time) {
	if t.fences[iface] {
		return
	}
	if err := t.nft.Grant(iface); err != nil {
		t.log.Error("fence not granted", "interface", iface, "error", err)
		return
	}
	t.stand(iface, now)
}

// stand notes that a fence was granted or renewed.
func (t *tables) stand(iface string, at time.Time) {
	t.fences[iface], t.stands[iface] = true, at.Add(nft.FenceTime)
	t.renewed(iface, at)
}

// renew renews the fences of interfaces that are used, and revokes the others. It
// returns those that have expired: the process was stopped, or the machine asleep, or
// the kernel did not renew them for as long as they stand.
func (t *tables) renew(used map[string]bool) (lost []string) {
	var names []string
	for iface := range t.fences {
		if used[iface] {
			names = append(names, iface)
			continue
		}
		delete(t.fences, iface)
		if err := t.nft.Revoke(iface); err != nil {
			t.log.Error("fence not revoked", "interface", iface, "error", err)
		}
	}
	if len(names) == 0 {
		return nil
	}
	now := time.Now()
	lost, err := t.nft.Renew(names)
	if err != nil {
		t.log.Error("fences not renewed", "error", err)
	}
	for _, iface := range names {
		failed := err
		if err != nil && len(names) > 1 && !slices.Contains(lost, iface) { // one may fail because of another
			var one []string
			one, failed = t.nft.Renew([]string{iface})
			lost = append(lost, one...)
		}
		if failed != nil && !slices.Contains(lost, iface) && !now.Before(t.stands[iface]) {
			lost = append(lost, iface)
		}
		switch {
		case slices.Contains(lost, iface):
			delete(t.fences, iface)
		case failed == nil:
			t.stand(iface, now)
		}
	}
	return lost
}
