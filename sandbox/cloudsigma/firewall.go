package cloudsigma

import (
	"net/netip"
	"slices"
	"time"
)

// Passes says whether a frame to or from an address passes a firewall that has
// these cards. subscribed says whether the owner of the server has a subscription
// for the address.
func Passes(cards []NIC, addr netip.Addr, subscribed bool) bool {
	return slices.ContainsFunc(cards, func(n NIC) bool {
		for _, family := range families {
			if family.is4 != addr.Is4() {
				continue
			}
			switch c := family.of(&n); c.Mode {
			case static, dhcp:
				return c.IP == addr
			case manual:
				return subscribed
			}
		}
		return false
	})
}

// Passes says whether a frame to or from an address passes the firewall of a server
// now. Nothing passes that of a server that does not run, nor does an address that
// is not routed.
func (s *Simulator) Passes(server string, addr netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.servers.Get(server)
	return v != nil && s.passes(v, addr, s.Now())
}

func (s *Simulator) passes(server *Server, addr netip.Addr, now time.Time) bool {
	ip := s.ips.Get(addr.String())
	subscribed := ip != nil && ip.Subscription != "" && ip.Owner == server.Owner
	cards := server.NICs
	if now.Before(server.firewallFrom) {
		cards = server.firewall
	}
	return server.Status == running && !s.unrouted[addr] && Passes(cards, addr, subscribed)
}

// Port is what passes the firewall of one server.
type Port struct {
	Server string       `json:"server"` // its name
	Passes []netip.Addr `json:"passes"`
}

// Ports is what passes the firewalls of all servers, and the addresses that
// firewalls are about: frames of others always pass. From then on something else
// may pass; zero: nothing is due.
func (s *Simulator) Ports() (ports []Port, about []netip.Addr, again time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	for ip := range s.ips.All() {
		about = append(about, ip.Address)
	}
	for server := range s.servers.All() {
		port := Port{Server: server.Name}
		for _, addr := range about {
			if s.passes(server, addr, now) {
				port.Passes = append(port.Passes, addr)
			}
		}
		ports = append(ports, port)
		if now.Before(server.firewallFrom) && (again.IsZero() || server.firewallFrom.Before(again)) {
			again = server.firewallFrom
		}
	}
	return ports, about, again
}
