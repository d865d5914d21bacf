package cloudscale

import (
	"net/netip"
	"slices"
)

// subnet finds a subnet, be it public.
func (s *Simulator) subnet(id string) *Subnet {
	if subnet := s.subnets.Get(id); subnet != nil {
		return subnet
	}
	return s.publicSubs.Get(id)
}

// zoneOf is empty for a subnet whose network is gone.
func (s *Simulator) zoneOf(subnet *Subnet) string {
	if n := s.networks.Get(subnet.Network); n != nil {
		return n.Zone
	}
	return ""
}

func (s *Simulator) inZoneOf(subnet *Subnet, lbID string) bool {
	lb := s.lbs.Get(lbID)
	return lb != nil && lb.Zone == s.zoneOf(subnet)
}

// usable reports whether an address can be a host's in a subnet.
func usable(subnet *Subnet, a netip.Addr) bool {
	return subnet.CIDR.Contains(a) && a != subnet.CIDR.Addr() && a != subnet.Gateway &&
		(a.Is6() || subnet.CIDR.Contains(a.Next()) || subnet.CIDR.Bits() >= 31)
}

// inUse reports whether a server or a load balancer has an address.
func (s *Simulator) inUse(subnet *Subnet, a netip.Addr) bool {
	for lb := range s.lbs.All() {
		for _, vip := range lb.VIPs {
			if vip.Subnet == subnet.UUID && vip.Address == a {
				return true
			}
		}
	}
	for server := range s.servers.All() {
		for _, nic := range server.Interfaces {
			for _, has := range nic.Addresses {
				if has.Subnet == subnet.UUID && has.Address == a {
					return true
				}
			}
		}
	}
	return false
}

// take finds an address of a subnet that nobody uses: the one after the last
// that was taken, so that an address is not given to somebody else at once.
func (s *Simulator) take(subnet *Subnet) (netip.Addr, bool) {
	a, known := s.lastTaken[subnet.CIDR]
	if !known {
		a = subnet.CIDR.Addr()
	}
	for range 1 << 16 {
		if a = a.Next(); !subnet.CIDR.Contains(a) {
			a = subnet.CIDR.Addr()
		}
		reserved := slices.ContainsFunc(s.options.Reserved, func(p netip.Prefix) bool { return p.Contains(a) })
		if usable(subnet, a) && !reserved && !s.inUse(subnet, a) {
			s.lastTaken[subnet.CIDR] = a
			return a, true
		}
	}
	return netip.Addr{}, false
}
