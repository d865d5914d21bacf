package nft

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"fairlead.io/internal/lb"
	"go4.org/netipx"
)

// Fake is a Table without a kernel, for tests: it has the same methods, and fences
// that expire by the clock. The zero Fake is empty. All methods may be called at
// the same time.
type Fake struct {
	// Fail, if set, is asked before each change: "update", "rebuild", "grant",
	// "renew", "revoke", "route" or "delete".
	Fail func(verb string) error

	mu       sync.Mutex
	vips     map[netip.Addr]VIP
	until    map[string]time.Time // fences
	leftover State
	standing []string
	tampered chan struct{}
	deleted  bool
	counts   map[Flow]Count
	routed   []netipx.IPRange
}

// Receive counts a packet for a port of an address, if it is counted.
func (f *Fake) Receive(a netip.Addr, p lb.Port) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if v := f.vips[a]; !v.Counted || !slices.Contains(v.Ports, p) {
		return
	}
	if f.counts == nil {
		f.counts = map[Flow]Count{}
	}
	n := f.counts[Flow{a, p}]
	f.counts[Flow{a, p}] = Count{n.Packets + 1, n.Bytes + 64}
}

// Counts is as Table.Counts.
func (f *Fake) Counts() (map[Flow]Count, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[Flow]Count{}
	for a, v := range f.vips {
		for _, p := range v.Ports {
			if v.Counted {
				out[Flow{a, p}] = f.counts[Flow{a, p}]
			}
		}
	}
	return out, nil
}

// Reopen returns the tables as the next agent finds them.
func (f *Fake) Reopen() *Fake {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := &Fake{vips: maps.Clone(f.vips), counts: maps.Clone(f.counts), until: map[string]time.Time{}, leftover: State{VIPs: maps.Clone(f.vips), Routed: f.routed}, routed: f.routed}
	for iface, until := range f.until {
		if time.Now().Before(until) {
			next.until[iface] = until
			next.standing = append(next.standing, iface)
		}
	}
	slices.Sort(next.standing)
	return next
}

// Answers says whether the kernel answers for an address on an interface now.
func (f *Fake) Answers(iface string, a netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.vips[a].Interfaces, iface) && time.Now().Before(f.until[iface])
}

// VIP returns what the tables say about an address, if anything.
func (f *Fake) VIP(a netip.Addr) (VIP, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.vips[a]
	return v, ok
}

// Route is as Table.Route.
func (f *Fake) Route(ranges []netipx.IPRange) error {
	return f.change("route", func() { f.routed = slices.Clone(ranges) })
}

// Routed is what routers lead here.
func (f *Fake) Routed() []netipx.IPRange {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.routed
}

// Deleted says whether Delete was called.
func (f *Fake) Deleted() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deleted
}

// Tamper empties the tables, as another program would.
func (f *Fake) Tamper() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.vips)
	f.signal()
}

func (f *Fake) signal() {
	select {
	case f.channel() <- struct{}{}:
	default:
	}
}

func (f *Fake) channel() chan struct{} {
	if f.tampered == nil {
		f.tampered = make(chan struct{}, 1)
	}
	return f.tampered
}

// change calls do with the lock held, unless Fail has an error.
func (f *Fake) change(verb string, do func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		if err := f.Fail(verb); err != nil {
			return err
		}
	}
	if f.vips == nil {
		f.vips = map[netip.Addr]VIP{}
	}
	if f.until == nil {
		f.until = map[string]time.Time{}
	}
	do()
	return nil
}

// Leftover is as Table.Leftover.
func (f *Fake) Leftover() (State, []string) { return f.leftover, f.standing }

// Update is as Table.Update.
func (f *Fake) Update(changes map[netip.Addr]*VIP) error {
	return f.change("update", func() {
		for a, v := range changes {
			delete(f.vips, a)
			if v != nil {
				f.vips[a], _ = v.normal()
			}
		}
	})
}

// Rebuild is as Table.Rebuild.
func (f *Fake) Rebuild(s State, fences []string) error {
	return f.change("rebuild", func() {
		now, until := time.Now(), map[string]time.Time{}
		for _, iface := range fences {
			if now.Before(f.until[iface]) {
				until[iface] = now.Add(FenceTime)
			}
		}
		f.vips, f.until, f.routed = maps.Clone(s.VIPs), until, slices.Clone(s.Routed)
	})
}

// Grant is as Table.Grant.
func (f *Fake) Grant(iface string) error {
	return f.change("grant", func() { f.until[iface] = time.Now().Add(FenceTime) })
}

// Renew is as Table.Renew.
func (f *Fake) Renew(ifaces []string) (lost []string, err error) {
	err = f.change("renew", func() {
		now := time.Now()
		for _, iface := range ifaces {
			if now.Before(f.until[iface]) {
				f.until[iface] = now.Add(FenceTime)
			} else {
				delete(f.until, iface)
				lost = append(lost, iface)
			}
		}
	})
	return lost, err
}

// Revoke is as Table.Revoke.
func (f *Fake) Revoke(iface string) error {
	return f.change("revoke", func() { delete(f.until, iface) })
}

// Tampered is as Table.Tampered.
func (f *Fake) Tampered() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.channel()
}

// Delete is as Table.Delete.
func (f *Fake) Delete() error {
	return f.change("delete", func() {
		clear(f.vips)
		clear(f.until)
		f.deleted = true
	})
}

// Close is as Table.Close.
func (f *Fake) Close() error { return nil }
