package cloudsigma

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// NIC is a network card of a server.
type NIC struct {
	MAC  string
	VLAN string // empty: it is public
	// V4 and V6 are how a public card gets addresses.
	V4, V6 Conf
	// Plugged says that the guest has the card: it has had it since it was started.
	Plugged bool

	fields fields // what else was sent
}

// Conf is how a card gets addresses of one family.
type Conf struct {
	// Mode is dhcp, static, manual, or empty: not at all.
	Mode string
	// IP is the address of a static card, or the one that DHCP gave.
	IP netip.Addr
}

const (
	dhcp   = "dhcp"
	static = "static"
	manual = "manual"
)

// families are the two halves of a card.
var families = []struct {
	field, runtime string
	is4            bool
	of             func(*NIC) *Conf
}{
	{"ip_v4_conf", "ip_v4", true, func(n *NIC) *Conf { return &n.V4 }},
	{"ip_v6_conf", "ip_v6", false, func(n *NIC) *Conf { return &n.V6 }},
}

// statics are the addresses that a card has for itself.
func (n *NIC) statics() []netip.Addr {
	var all []netip.Addr
	for _, family := range families {
		if c := family.of(n); c.Mode == static {
			all = append(all, c.IP)
		}
	}
	return all
}

// readNICs checks the cards that are to replace those of a server. A card with the
// MAC of one that is there is that card; one without a MAC is new.
func (s *Simulator) readNICs(owner string, server *Server, raw json.RawMessage) ([]NIC, error) {
	var list []fields
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, invalid("nics", "A list of objects is expected")
		}
	}
	var cards []NIC
	for i, f := range list {
		if f == nil {
			return nil, invalid("nics", "Card %d is no object", i)
		}
		card, err := s.readNIC(owner, server, f)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(cards, func(other NIC) bool { return other.MAC == card.MAC }) {
			return nil, invalid("nics", "MAC %s is given twice", card.MAC)
		}
		for _, addr := range card.statics() {
			if slices.ContainsFunc(cards, func(other NIC) bool { return slices.Contains(other.statics(), addr) }) {
				return nil, invalid("nics", "IP %s is given twice", addr)
			}
		}
		cards = append(cards, card)
	}
	return cards, nil
}

func (s *Simulator) readNIC(owner string, server *Server, f fields) (NIC, error) {
	mac, err := f.text("mac")
	if err != nil {
		return NIC{}, err
	}
	card := NIC{MAC: strings.ToLower(mac), fields: f.without("mac", "vlan", "ip_v4_conf", "ip_v6_conf", "runtime")}
	if card.MAC == "" {
		card.MAC = s.newMAC()
	} else if at := slices.IndexFunc(server.NICs, func(n NIC) bool { return n.MAC == card.MAC }); at < 0 {
		return NIC{}, invalid("mac", "MAC %s does not belong to the server", mac)
	} else {
		card.Plugged, card.V4.IP, card.V6.IP = server.NICs[at].Plugged, given(server.NICs[at].V4), given(server.NICs[at].V6)
	}
	public := !f.null("ip_v4_conf") || !f.null("ip_v6_conf")
	switch {
	case !f.null("vlan") && public:
		return NIC{}, invalid("vlan", "A card has either a VLAN or an IP configuration")
	case f.null("vlan") && !public:
		return NIC{}, invalid("nics", "A card needs a VLAN or an IP configuration")
	case !f.null("vlan"):
		id, _, ok := reference(f["vlan"])
		vlan := s.vlans.Get(id)
		if !ok || vlan == nil || vlan.Owner != owner {
			return NIC{}, invalid("vlan", "VLAN %q does not exist", id)
		}
		card.VLAN = id
		return card, nil
	}
	for _, family := range families {
		conf := family.of(&card)
		if f.null(family.field) {
			*conf = Conf{}
			continue
		}
		if *conf, err = s.readConf(owner, server, f[family.field], family.field, family.is4, conf.IP); err != nil {
			return NIC{}, err
		}
	}
	return card, nil
}

// given is the address that a card has by DHCP.
func given(c Conf) netip.Addr {
	if c.Mode == dhcp {
		return c.IP
	}
	return netip.Addr{}
}

// readConf checks one half of a card; lease is the address that it has by DHCP.
func (s *Simulator) readConf(owner string, server *Server, raw json.RawMessage, field string, is4 bool, lease netip.Addr) (Conf, error) {
	f, err := readFields(raw)
	if err != nil {
		return Conf{}, invalid(field, "An object is expected")
	}
	mode, err := f.text("conf")
	if err != nil {
		return Conf{}, err
	}
	switch {
	case (mode == dhcp || mode == manual) && !f.null("ip"):
		return Conf{}, invalid(field, "IP must not be given with conf %s", mode)
	case mode == dhcp:
		return Conf{mode, lease}, nil
	case mode == manual:
		return Conf{Mode: mode}, nil
	case mode != static:
		return Conf{}, invalid(field, "Conf %q is none of dhcp, static, manual", mode)
	case f.null("ip"):
		return Conf{}, invalid(field, "IP is required with conf static")
	}
	id, _, _ := reference(f["ip"])
	addr, ok := parseAddr(id)
	if !ok || addr.Is4() != is4 {
		return Conf{}, invalid(field, "IP %q is not an address", id)
	}
	ip := s.ips.Get(addr.String())
	switch {
	case ip != nil && ip.Owner != owner:
		return Conf{}, invalid(field, "IP %s is not owned by the user", addr)
	case (ip == nil || ip.Subscription == "") && !server.has(addr) && s.knobs.Unowned == "refuse":
		return Conf{}, invalid(field, "IP %s is not subscribed", addr)
	}
	for other := range s.servers.All() {
		if other.UUID != server.UUID && other.has(addr) {
			return Conf{}, invalid(field, "IP %s is attached to server %s", addr, other.UUID)
		}
	}
	if ip == nil {
		s.ips.Add(addr.String(), &IP{Address: addr, Owner: owner})
	}
	return Conf{static, addr}, nil
}

// has says whether a server has an address by a static card or DHCP.
func (server *Server) has(addr netip.Addr) bool {
	for i := range server.NICs {
		for _, family := range families {
			if c := family.of(&server.NICs[i]); c.IP == addr && c.Mode != manual {
				return true
			}
		}
	}
	return false
}

// newMAC is a random one that begins as all of the cloud's do.
func (s *Simulator) newMAC() string {
	n := s.random.Uint64()
	return fmt.Sprintf("22:%02x:%02x:%02x:%02x:%02x", byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32))
}

// nicView is what the API says of a card. It has a runtime while the guest has it.
func (n *NIC) view(up bool) map[string]any {
	v := map[string]any{"mac": n.MAC, "vlan": nil, "ip_v4_conf": nil, "ip_v6_conf": nil, "boot_order": nil, "model": "virtio", "firewall_policy": nil, "runtime": nil}
	for name, value := range n.fields {
		v[name] = value
	}
	runtime := map[string]any{"interface_type": "public", "io": map[string]int{"bytes_recv": 0, "bytes_sent": 0}, "ip_v4": nil, "ip_v6": nil}
	if n.VLAN != "" {
		v["vlan"] = map[string]string{"uuid": n.VLAN, "resource_uri": apiPrefix + "vlans/" + n.VLAN + "/"}
		runtime["interface_type"] = "private"
	}
	for _, family := range families {
		c := family.of(n)
		if c.Mode == "" {
			continue
		}
		conf := map[string]any{"conf": c.Mode, "ip": nil}
		if c.Mode == static {
			conf["ip"] = ipRef(c.IP)
		}
		v[family.field] = conf
		if c.Mode != manual && c.IP.IsValid() {
			runtime[family.runtime] = ipRef(c.IP)
		}
	}
	if up && n.Plugged {
		v["runtime"] = runtime
	}
	return v
}
