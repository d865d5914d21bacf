package cloudsigma

import (
	"fmt"
	"net/netip"

	"fairlead.io/sandbox/simulator"
)

// seedFile is what there is at first.
type seedFile struct {
	Servers    []NewServer  `json:"servers"`
	Subscribed []netip.Addr `json:"subscribed"`
}

// Seed adds what a file has.
func (s *Simulator) Seed(raw []byte) error { return s.seed(raw, dhcp) }

// seed does so; mode is that of public cards that have none.
func (s *Simulator) seed(raw []byte, mode string) error {
	var file seedFile
	if err := simulator.Strict(raw, &file); err != nil {
		return fmt.Errorf("read seed: %w", err)
	}
	for _, addr := range file.Subscribed {
		if !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() {
			return fmt.Errorf("read seed: %q is not an address", addr)
		}
		s.Subscribe(addr)
	}
	for _, n := range file.Servers {
		for i := range n.NICs {
			if n.NICs[i].Mode == "" && n.NICs[i].VLAN == "" {
				n.NICs[i].Mode = mode
			}
		}
		if _, err := s.AddServer(n); err != nil {
			return fmt.Errorf("read seed: %w", err)
		}
	}
	return nil
}
