package ovn

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// Taken is an address and port that a row of this cluster has.
type Taken struct {
	Service  string // namespace/name
	Protocol string
	VIP      netip.AddrPort
}

// Port of a Service, with a protocol of Protocols.
type Port struct {
	Protocol string
	Number   uint16
}

// TakenAt are the ports that rows of this cluster have at an address, in an order that
// only changes with them: some of the ports, or all if there are none.
func (d *DB) TakenAt(address netip.Addr, ports ...Port) ([]Taken, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return nil, d.unavailable()
	}
	var out []Taken
	add := func(id, text string) {
		l := d.replica.balancers[id]
		if vip, err := netip.ParseAddrPort(text); err == nil && vip.Addr().Unmap() == address {
			out = append(out, Taken{l.owner(d.cluster), l.protocol(), netip.AddrPortFrom(address, vip.Port())})
		}
	}
	if len(ports) == 0 {
		for id := range d.replica.byAddress[address.String()] {
			for text := range d.replica.balancers[id].VIPs {
				add(id, text)
			}
		}
	}
	for _, p := range ports {
		vip := netip.AddrPortFrom(address, p.Number).String()
		for id := range d.replica.byVIP[vip] {
			if l := d.replica.balancers[id]; l.protocol() == p.Protocol && l.owner(d.cluster) != "" {
				add(id, vip)
			}
		}
	}
	slices.SortFunc(out, func(a, b Taken) int { return strings.Compare(a.text(), b.text()) })
	return out, nil
}

// Serves is what the rows of a Service, by namespace/name, have: sorted by protocol and
// address.
func (d *DB) Serves(service string) ([]Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return nil, d.unavailable()
	}
	var out []Listener
	for id := range d.replica.byOwner[service] {
		row := d.replica.balancers[id]
		for text, backends := range row.VIPs {
			vip, err := netip.ParseAddrPort(text)
			if err != nil {
				continue
			}
			l := Listener{Protocol: row.protocol(), VIP: netip.AddrPortFrom(vip.Addr().Unmap(), vip.Port())}
			for b := range strings.SplitSeq(backends, ",") {
				if at, err := netip.ParseAddrPort(b); err == nil {
					l.Backends = append(l.Backends, at)
				}
			}
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b Listener) int { return cmp.Or(strings.Compare(a.Protocol, b.Protocol), a.VIP.Compare(b.VIP)) })
	return out, nil
}

// Reached are listeners without the backends that a router does not reach: rows do not have
// them either.
func (d *DB) Reached(router string, listeners []Listener) ([]Listener, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return nil, d.unavailable()
	}
	var seen Seen
	d.replica.observePlace(&Service{Router: router}, &seen)
	out := slices.Clone(listeners)
	for i := range out {
		out[i].Backends = slices.DeleteFunc(slices.Clone(out[i].Backends), func(b netip.AddrPort) bool { return !within(seen.Networks, b.Addr()) })
	}
	return out, nil
}

func (t *Taken) text() string { return t.VIP.String() + " " + t.Protocol + " " + t.Service }
