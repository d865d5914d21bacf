package nft

import (
	"cmp"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"fairlead.io/internal/conntrack"
)

var _ Carrier = (*FakeCarrier)(nil)

// FakeCarrier is a Carrier without a kernel, for tests. Its connections end by the clock. The
// zero FakeCarrier is empty. All methods may be called at the same time.
type FakeCarrier struct {
	// Fail, if set, is asked before each change: "prepare", "settle", "settled", "update" or
	// "remove".
	Fail func(verb string) error

	mu         sync.Mutex
	interfaces []CarryInterface
	nodes      []net.HardwareAddr
	carried    map[fakeCarried]fakeVia
	settling   map[netip.Addr]time.Time
	packets    uint64
	prepared   bool
	removed    bool
	most       int // if not 0, instead of CarryLimit
}

type fakeCarried struct {
	conntrack.Conn
	iface string
}

type fakeVia struct {
	netip.Addr
	until time.Time
}

// Reopen returns the tables as the next agent finds them.
func (f *FakeCarrier) Reopen() *FakeCarrier {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := &FakeCarrier{packets: f.packets, carried: map[fakeCarried]fakeVia{}, settling: map[netip.Addr]time.Time{}, prepared: f.prepared, interfaces: f.interfaces, nodes: f.nodes}
	for c, v := range f.carried {
		next.carried[c] = v
	}
	for a, until := range f.settling {
		next.settling[a] = until
	}
	return next
}

// Receive is a packet of a connection that comes in on an interface from a hardware address.
// It returns where it is sent on to, if it is.
func (f *FakeCarrier) Receive(iface string, from net.HardwareAddr, c conntrack.Conn) (netip.Addr, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	via, known := f.carried[fakeCarried{c, iface}]
	isNode := slices.ContainsFunc(f.nodes, func(m net.HardwareAddr) bool { return slices.Equal(m, from) })
	if !known || isNode || !time.Now().Before(via.until) || !f.serves(iface) {
		return netip.Addr{}, false
	}
	f.packets++
	return via.Addr, true
}

func (f *FakeCarrier) serves(iface string) bool {
	return slices.ContainsFunc(f.interfaces, func(i CarryInterface) bool { return i.Name == iface })
}

// Settling says whether packets to an address that nobody knows are dropped.
func (f *FakeCarrier) Settling(a netip.Addr) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.settling[a])
}

// Prepared is what Prepare was last called with.
func (f *FakeCarrier) Prepared() ([]CarryInterface, []net.HardwareAddr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.interfaces, f.nodes
}

// Removed says whether there is nothing, because Remove was called.
func (f *FakeCarrier) Removed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.removed
}

// SetMost sets how many connections are too many, instead of CarryLimit.
func (f *FakeCarrier) SetMost(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.most = n
}

// SetFail sets Fail.
func (f *FakeCarrier) SetFail(fail func(verb string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Fail = fail
}

// Tamper removes everything, as another program would.
func (f *FakeCarrier) Tamper() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clear()
}

func (f *FakeCarrier) clear() {
	f.carried, f.settling, f.prepared, f.interfaces, f.packets = nil, nil, false, nil, 0
}

// change calls do with the lock held, unless Fail has an error.
func (f *FakeCarrier) change(verb string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		if err := f.Fail(verb); err != nil {
			return err
		}
	}
	if f.carried == nil {
		f.carried, f.settling = map[fakeCarried]fakeVia{}, map[netip.Addr]time.Time{}
	}
	return do()
}

// Prepare is as Carrier.Prepare.
func (f *FakeCarrier) Prepare(interfaces []CarryInterface, nodes []net.HardwareAddr) (written bool, err error) {
	err = f.change("prepare", func() error {
		same := func(a, b CarryInterface) bool {
			return a.Name == b.Name && slices.Equal(a.MAC, b.MAC) && slices.Equal(a.Ports, b.Ports)
		}
		written = !f.prepared || !slices.EqualFunc(f.interfaces, interfaces, same) ||
			!slices.EqualFunc(f.nodes, nodes, func(a, b net.HardwareAddr) bool { return slices.Equal(a, b) })
		f.interfaces, f.nodes, f.prepared, f.removed = slices.Clone(interfaces), slices.Clone(nodes), true, false
		for c := range f.carried {
			if !f.serves(c.iface) {
				delete(f.carried, c)
			}
		}
		return nil
	})
	return written, err
}

// Settle is as Carrier.Settle.
func (f *FakeCarrier) Settle(address netip.Addr, d time.Duration) error {
	return f.change("settle", func() error {
		if !f.prepared {
			return ErrTampered
		}
		f.settling[address] = time.Now().Add(min(d, SettleTime))
		return checkCarried(address)
	})
}

// Settled is as Carrier.Settled.
func (f *FakeCarrier) Settled(address netip.Addr) error {
	return f.change("settled", func() error {
		if !f.prepared {
			return ErrTampered
		}
		delete(f.settling, address)
		return checkCarried(address)
	})
}

// Update is as Carrier.Update.
func (f *FakeCarrier) Update(add, remove []Carried) error {
	return f.change("update", func() error {
		_, _, out := encodeCarried(add, remove)
		switch {
		case len(add)+len(remove) == 0:
			return nil
		case !f.prepared:
			return ErrTampered
		}
		for _, c := range remove {
			delete(f.carried, fakeCarried{c.Conn, c.Interface})
		}
		until := time.Now().Add(CarryTime)
		for _, c := range add {
			k := fakeCarried{c.Conn, c.Interface}
			_, known := f.carried[k]
			switch {
			case slices.Contains(out.Carried, c):
			case !f.serves(c.Interface):
				out.add(errUnprepared(c.Interface), c)
			case !known && len(f.carried) >= cmp.Or(f.most, CarryLimit):
				out.add(ErrTooManyCarried, c)
			default:
				f.carried[k] = fakeVia{c.Via, until}
			}
		}
		return out.err()
	})
}

// Carried is as Carrier.Carried.
func (f *FakeCarrier) Carried() ([]Carried, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	var out []Carried
	for c, via := range f.carried {
		if now.Before(via.until) {
			out = append(out, Carried{Conn: c.Conn, Via: via.Addr, Interface: c.iface})
		}
	}
	return out, nil
}

// Leftover is as Carrier.Leftover.
func (f *FakeCarrier) Leftover() (nodes []net.HardwareAddr, there bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.prepared {
		return nil, false, nil
	}
	return slices.Clone(f.nodes), true, nil
}

// Packets is as Carrier.Packets.
func (f *FakeCarrier) Packets() (uint64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.packets, nil
}

// Remove is as Carrier.Remove.
func (f *FakeCarrier) Remove() error {
	return f.change("remove", func() error {
		f.clear()
		f.removed = true
		return nil
	})
}

// Close is as Carrier.Close.
func (f *FakeCarrier) Close() error { return nil }
