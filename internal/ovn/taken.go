package ovn

import "net/netip"

// Taken is an address and port that a row of this cluster has.
type Taken struct {
	Service  string // namespace/name
	Protocol string
	VIP      netip.AddrPort
}

// Taken are those of all rows of this cluster, in no order.
func (d *DB) Taken() ([]Taken, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.replica == nil {
		return nil, d.unavailable()
	}
	var out []Taken
	for service, ids := range d.replica.byOwner {
		for id := range ids {
			l := d.replica.balancers[id]
			for text := range l.VIPs {
				if vip, err := netip.ParseAddrPort(text); err == nil {
					out = append(out, Taken{service, l.protocol(), netip.AddrPortFrom(vip.Addr().Unmap(), vip.Port())})
				}
			}
		}
	}
	return out, nil
}
