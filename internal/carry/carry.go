package carry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
	"fairlead.io/internal/wire"
)

// Kernel is the node's interfaces, and our addresses on them: link.Links, or
// link.Fake in tests.
type Kernel interface {
	List() []link.Link
	Ours() []link.Address
	Add(iface string, addr netip.Addr) error
	Remove(iface string, addr netip.Addr) error
	Renew(all []link.Address) (missing []link.Address, err error)
	Changed() <-chan struct{}
	// Done is closed when interfaces cannot be followed any more, because of Err.
	Done() <-chan struct{}
	Err() error
}

// LAN is what is heard and said on one interface about the address.
type LAN interface {
	// Own announces the address, several times; Again starts over; Disown ends it.
	Own(addrs ...netip.Addr)
	Again(addrs ...netip.Addr)
	Disown(addrs ...netip.Addr)
	// Heard has the hosts that say that they have the address.
	Heard() <-chan wire.Sighting
	// Probe asks whether a host that is not ours has the address.
	Probe(ctx context.Context, addr netip.Addr, ours func(net.HardwareAddr) bool) (net.HardwareAddr, error)
	// Packets is how many packets for the address have arrived since Open.
	Packets() (uint64, error)
	Close()
}

// Options say what to carry.
type Options struct {
	Address netip.Addr
	// Interface is the one that carries it; "" is the node's primary one.
	Interface string
	Log       *slog.Logger
	Kernel    Kernel
	// Open opens an interface for the address, to announce it until ctx ends.
	Open func(ctx context.Context, iface string, addr netip.Addr) (LAN, error)
}

const (
	// renewPeriod is how often the lifetime of the address (60 s) is renewed.
	renewPeriod = link.Lifetime / 3
	// checkPeriod is how often packets are counted, and what failed is tried again.
	checkPeriod = time.Second
	// reportPeriod is how often the log says how many packets have arrived.
	reportPeriod = time.Minute
	// An address that this node yielded is probed again after yieldPause and a random
	// time up to yieldJitter: two that yield to each other do not come back at once.
	yieldPause, yieldJitter = 2 * time.Second, 4 * time.Second
)

// carrier is the state of Run.
type carrier struct {
	Options
	lan    LAN    // nil as long as there is no interface
	iface  string // that lan is for
	index  int
	up     bool // the link is
	mac    string
	placed bool // the address is there, and announced
	// occupied: it is there without our mark.
	occupied bool
	failure  string // what was logged last, so that it is logged once

	yielded bool // to another host
	retry   time.Time
	probing bool
	probed  chan net.HardwareAddr

	packets, before uint64 // of this interface, and of earlier ones
	said            uint64
	reported        time.Time
	silent          bool // it was said that nothing arrives
}

// Run carries the address until ctx ends.
func Run(ctx context.Context, o Options) error {
	o.Log = o.Log.With("address", o.Address.String())
	c := &carrier{Options: o, probed: make(chan net.HardwareAddr, 1), reported: time.Now()}
	defer c.end()
	check, renew := time.NewTicker(checkPeriod), time.NewTicker(renewPeriod)
	defer check.Stop()
	defer renew.Stop()
	c.look(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Kernel.Done():
			return c.Kernel.Err()
		case <-c.Kernel.Changed():
			c.look(ctx)
		case s, ok := <-c.heard():
			if ok {
				c.hear(s)
			} else { // the interface is gone
				c.close()
			}
		case mac := <-c.probed:
			c.answer(ctx, mac)
		case <-renew.C:
			c.renew(ctx)
		case <-check.C:
			c.look(ctx)
			c.probe(ctx)
			c.count(time.Now())
		}
	}
}

func (c *carrier) heard() <-chan wire.Sighting {
	if c.lan == nil {
		return nil
	}
	return c.lan.Heard()
}

// look brings interface and address in line with what is known now.
func (c *carrier) look(ctx context.Context) {
	links := c.Kernel.List()
	l := c.find(links)
	if l == nil {
		c.fail(fmt.Errorf("no interface for the address: %s", c.sought()))
		c.close()
		return
	}
	if c.lan != nil && (c.iface != l.Name || c.index != l.Index) {
		c.close()
	}
	if c.lan == nil {
		lan, err := c.Open(ctx, l.Name, c.Address)
		if err != nil {
			c.fail(err)
			return
		}
		c.lan, c.iface, c.index, c.up, c.mac = lan, l.Name, l.Index, l.Up, l.MAC.String()
	}
	if l.Up && (!c.up || c.mac != l.MAC.String()) && c.placed {
		c.lan.Again() // after the link was down, or has another MAC
	}
	c.up, c.mac = l.Up, l.MAC.String()
	if !c.yielded {
		c.place(l)
	}
}

// find returns the interface that is named; else that which has the address from this
// process; else the primary one.
func (c *carrier) find(links []link.Link) *link.Link {
	name := c.Interface
	if name == "" && c.lan != nil {
		name = c.iface
	}
	i := slices.IndexFunc(links, func(l link.Link) bool { return l.Name == name })
	if i < 0 && c.Interface == "" {
		name = link.Primary(lb.FamilyOf(c.Address), links)
		i = slices.IndexFunc(links, func(l link.Link) bool { return l.Name == name })
	}
	if i < 0 {
		return nil
	}
	return &links[i]
}

func (c *carrier) sought() string {
	if c.Interface != "" {
		return c.Interface + " does not exist"
	}
	return "none leads outside; name one with --interface"
}

// place puts the address on the interface, unless it is there.
func (c *carrier) place(l *link.Link) {
	there := slices.Contains(c.Kernel.Ours(), link.Address{Interface: l.Name, Addr: c.Address})
	occupied := l.Has(c.Address)
	if c.placed && (there || occupied && c.occupied) {
		return
	}
	if !there && !occupied {
		err := c.Kernel.Add(l.Name, c.Address)
		if occupied = errors.Is(err, link.ErrOccupied); err != nil && !occupied {
			c.fail(err)
			return
		}
	}
	again := c.placed
	c.placed, c.occupied, c.failure = true, occupied, ""
	switch {
	case occupied:
		c.Log.Warn("another program already added the address to the interface; serving it as it is", "interface", l.Name)
	case again:
		c.Log.Warn("another program removed the address; added it again", "interface", l.Name)
	default:
		c.Log.Info("carrying the address", "interface", l.Name)
	}
	c.lan.Own(c.Address)
	if again {
		c.lan.Again(c.Address)
	}
}

// fail logs what is wrong, once.
func (c *carrier) fail(err error) {
	if text := err.Error(); text != c.failure {
		c.failure = text
		c.Log.Error("address not carried", "error", text)
	}
}

// renew restarts the lifetime of the address.
func (c *carrier) renew(ctx context.Context) {
	if !c.placed || c.occupied {
		return
	}
	missing, err := c.Kernel.Renew([]link.Address{{Interface: c.iface, Addr: c.Address}})
	if err != nil {
		c.Log.Error("lifetime of the address not renewed", "interface", c.iface, "error", err)
	}
	if len(missing) > 0 {
		c.look(ctx)
	}
}

// lower takes the address off the interface.
func (c *carrier) lower() {
	if !c.placed {
		return
	}
	c.lan.Disown(c.Address)
	if c.occupied {
		c.Log.Warn("the address stays on the interface: another program added it", "interface", c.iface)
	} else if err := c.Kernel.Remove(c.iface, c.Address); err != nil {
		c.Log.Error("address not removed", "interface", c.iface, "error", err)
	}
	c.placed, c.occupied = false, false
}

// close leaves the interface.
func (c *carrier) close() {
	if c.lan == nil {
		return
	}
	c.lower()
	c.before, c.packets = c.before+c.packets, 0
	c.lan.Close()
	c.lan = nil
}

func (c *carrier) end() {
	if c.lan != nil {
		if n, err := c.lan.Packets(); err == nil {
			c.packets = n
		}
		c.Log.Info("stopping", "interface", c.iface, "packets", c.before+c.packets)
	}
	c.close()
	if c.probing {
		<-c.probed
	}
}

// count logs the first packet at once, and then the number once a minute if it has
// changed. If nothing has arrived after the first minute, it says so.
func (c *carrier) count(now time.Time) {
	if c.lan == nil {
		return
	}
	if n, err := c.lan.Packets(); err == nil {
		c.packets = n
	}
	total := c.before + c.packets
	due := now.Sub(c.reported) >= reportPeriod
	log := c.Log.With("interface", c.iface, "packets", total)
	switch {
	case total > 0 && c.said == 0:
		log.Info("the first packets for the address have arrived")
	case due && total != c.said:
		log.Info("packets for the address have arrived")
	case due && total == 0 && c.placed && !c.silent:
		c.silent = true
		log.Warn("no packet for the address has arrived yet: check that the cloud leads it to this server")
	default:
		return
	}
	c.said, c.reported = total, now
}
