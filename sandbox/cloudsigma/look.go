package cloudsigma

import (
	"net/netip"
	"slices"

	"fairlead.io/sandbox/simulator"
)

// Server returns a server as it is, or false.
func (s *Simulator) Server(id string) (Server, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server := s.servers.Get(id); server != nil {
		return *server, true
	}
	return Server{}, false
}

// Servers returns all servers, also those of other accounts.
func (s *Simulator) Servers() []Server { return all(s, &s.servers) }

// IPs returns all addresses.
func (s *Simulator) IPs() []IP { return all(s, &s.ips) }

// Tags returns all tags.
func (s *Simulator) Tags() []Tag { return all(s, &s.tags) }

func all[T any](s *Simulator, t *simulator.Table[T]) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []T
	for one := range t.All() {
		out = append(out, *one)
	}
	return out
}

// Tagged returns the resources of all tags of a name, sorted.
func (s *Simulator) Tagged(name string) []string {
	var out []string
	for _, tag := range s.Tags() {
		if tag.Name == name {
			out = append(out, tag.Resources...)
		}
	}
	slices.Sort(out)
	return out
}

// Statics are the addresses that a server has by static cards, in their order.
func (server Server) Statics() []netip.Addr {
	var out []netip.Addr
	for i := range server.NICs {
		out = append(out, server.NICs[i].statics()...)
	}
	return out
}

// Field is one of those that are stored as they were sent.
func (server Server) Field(name string) string { return string(server.fields[name]) }
