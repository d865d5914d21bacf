package cloudsigma

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// NewServer is a server to begin with. It runs.
type NewServer struct {
	UUID  string   `json:"uuid,omitempty"` // default: a new one
	Name  string   `json:"name"`
	Owner string   `json:"owner,omitempty"` // UUID; default: the user
	NICs  []NewNIC `json:"nics"`
}

// NewNIC is a card of it.
type NewNIC struct {
	// VLAN is a UUID; it is made if there is none. All others are of public cards.
	VLAN string `json:"vlan,omitempty"`
	Mode string `json:"mode,omitempty"` // dhcp, static, manual
	// Addr4 and Addr6 are addresses, or * for any: of a family without one the card
	// has nothing. One of a static or manual card is subscribed.
	Addr4 string `json:"ip_v4,omitempty"`
	Addr6 string `json:"ip_v6,omitempty"`
}

// AddServer adds a server that runs.
func (s *Simulator) AddServer(n NewServer) (Server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := &Server{UUID: strings.ToLower(n.UUID), Name: n.Name, Owner: n.Owner, Status: running, fields: exampleFields()}
	if server.UUID == "" {
		server.UUID = s.uuid()
	}
	if server.Owner == "" {
		server.Owner = s.user.UUID
	}
	if s.servers.Get(server.UUID) != nil || s.users.Get(server.Owner) == nil {
		return Server{}, fmt.Errorf("server %s exists already, or its owner does not", server.UUID)
	}
	for _, card := range n.NICs {
		made, err := s.newNIC(server, card)
		if err != nil {
			return Server{}, fmt.Errorf("server %q: %w", n.Name, err)
		}
		server.NICs = append(server.NICs, made)
	}
	s.servers.Add(server.UUID, server)
	s.change()
	return *server, nil
}

func (s *Simulator) newNIC(server *Server, card NewNIC) (NIC, error) {
	n := NIC{MAC: s.newMAC(), Plugged: true}
	if card.VLAN != "" {
		if s.vlans.Get(card.VLAN) == nil {
			s.vlans.Add(card.VLAN, &VLAN{UUID: card.VLAN, Owner: server.Owner, Subscription: s.newSubscription(server.Owner, "vlan", card.VLAN, s.Now()).ID})
		}
		n.VLAN = card.VLAN
		return n, nil
	}
	if !slices.Contains([]string{dhcp, static, manual}, card.Mode) {
		return n, fmt.Errorf("mode %q is none of dhcp, static, manual", card.Mode)
	}
	for i, text := range []string{card.Addr4, card.Addr6} {
		family := families[i]
		conf := family.of(&n)
		switch {
		case text == "":
			continue
		case card.Mode == manual && text == "*":
			*conf = Conf{Mode: manual}
			continue
		case text == "*" && card.Mode == dhcp:
			*conf = Conf{dhcp, s.lease(server, n.MAC, family.is4)}
			continue
		}
		addr, ok := parseAddr(text)
		if !ok || addr.Is4() != family.is4 || s.holder(addr) != nil {
			return n, fmt.Errorf("%q is not an address of its family, or is on another server", text)
		}
		*conf = Conf{card.Mode, addr}
		if card.Mode == manual { // set by hand, so it has to be subscribed
			conf.IP = netip.Addr{}
		}
		switch {
		case s.ips.Get(text) != nil:
		case card.Mode == dhcp:
			s.ips.Add(addr.String(), &IP{Address: addr, Owner: server.Owner})
		default:
			s.subscribe(server.Owner, addr, s.Now())
		}
	}
	return n, nil
}

// exampleFields are those of a server that the API knows and nobody here cares
// for.
func exampleFields() fields {
	return fields{
		"cpu": must(2000), "smp": must(1), "mem": must(int64(2) << 30), "vnc_password": must("s3cret"), "cpu_type": must("amd"), "cpu_model": must(nil),
		"cpus_instead_of_cores": must(false), "context": must(true), "enable_numa": must(false), "hv_relaxed": must(false), "hv_tsc": must(false),
		"hypervisor": must("kvm"), "auto_start": must(false), "requirements": must([]string{}), "pubkeys": must([]string{}), "meta": must(map[string]string{}),
		"gpus": must([]string{}), "epcs": must([]string{}), "is_grey": must(false), "allocation_pool": must(nil), "drives": must([]any{map[string]any{"boot_order": 1, "dev_channel": "0:0", "device": "virtio"}}),
	}
}

// Subscribe gives the user an address.
func (s *Simulator) Subscribe(addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscribe(s.user.UUID, addr, s.Now())
	s.change()
}

// AddDynamic gives the user an address without a subscription, which no server has.
func (s *Simulator) AddDynamic(addr netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ips.Add(addr.String(), &IP{Address: addr, Owner: s.user.UUID, Idle: true})
}

// EndSubscription ends the one of an address. Where that is attached it stays;
// where it was set by hand it is blocked.
func (s *Simulator) EndSubscription(addr netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ip := s.ips.Get(addr.String())
	if ip == nil || ip.Subscription == "" {
		return fmt.Errorf("%s is not subscribed", addr)
	}
	sub := s.subscriptions.Get(ip.Subscription)
	sub.Status, sub.End, ip.Subscription = "expired", s.Now(), ""
	s.giveBack()
	s.change()
	return nil
}

// ExpiresAt says that a subscription ends at a time, and is not renewed.
func (s *Simulator) ExpiresAt(addr netip.Addr, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ip := s.ips.Get(addr.String())
	if ip == nil || ip.Subscription == "" {
		return fmt.Errorf("%s is not subscribed", addr)
	}
	sub := s.subscriptions.Get(ip.Subscription)
	sub.AutoRenew, sub.End = false, at
	return nil
}

// SetRouted says whether packets for an address arrive at all.
func (s *Simulator) SetRouted(addr netip.Addr, routed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unrouted[addr] = !routed
	s.change()
}

// SetStatus sets the status of a server: stopped, running, paused, or any other.
func (s *Simulator) SetStatus(id, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := s.servers.Get(id)
	switch {
	case server == nil:
		return notExist(id)
	case status == stopped:
		s.stop(server)
	case status == running && server.Status == stopped:
		s.start(server)
	default:
		server.Status = status
	}
	s.change()
	return nil
}

// Reboot stops and starts a server: the guest has all cards afterwards.
func (s *Simulator) Reboot(id string) error {
	if err := s.SetStatus(id, stopped); err != nil {
		return err
	}
	return s.SetStatus(id, running)
}

// AddTag adds a tag, also one of a name that there is. It belongs to the user.
func (s *Simulator) AddTag(name string, resources ...string) Tag {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag := &Tag{UUID: s.uuid(), Name: name, Owner: s.user.UUID, Resources: slices.Clone(resources)}
	s.tags.Add(tag.UUID, tag)
	return *tag
}

// EditTag changes the resources of a tag, as somebody else might.
func (s *Simulator) EditTag(id string, add, remove []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	tag := s.tags.Get(id)
	if tag == nil {
		return notExist(id)
	}
	resources := slices.DeleteFunc(slices.Clone(tag.Resources), func(r string) bool { return slices.Contains(remove, r) })
	tag.Resources = append(resources, add...)
	return nil
}

// Delete removes a server or a tag at once, as somebody else might.
func (s *Simulator) Delete(kind Kind, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case kind == Servers && s.servers.Get(id) != nil:
		s.dropServer(s.servers.Get(id))
	case kind == Tags && s.tags.Get(id) != nil:
		s.tags.Remove(id)
	default:
		return notExist(id)
	}
	s.change()
	return nil
}

// interference is something that somebody else does before a request.
type interference struct {
	method string
	kind   Kind
	id     string
	do     func()
}

// Before calls do once, just before the next request with this method for an object
// of this kind is done; an empty id means any object.
func (s *Simulator) Before(method string, kind Kind, id string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = append(s.before, interference{method, kind, id, do})
}

func (s *Simulator) interfere(method string, t target) {
	s.mu.Lock()
	at := slices.IndexFunc(s.before, func(i interference) bool {
		return i.method == method && i.kind == t.kind && (i.id == "" || i.id == t.id)
	})
	var do func()
	if at >= 0 {
		do = s.before[at].do
		s.before = slices.Delete(s.before, at, at+1)
	}
	s.mu.Unlock()
	if do != nil {
		do()
	}
}
