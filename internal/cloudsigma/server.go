package cloudsigma

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// States of servers. There are others, which pass.
const (
	Running = "running"
	Stopped = "stopped"
	Paused  = "paused" // after an illegal operation: as good as dead
)

// readOnly are the fields of a server that are not sent back.
var readOnly = []string{"resource_uri", "runtime", "status", "uuid", "owner", "permissions", "mounted_on", "grantees"}

// Server is a virtual machine. It keeps all that the cloud has said of it, also
// what has no field here. Only its cards can be changed, by Attach and Detach.
type Server struct {
	UUID   string
	Name   string
	Status string
	CPU    int   // MHz, all cores together
	SMP    int   // cores
	Mem    int64 // bytes
	NICs   []NIC
	// Owner is the UUID of the account.
	Owner string

	raw rawFields
}

// rawFields are not printed: one of them is a password.
type rawFields map[string]json.RawMessage

func (rawFields) String() string   { return "…" }
func (rawFields) GoString() string { return "…" }

// NIC is a network card of a server.
type NIC struct {
	MAC string
	// VLAN is the UUID of the private network that the card is in. A card without one
	// is public.
	VLAN string
	// V4 and V6 say how a public card gets its addresses; nil: not at all.
	V4, V6 *IPConf
	// Runtime are the addresses that it has now, if the server runs.
	Runtime []netip.Addr

	raw json.RawMessage
}

// IPConf is how a card gets addresses of one family.
type IPConf struct {
	Conf string
	// Addr is the address of a static card.
	Addr netip.Addr
}

// Values of IPConf's Conf.
const (
	DHCP   = "dhcp"   // whatever the cloud gives
	Static = "static" // one address of the account, on this card only
	Manual = "manual" // any subscribed address of the account, set in the guest
)

type serverFields struct {
	UUID   string          `json:"uuid"`
	Name   string          `json:"name"`
	Status string          `json:"status"`
	CPU    float64         `json:"cpu"`
	SMP    float64         `json:"smp"`
	Mem    float64         `json:"mem"`
	NICs   json.RawMessage `json:"nics"`
	Owner  *Ref            `json:"owner"`
}

// UnmarshalJSON reads a server, and keeps what it does not understand.
func (s *Server) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return fmt.Errorf("read server: %w", err)
	}
	var f serverFields
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("read server: %w", err)
	}
	*s = Server{UUID: sameID(f.UUID), Name: f.Name, Status: f.Status, CPU: int(f.CPU), SMP: int(f.SMP), Mem: int64(f.Mem), raw: raw}
	if f.Owner != nil {
		s.Owner = f.Owner.UUID
	}
	if len(f.NICs) > 0 {
		if err := json.Unmarshal(f.NICs, &s.NICs); err != nil {
			return fmt.Errorf("read cards of server %s: %w", f.UUID, err)
		}
	}
	return nil
}

// definition is what a PUT sends: everything that was read but the read-only
// fields, and the cards in their order.
func (s *Server) definition() map[string]any {
	out := make(map[string]any, len(s.raw))
	for name, value := range s.raw {
		if !slices.Contains(readOnly, name) {
			out[name] = value
		}
	}
	cards := make([]json.RawMessage, len(s.NICs))
	for i := range s.NICs {
		cards[i] = s.NICs[i].raw
	}
	out["nics"] = cards
	return out
}

// MarshalJSON writes what was read, with the cards as they are now.
func (s *Server) MarshalJSON() ([]byte, error) {
	out := s.definition()
	for name, value := range s.raw {
		if slices.Contains(readOnly, name) {
			out[name] = value
		}
	}
	return json.Marshal(out)
}

// String is short, and has none of the secrets that a server has.
func (s *Server) String() string { return fmt.Sprintf("server %s (%s)", s.Name, s.UUID) }

// GoString is as String.
func (s *Server) GoString() string { return s.String() }

// password is that of the server's console.
func (s *Server) password() string {
	var text string
	_ = json.Unmarshal(s.raw["vnc_password"], &text)
	return text
}

// clone is a server whose cards can be changed apart.
func (s *Server) clone() *Server {
	c := *s
	c.NICs, c.raw = slices.Clone(s.NICs), maps.Clone(s.raw)
	return &c
}

// sameCards says whether both have the same cards in the same order.
func sameCards(a, b *Server) bool {
	return slices.EqualFunc(a.NICs, b.NICs, func(x, y NIC) bool { return string(x.raw) == string(y.raw) })
}

// PublicNIC is the first card that is in no VLAN, or nil.
func (s *Server) PublicNIC() *NIC {
	for i := range s.NICs {
		if s.NICs[i].VLAN == "" {
			return &s.NICs[i]
		}
	}
	return nil
}

// Attached says whether a card has this address as its static one.
func (s *Server) Attached(addr netip.Addr) bool {
	return slices.ContainsFunc(s.NICs, func(n NIC) bool { return n.Static(addr) })
}

// Attach adds a card with a static address after all others, unless one has it.
func (s *Server) Attach(addr netip.Addr) {
	if !s.Attached(addr) {
		s.NICs = append(s.NICs, staticNIC(addr))
	}
}

// Detach removes the cards that have this address as their static one, but never the
// first card: Attach adds cards after it, and the server needs it for itself.
func (s *Server) Detach(addr netip.Addr) {
	if len(s.NICs) > 0 {
		added := slices.DeleteFunc(slices.Clone(s.NICs[1:]), func(n NIC) bool { return n.Static(addr) })
		s.NICs = append(slices.Clone(s.NICs[:1]), added...)
	}
}
