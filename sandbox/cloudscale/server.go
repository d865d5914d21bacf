package cloudscale

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

func (s *Simulator) listServers(q *request) ([]any, error) {
	return list(q, &s.servers, func(v *Server) map[string]string { return v.Tags }, s.viewServer)
}

func (s *Simulator) getServer(q *request) (any, error) {
	server, err := find(&s.servers, q.id)
	if err != nil {
		return nil, err
	}
	return s.viewServer(q, server), nil
}

type addressView struct {
	Version      int         `json:"version"`
	Address      string      `json:"address"`
	PrefixLength int         `json:"prefix_length"`
	Gateway      string      `json:"gateway"`
	ReversePTR   string      `json:"reverse_ptr"`
	Subnet       *subnetStub `json:"subnet"`
}

type interfaceView struct {
	Type      string        `json:"type"`
	Network   *stub         `json:"network"`
	MAC       string        `json:"mac_address"`
	Addresses []addressView `json:"addresses"`
}

type serverView struct {
	Href   string `json:"href"`
	UUID   string `json:"uuid"`
	Name   string `json:"name"`
	Status string `json:"status"`
	Zone   slug   `json:"zone"`
	Flavor struct {
		namedSlug
		VCPUs    int `json:"vcpu_count"`
		MemoryGB int `json:"memory_gb"`
	} `json:"flavor"`
	Image struct {
		namedSlug
		System string `json:"operating_system"`
		User   string `json:"default_username"`
	} `json:"image"`
	Volumes         []struct{}        `json:"volumes"`
	Interfaces      []interfaceView   `json:"interfaces"`
	SSHFingerprints []string          `json:"ssh_fingerprints"`
	SSHHostKeys     []string          `json:"ssh_host_keys"`
	AntiAffinity    []serverStub      `json:"anti_affinity_with"`
	Groups          []stub            `json:"server_groups"`
	Created         string            `json:"created_at"`
	Tags            map[string]string `json:"tags"`
}

func (s *Simulator) viewServer(q *request, server *Server) any {
	v := serverView{
		Href: q.base + "servers/" + server.UUID, UUID: server.UUID, Name: server.Name, Zone: slug{server.Zone},
		Status: server.status(q), Volumes: []struct{}{}, Interfaces: []interfaceView{}, SSHFingerprints: []string{}, SSHHostKeys: []string{},
		AntiAffinity: []serverStub{}, Groups: []stub{}, Created: stamp(server.Created), Tags: labels(server.Tags),
	}
	f, _ := flavorOf(server.Flavor)
	v.Flavor.namedSlug, v.Flavor.VCPUs, v.Flavor.MemoryGB = namedSlug{f.slug, f.name}, f.vcpus, f.gigs
	v.Image.namedSlug, v.Image.System, v.Image.User = namedSlug{"debian-12", "Debian 12"}, "Debian", "debian"
	for i, nic := range server.Interfaces {
		view := interfaceView{Type: "public", MAC: macAddress(server.UUID, i), Addresses: []addressView{}}
		if nic.Network != "" {
			view.Type, view.Network = "private", q.networkStub(s, nic.Network)
		} else {
			public := s.publicNets[server.Zone]
			view.Network = &stub{q.base + "networks/" + public.UUID, public.UUID, public.Name}
		}
		for _, a := range nic.Addresses {
			av := addressView{Version: version(a.Address.Is4()), Address: a.Address.String(), PrefixLength: a.Address.BitLen(), Subnet: q.subnetStub(s, a.Subnet)}
			if subnet := s.subnet(a.Subnet); subnet != nil {
				av.PrefixLength, av.Gateway = subnet.CIDR.Bits(), subnet.Gateway.String()
			}
			view.Addresses = append(view.Addresses, av)
		}
		v.Interfaces = append(v.Interfaces, view)
	}
	return v
}

// macAddress is made from the server's UUID, and so stays the same.
func macAddress(uuid string, nic int) string {
	h := fnv.New32a()
	fmt.Fprint(h, uuid, nic)
	sum := h.Sum32()
	return fmt.Sprintf("fa:16:3e:%02x:%02x:%02x", byte(sum>>16), byte(sum>>8), byte(sum))
}

func (server *Server) status(q *request) string {
	if server.settled != "" && !q.now.Before(server.changed) {
		server.Status, server.settled = server.settled, ""
	}
	return server.Status
}

func (s *Simulator) createServer(q *request) (any, error) {
	f := q.fields
	f.require("name", "flavor", "image")
	server := Server{
		Name: f.text("name", ""), Flavor: f.text("flavor", ""), Zone: f.text("zone", zones[0]),
		Tags: f.tags(nil), Created: q.now, Status: "changing", settled: "running", changed: q.now.Add(max(s.options.Creating, 0)),
	}
	if _, known := flavorOf(server.Flavor); !known {
		f.fail("flavor", "\""+server.Flavor+"\" is not a valid choice.")
	}
	if !slices.Contains(zones, server.Zone) {
		f.fail("zone", "\""+server.Zone+"\" is not a valid choice. Choose one of: "+strings.Join(zones, ", ")+".")
	}
	nics := s.wantedInterfaces(f, server.Zone)
	if !f.has("interfaces") && f.boolean("use_public_network", true) {
		nics = []wantedInterface{{all: true}}
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	var err error
	if server.Interfaces, err = s.fill(server.Zone, nics, nil); err != nil {
		return nil, err
	}
	return s.viewServer(q, s.addServer(server)), nil
}

func (s *Simulator) updateServer(q *request) error {
	server, err := find(&s.servers, q.id)
	if err != nil {
		return err
	}
	f := q.fields
	name, flavorSlug, tags := f.text("name", server.Name), f.text("flavor", server.Flavor), f.tags(server.Tags)
	if _, known := flavorOf(flavorSlug); !known {
		f.fail("flavor", "\""+flavorSlug+"\" is not a valid choice.")
	}
	nics := s.wantedInterfaces(f, server.Zone)
	if err := f.err(); err != nil {
		return err
	}
	if flavorSlug != server.Flavor && server.status(q) != "stopped" {
		return detail(http.StatusBadRequest, "The server must be stopped.")
	}
	if f.has("interfaces") {
		filled, err := s.fill(server.Zone, nics, server.Interfaces)
		if err != nil {
			return err
		}
		server.Interfaces = filled
	}
	server.Name, server.Flavor, server.Tags = name, flavorSlug, tags
	return nil
}

func (s *Simulator) removeServer(q *request) error {
	server, err := find(&s.servers, q.id)
	if err != nil {
		return err
	}
	s.dropServer(server)
	return nil
}

func (s *Simulator) dropServer(server *Server) {
	for f := range s.fips.All() {
		if f.Server == server.UUID {
			f.Server = ""
		}
	}
	s.servers.Remove(server.UUID)
}

func (s *Simulator) actOnServer(q *request) error {
	server, err := find(&s.servers, q.id)
	if err != nil {
		return err
	}
	status := server.status(q)
	after := map[string]string{"start": "running", "stop": "stopped", "reboot": "running"}[q.action]
	switch {
	case after == "":
		return errNotFound
	case status == "changing":
		return detail(http.StatusBadRequest, "The server is being changed. Please try again.")
	case q.action == "start" && status != "stopped", q.action != "start" && status != "running":
		return nil
	}
	server.Status, server.settled, server.changed = "changing", after, q.now.Add(max(s.options.Changing, 0))
	return nil
}

// AddServer adds a server, and returns it with its UUID and defaults. Public
// interfaces without addresses get one of each family. Addresses that do not
// say so are in that subnet of their network that contains them, if there is one.
func (s *Simulator) AddServer(server Server) Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if server.Zone == "" {
		server.Zone = zones[0]
	}
	server.Interfaces = slices.Clone(server.Interfaces)
	for i, nic := range server.Interfaces {
		if nic.Network == "" && len(nic.Addresses) == 0 {
			if filled, err := s.fill(server.Zone, []wantedInterface{{all: true}}, nil); err == nil {
				server.Interfaces[i] = filled[0]
			}
			continue
		}
		server.Interfaces[i].Addresses = s.inSubnets(nic, server.Zone)
	}
	return *s.addServer(server)
}

func (s *Simulator) addServer(server Server) *Server {
	if server.UUID == "" {
		server.UUID = s.uuid()
	}
	if server.Flavor == "" {
		server.Flavor = "flex-4-2"
	}
	if server.Status == "" {
		server.Status = "running"
	}
	if server.Created.IsZero() {
		server.Created = s.Now()
	}
	server.Tags = maps.Clone(server.Tags)
	s.servers.Add(server.UUID, &server)
	return &server
}

// AddNode adds a server as nodes of a cluster are: with a public interface,
// and one with the given addresses in the network of the subnet.
func (s *Simulator) AddNode(name, zone, subnet string, private ...netip.Addr) Server {
	s.mu.Lock()
	var nic Interface
	if n := s.subnets.Get(subnet); n != nil {
		nic.Network = n.Network
	}
	s.mu.Unlock()
	for _, a := range private {
		nic.Addresses = append(nic.Addresses, Address{Address: a})
	}
	return s.AddServer(Server{Name: name, Zone: zone, Interfaces: []Interface{{}, nic}})
}

// Servers returns all servers, oldest first.
func (s *Simulator) Servers() []Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &request{now: s.Now()}
	var all []Server
	for server := range s.servers.All() {
		server.status(q)
		c := *server
		c.Tags, c.Interfaces = maps.Clone(server.Tags), slices.Clone(server.Interfaces)
		all = append(all, c)
	}
	return all
}
