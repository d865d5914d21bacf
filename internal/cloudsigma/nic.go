package cloudsigma

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
)

// Manual says whether the guest may use any subscribed address on this card, for
// the family of addr.
func (n *NIC) Manual(addr netip.Addr) bool {
	c := n.conf(addr)
	return n.VLAN == "" && c != nil && c.Conf == Manual
}

// Static says whether the card has this address as its static one.
func (n *NIC) Static(addr netip.Addr) bool {
	c := n.conf(addr)
	return c != nil && c.Conf == Static && c.Addr == addr
}

func (n *NIC) conf(addr netip.Addr) *IPConf {
	if addr.Is4() {
		return n.V4
	}
	return n.V6
}

type nicFields struct {
	MAC     *string     `json:"mac"`
	VLAN    *reference  `json:"vlan"`
	V4      *confFields `json:"ip_v4_conf"`
	V6      *confFields `json:"ip_v6_conf"`
	Runtime *struct {
		V4 *reference `json:"ip_v4"`
		V6 *reference `json:"ip_v6"`
	} `json:"runtime"`
}

type confFields struct {
	Conf string     `json:"conf"`
	IP   *reference `json:"ip"`
}

// reference is {"uuid": …} or the UUID alone.
type reference string

func (r *reference) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*r = reference(text)
		return nil
	}
	var object struct {
		UUID string `json:"uuid"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	*r = reference(object.UUID)
	return nil
}

// UnmarshalJSON reads a card, and keeps what it does not understand.
func (n *NIC) UnmarshalJSON(data []byte) error {
	var f nicFields
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("read card: %w", err)
	}
	*n = NIC{V4: f.V4.conf(), V6: f.V6.conf(), raw: append(json.RawMessage{}, data...)}
	if f.MAC != nil {
		n.MAC = strings.ToLower(*f.MAC)
	}
	if f.VLAN != nil {
		n.VLAN = string(*f.VLAN)
	}
	if f.Runtime != nil {
		for _, r := range []*reference{f.Runtime.V4, f.Runtime.V6} {
			if r == nil {
				continue
			}
			if addr, is := parseAddr(string(*r)); is {
				n.Runtime = append(n.Runtime, addr)
			}
		}
	}
	return nil
}

// MarshalJSON writes what was read, or what a new card is to be.
func (n NIC) MarshalJSON() ([]byte, error) { return n.raw, nil }

func (f *confFields) conf() *IPConf {
	if f == nil {
		return nil
	}
	c := &IPConf{Conf: f.Conf}
	if f.IP != nil {
		c.Addr, _ = parseAddr(string(*f.IP))
	}
	return c
}

// staticNIC is a new card with one address.
func staticNIC(addr netip.Addr) NIC {
	conf := &IPConf{Conf: Static, Addr: addr}
	n, field := NIC{V4: conf}, "ip_v4_conf"
	if addr.Is6() {
		n, field = NIC{V6: conf}, "ip_v6_conf"
	}
	n.raw, _ = json.Marshal(map[string]any{field: map[string]any{"conf": Static, "ip": Ref{UUID: addr.String()}}})
	return n
}
