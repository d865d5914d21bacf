package cloudscale

import (
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

func (s *Simulator) listNetworks(q *request) ([]any, error) {
	return list(q, &s.networks, func(n *Network) map[string]string { return n.Tags }, s.viewNetwork)
}

func (s *Simulator) getNetwork(q *request) (any, error) {
	n, err := find(&s.networks, q.id)
	if err != nil {
		return nil, err
	}
	return s.viewNetwork(q, n), nil
}

type networkView struct {
	Href    string            `json:"href"`
	UUID    string            `json:"uuid"`
	Name    string            `json:"name"`
	MTU     int               `json:"mtu"`
	Zone    slug              `json:"zone"`
	Subnets []*subnetStub     `json:"subnets"`
	Created string            `json:"created_at"`
	Tags    map[string]string `json:"tags"`
}

func (s *Simulator) viewNetwork(q *request, n *Network) any {
	v := networkView{q.base + "networks/" + n.UUID, n.UUID, n.Name, n.MTU, slug{n.Zone}, []*subnetStub{}, stamp(n.Created), labels(n.Tags)}
	for _, subnet := range s.subnetsOf(n.UUID) {
		v.Subnets = append(v.Subnets, q.subnetStub(s, subnet.UUID))
	}
	return v
}

func (s *Simulator) subnetsOf(network string) []*Subnet {
	return s.subnets.Where(func(subnet *Subnet) bool { return subnet.Network == network })
}

const defaultMTU = 9000

func (s *Simulator) createNetwork(q *request) (any, error) {
	f := q.fields
	f.require("name")
	n := Network{Name: f.text("name", ""), Zone: f.text("zone", zones[0]), MTU: f.number("mtu", defaultMTU, 68, defaultMTU), Tags: f.tags(nil), Created: q.now}
	if !slices.Contains(zones, n.Zone) {
		f.fail("zone", "\""+n.Zone+"\" is not a valid choice. Choose one of: "+strings.Join(zones, ", ")+".")
	}
	withSubnet := f.boolean("auto_create_ipv4_subnet", true)
	if err := f.err(); err != nil {
		return nil, err
	}
	network := s.addNetwork(n)
	if withSubnet {
		s.addSubnet(Subnet{Network: network.UUID, CIDR: s.freePrefix(), DNSServers: cloudDNS, Created: q.now})
	}
	return s.viewNetwork(q, network), nil
}

// freePrefix is one that no network has.
func (s *Simulator) freePrefix() netip.Prefix {
	used := make(map[netip.Prefix]bool)
	for subnet := range s.subnets.All() {
		used[subnet.CIDR] = true
	}
	for i := range 256 {
		if p := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i), 0}), 24); !used[p] {
			return p
		}
	}
	return netip.MustParsePrefix("172.31.0.0/24")
}

func (s *Simulator) updateNetwork(q *request) error {
	n, err := find(&s.networks, q.id)
	if err != nil {
		return err
	}
	f := q.fields
	f.fixed("zone")
	name, mtu, tags := f.text("name", n.Name), f.number("mtu", n.MTU, 68, defaultMTU), f.tags(n.Tags)
	if err := f.err(); err != nil {
		return err
	}
	n.Name, n.MTU, n.Tags = name, mtu, tags
	return nil
}

func (s *Simulator) removeNetwork(q *request) error {
	n, err := find(&s.networks, q.id)
	if err != nil {
		return err
	}
	for server := range s.servers.All() {
		for _, nic := range server.Interfaces {
			if nic.Network == n.UUID {
				return detail(http.StatusBadRequest, "The network is in use by server %s.", server.UUID)
			}
		}
	}
	for _, subnet := range s.subnetsOf(n.UUID) {
		if user := s.userOf(subnet); user != "" {
			return detail(http.StatusBadRequest, "The network is in use by %s.", user)
		}
	}
	for _, subnet := range s.subnetsOf(n.UUID) {
		s.subnets.Remove(subnet.UUID)
	}
	s.networks.Remove(n.UUID)
	return nil
}

// userOf names something that has an address in a subnet.
func (s *Simulator) userOf(subnet *Subnet) string {
	for lb := range s.lbs.All() {
		for _, vip := range lb.VIPs {
			if vip.Subnet == subnet.UUID {
				return "load balancer " + lb.UUID
			}
		}
	}
	for m := range s.members.All() {
		if m.Subnet == subnet.UUID {
			return "pool member " + m.UUID
		}
	}
	for server := range s.servers.All() {
		for _, nic := range server.Interfaces {
			for _, a := range nic.Addresses {
				if a.Subnet == subnet.UUID {
					return "server " + server.UUID
				}
			}
		}
	}
	return ""
}

func (s *Simulator) listSubnets(q *request) ([]any, error) {
	return list(q, &s.subnets, func(n *Subnet) map[string]string { return n.Tags }, s.viewSubnet)
}

func (s *Simulator) getSubnet(q *request) (any, error) {
	n, err := find(&s.subnets, q.id)
	if err != nil {
		return nil, err
	}
	return s.viewSubnet(q, n), nil
}

type subnetView struct {
	Href       string            `json:"href"`
	UUID       string            `json:"uuid"`
	CIDR       string            `json:"cidr"`
	Network    *stub             `json:"network"`
	Gateway    *string           `json:"gateway_address"`
	DNSServers []string          `json:"dns_servers"`
	Created    string            `json:"created_at"`
	Tags       map[string]string `json:"tags"`
}

func (s *Simulator) viewSubnet(q *request, n *Subnet) any {
	v := subnetView{
		Href: q.base + "subnets/" + n.UUID, UUID: n.UUID, CIDR: n.CIDR.String(), Network: q.networkStub(s, n.Network),
		DNSServers: append([]string{}, n.DNSServers...), Created: stamp(n.Created), Tags: labels(n.Tags),
	}
	if n.Gateway.IsValid() {
		gateway := n.Gateway.String()
		v.Gateway = &gateway
	}
	return v
}

func (q *request) networkStub(s *Simulator, id string) *stub {
	n := s.networks.Get(id)
	if n == nil {
		return nil
	}
	return &stub{q.base + "networks/" + id, id, n.Name}
}

func (s *Simulator) createSubnet(q *request) (any, error) {
	f := q.fields
	f.require("network", "cidr")
	n := Subnet{Network: f.reference("network"), Gateway: f.address("gateway_address"), Tags: f.tags(nil), Created: q.now}
	if n.Network != "" && s.networks.Get(n.Network) == nil {
		f.missing("network", "Network", n.Network)
	}
	cidr, err := netip.ParsePrefix(f.text("cidr", ""))
	if err != nil || cidr != cidr.Masked() {
		f.fail("cidr", "Enter a valid network address in CIDR notation.")
	}
	n.CIDR = cidr
	if n.Gateway.IsValid() && !n.CIDR.Contains(n.Gateway) {
		f.fail("gateway_address", n.Gateway.String()+" is not a valid IP for the specified subnet.")
	}
	n.DNSServers = f.dnsServers(cloudDNS)
	if err := f.err(); err != nil {
		return nil, err
	}
	return s.viewSubnet(q, s.addSubnet(n)), nil
}

var cloudDNS = []string{"192.0.2.53", "192.0.2.54"}

// dnsServers of null are the cloud's own.
func (f *fields) dnsServers(otherwise []string) []string {
	if f.null("dns_servers") {
		return cloudDNS
	}
	servers, given := f.texts("dns_servers")
	if !given {
		return otherwise
	}
	for _, server := range servers {
		if a, err := netip.ParseAddr(server); err != nil || a.IsUnspecified() {
			f.fail("dns_servers", "Enter a valid IPv4 or IPv6 address.")
		}
	}
	return servers
}

func (s *Simulator) updateSubnet(q *request) error {
	n, err := find(&s.subnets, q.id)
	if err != nil {
		return err
	}
	f := q.fields
	f.fixed("network", "cidr")
	gateway := n.Gateway
	if f.has("gateway_address") {
		gateway = f.address("gateway_address")
	}
	dns, tags := f.dnsServers(n.DNSServers), f.tags(n.Tags)
	if err := f.err(); err != nil {
		return err
	}
	n.Gateway, n.DNSServers, n.Tags = gateway, dns, tags
	return nil
}

func (s *Simulator) removeSubnet(q *request) error {
	n, err := find(&s.subnets, q.id)
	if err != nil {
		return err
	}
	if user := s.userOf(n); user != "" {
		return detail(http.StatusBadRequest, "The subnet is in use by %s.", user)
	}
	s.subnets.Remove(n.UUID)
	return nil
}

// AddNetwork adds a network, and returns it with its UUID and defaults.
func (s *Simulator) AddNetwork(n Network) Network {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.addNetwork(n)
}

func (s *Simulator) addNetwork(n Network) *Network {
	if n.UUID == "" {
		n.UUID = s.uuid()
	}
	if n.Zone == "" {
		n.Zone = zones[0]
	}
	if n.MTU == 0 {
		n.MTU = defaultMTU
	}
	if n.Created.IsZero() {
		n.Created = s.Now()
	}
	n.Tags = maps.Clone(n.Tags)
	s.networks.Add(n.UUID, &n)
	return &n
}

// AddSubnet adds a subnet of a network that was added before.
func (s *Simulator) AddSubnet(n Subnet) Subnet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.addSubnet(n)
}

func (s *Simulator) addSubnet(n Subnet) *Subnet {
	if n.UUID == "" {
		n.UUID = s.uuid()
	}
	if !n.Gateway.IsValid() {
		n.Gateway = n.CIDR.Masked().Addr().Next()
	}
	if n.Created.IsZero() {
		n.Created = s.Now()
	}
	n.Tags = maps.Clone(n.Tags)
	s.subnets.Add(n.UUID, &n)
	return &n
}
