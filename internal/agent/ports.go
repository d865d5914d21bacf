package agent

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"fairlead.io/internal/nft"
	"fairlead.io/internal/wire"
)

// outlet is an interface as the wire sees it.
type outlet struct {
	port      *wire.Port
	announcer *wire.Announcer
	index     int
	mac       string
	up        bool
	stop      func()
	// leased is until when the interface's lease lasts, by the monotonic clock: no
	// frame of ours leaves after that.
	leased atomic.Pointer[time.Time]
}

// openPorts follows the interfaces: a new one, or one that was replaced under
// its name, is opened; after a link was down or got another MAC, everything is
// announced on it again.
func (a *agent) openPorts() {
	seen := map[string]bool{}
	for i := range a.links {
		l := &a.links[i]
		if l.Loopback || l.Slave || len(l.MAC) != 6 || !a.scope.has(l.Name) {
			continue
		}
		seen[l.Name] = true
		have := a.outlets[l.Name]
		if have != nil && have.index != l.Index {
			a.closeOutlet(l.Name)
			have = nil
		}
		if have == nil {
			a.openOutlet(l.Name, l.Index)
			have = a.outlets[l.Name]
		} else if l.Up && (!have.up || have.mac != l.MAC.String()) {
			have.announcer.Again()
		}
		if have != nil {
			have.up, have.mac = l.Up, l.MAC.String()
		}
	}
	for name := range a.outlets {
		if !seen[name] {
			a.closeOutlet(name)
		}
	}
}

func (a *agent) openOutlet(name string, index int) {
	p, err := wire.Open(name)
	if err != nil {
		a.log.Warn("interface not opened", "interface", name, "error", err)
		return
	}
	ctx, cancel := context.WithCancel(a.background)
	o := &outlet{port: p, index: index}
	send := func(addr netip.Addr, form wire.Form) error {
		a.frames.Add(1)
		a.metrics.classic.gratuitous.WithLabelValues(addr.String()).Inc()
		return p.Send(addr, form)
	}
	o.announcer = wire.NewAnnouncer(send, wire.Pace{Refresh: a.refresh,
		Allowed: func() bool {
			until := o.leased.Load()
			return until != nil && time.Now().Before(*until)
		}})
	a.running.Go(func() { o.announcer.Run(ctx) })
	a.running.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s, ok := <-p.Heard():
				if !ok {
					return
				}
				select {
				case a.sightings <- sighting{s.Addr, s.MAC, name}:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	o.stop = func() {
		cancel()
		_ = p.Close()
	}
	a.outlets[name] = o
}

func (a *agent) closeOutlet(name string) {
	a.outlets[name].stop()
	delete(a.outlets, name)
}

// announce tells the LAN that addr is here.
func (a *agent) announce(addr netip.Addr, h *holding) {
	for _, place := range h.places {
		if o := a.outlets[place]; o != nil {
			o.announcer.Own(addr)
			a.watch(place)
		}
	}
}

// silence ends the announcements of addr on an interface.
func (a *agent) silence(place string, addr netip.Addr) {
	if o := a.outlets[place]; o != nil {
		o.announcer.Disown(addr)
		a.watch(place)
	}
}

// watch notes that the addresses to watch on an interface have changed.
func (a *agent) watch(place string) { a.watchDirty[place] = true }

// watchAll sets, for each interface where that changed, whose sightings count.
func (a *agent) watchAll() {
	for place := range a.watchDirty {
		if o := a.outlets[place]; o != nil {
			var here []netip.Addr
			for addr, h := range a.held {
				if slices.Contains(h.places, place) {
					here = append(here, addr)
				}
			}
			o.port.Watch(here)
		}
	}
	clear(a.watchDirty)
}

// extend says that an interface's lease was renewed at that time.
func (a *agent) extend(place string, at time.Time) {
	if o := a.outlets[place]; o != nil {
		until := at.Add(nft.FenceTime)
		o.leased.Store(&until)
	}
}

// defend answers a stranger once in a while; false means that it is not time.
func (a *agent) defend(addr netip.Addr, place string) bool {
	o := a.outlets[place]
	return o != nil && o.announcer.Defend(addr)
}

// probe asks on all interfaces on which addr would be whether somebody has it.
func (a *agent) probe(addr netip.Addr) {
	type port struct {
		name string
		port *wire.Port
	}
	var ports []port
	for _, place := range a.placesOf(addr) {
		if o := a.outlets[place]; o != nil {
			ports = append(ports, port{place, o.port})
		}
	}
	members := a.members // replaced as a whole
	ours := func(mac net.HardwareAddr) bool { return isMember(members, mac) }
	a.running.Go(func() {
		result := probeResult{addr: addr}
		for _, p := range ports {
			rival, err := p.port.Probe(a.background, addr, ours)
			if err != nil {
				a.log.Warn("address not probed", "address", addr, "interface", p.name, "error", err)
			}
			if rival != nil {
				result.rival, result.place = rival, p.name
				break
			}
		}
		select {
		case a.probes <- result:
		case <-a.background.Done():
		}
	})
}
