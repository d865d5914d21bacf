package wire

import (
	"net"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"fairlead.io/internal/lb"
)

// Sighting says that another host uses or announces an address.
type Sighting struct {
	Addr netip.Addr
	MAC  net.HardwareAddr
	When time.Time
	// Asks: the host does not say that it has the address, but asks whether anybody
	// has (RFC 5227 §2.1.1, RFC 4862 §5.4.2). No host does so but on behalf of a
	// program that is about to use the address.
	Asks bool
}

// sightingGap is how soon the same is reported again. A host that fights for an
// address announces it many times a second; whoever listens decides once.
const sightingGap = 100 * time.Millisecond

// Watch replaces the addresses whose sightings Heard has.
func (p *Port) Watch(addrs []netip.Addr) {
	watched := sets.New(addrs...)
	p.watched.Store(&watched)
	p.mu.Lock()
	defer p.mu.Unlock()
	for addr := range p.reports {
		if !watched.Has(addr) {
			delete(p.reports, addr)
		}
	}
}

// Heard has the sightings of watched addresses at any MAC other than the own
// one of this port: members' too, and those of this node's other interfaces.
// Who does not listen misses some (Missed); the host that caused them is heard
// again.
func (p *Port) Heard() <-chan Sighting { return p.heard }

// Missed is how many sightings nobody took.
func (p *Port) Missed() uint64 { return p.missed.Load() }

// notice passes on what was heard to whom it concerns.
func (p *Port) notice(s sign) {
	watched := p.watched.Load().Has(s.addr)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !watched && p.probes[s.addr] == nil {
		return
	}
	if own, err := p.mac(lb.FamilyOf(s.addr)); err != nil || own == s.mac {
		return // an own frame that came back, through a bond or a loop
	}
	for _, probe := range p.probes[s.addr] {
		probe.notice(s)
	}
	if watched {
		p.report(Sighting{s.addr, s.mac.hardware(), time.Now(), s.asks})
	}
}

func (p *Port) report(s Sighting) {
	if last, ok := p.reports[s.Addr]; ok && s.When.Sub(last.When) < sightingGap && last.Asks == s.Asks && string(last.MAC) == string(s.MAC) {
		return
	}
	p.reports[s.Addr] = s
	select {
	case p.heard <- s:
	default:
		p.missed.Add(1)
	}
}
