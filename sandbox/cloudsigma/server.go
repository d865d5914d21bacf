package cloudsigma

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Server is a virtual machine.
type Server struct {
	UUID, Name, Owner string
	Status            string
	NICs              []NIC

	fields fields // everything else
	// The firewall has these cards, and from then on those that the server has.
	firewall     []NIC
	firewallFrom time.Time
	leased       map[string]netip.Addr // last addresses by DHCP, by card and family
}

const (
	running = "running"
	stopped = "stopped"
)

// computed are the fields of a server that are not stored as they are sent.
var computed = []string{"uuid", "name", "owner", "status", "nics", "runtime", "resource_uri", "tags", "jobs", "mounted_on"}

// required are those that a definition has to have.
var required = []string{"name", "cpu", "mem", "vnc_password"}

// ownServer finds a server of the user.
func (s *Simulator) ownServer(q *request, id, permission string) (*Server, error) {
	server := s.servers.Get(strings.ToLower(id))
	switch {
	case server == nil:
		return nil, notExist(id)
	case server.Owner != q.user.UUID:
		return nil, denied(q.user, permission, id)
	}
	return server, nil
}

func (s *Simulator) createServer(q *request, f fields) (any, error) {
	server := &Server{UUID: s.uuid(), Owner: q.user.UUID, Status: stopped}
	if err := s.define(server, f); err != nil {
		return nil, err
	}
	s.servers.Add(server.UUID, server)
	return s.serverView(server, true), nil
}

// updateServer replaces the definition of a server. What a running one does with
// it is a knob's.
func (s *Simulator) updateServer(q *request, f fields) (any, error) {
	server, err := s.ownServer(q, q.id, "EDIT")
	if err != nil {
		return nil, err
	}
	before := *server
	wanted := before
	if err := s.define(&wanted, f); err != nil {
		return nil, err
	}
	if server.Status == stopped || s.knobs.Running == "store" {
		*server = wanted
		s.recable(server, before.NICs, q.now)
		return s.serverView(server, true), nil
	}
	if s.knobs.Running == "reject" {
		return nil, invalid("", "Cannot edit a running server")
	}
	server.Name, server.fields["meta"] = wanted.Name, wanted.fields["meta"]
	return s.serverView(server, true), nil
}

// define sets all of a server that can be set. Whether cards that are not there at
// all stay is not documented; here they go.
func (s *Simulator) define(server *Server, f fields) error {
	for _, name := range required {
		if f.null(name) {
			return invalid(name, "This field is required")
		}
	}
	name, err := f.text("name")
	if err != nil {
		return err
	}
	for _, number := range []string{"cpu", "mem"} {
		var n float64
		if json.Unmarshal(f[number], &n) != nil || n <= 0 {
			return invalid(number, "A positive number is expected")
		}
	}
	if _, err := f.text("vnc_password"); err != nil {
		return err
	}
	meta, err := f.meta()
	if err != nil {
		return err
	}
	cards, err := s.readNICs(server.Owner, server, f["nics"])
	if err != nil {
		return err
	}
	server.Name, server.NICs, server.fields = name, cards, f.without(computed...)
	server.fields["meta"] = must(meta)
	return nil
}

// recable is after the cards of a server have changed: its firewall follows, and
// addresses that it no longer has by DHCP go back.
func (s *Simulator) recable(server *Server, before []NIC, now time.Time) {
	if !slices.EqualFunc(server.firewall, before, sameNIC) && now.Before(server.firewallFrom) {
		before = server.firewall // the last change is not effective yet
	}
	server.firewall, server.firewallFrom = before, next(now, s.knobs.FirewallDelay)
	if server.Status == stopped {
		server.firewallFrom = now
	}
	s.giveBack()
}

func sameNIC(a, b NIC) bool {
	return a.MAC == b.MAC && a.VLAN == b.VLAN && a.V4 == b.V4 && a.V6 == b.V6
}

// act starts or stops a server.
func (s *Simulator) act(q *request) (int, any, error) {
	server, err := s.ownServer(q, q.id, "EDIT")
	if err != nil {
		return 0, nil, err
	}
	do := q.query.Get("do")
	switch {
	case do == "start" && server.Status == stopped:
		s.start(server)
	case (do == "stop" || do == "shutdown") && server.Status != stopped:
		s.stop(server)
	case do != "start" && do != "stop" && do != "shutdown":
		return 0, nil, invalid("do", "Unknown action %q", do)
	default:
		return 0, nil, invalid("", "Cannot %s a server that is %s", do, server.Status)
	}
	return http.StatusAccepted, map[string]string{"action": do, "result": "success", "uuid": server.UUID}, nil
}

// start gives the guest all cards, and those with DHCP an address.
func (s *Simulator) start(server *Server) {
	server.Status = running
	server.NICs = slices.Clone(server.NICs)
	for i := range server.NICs {
		n := &server.NICs[i]
		n.Plugged = true
		for _, family := range families {
			if c := family.of(n); c.Mode == dhcp && !c.IP.IsValid() {
				c.IP = s.lease(server, n.MAC+family.field, family.is4)
			}
		}
	}
	server.firewall, server.firewallFrom = nil, time.Time{}
}

// stop takes away what DHCP gave.
func (s *Simulator) stop(server *Server) {
	server.Status = stopped
	server.NICs = slices.Clone(server.NICs)
	if server.leased == nil {
		server.leased = map[string]netip.Addr{}
	}
	for i := range server.NICs {
		n := &server.NICs[i]
		n.Plugged = false
		for _, family := range families {
			if c := family.of(n); c.Mode == dhcp && c.IP.IsValid() {
				server.leased[n.MAC+family.field] = c.IP
				c.IP = netip.Addr{}
			}
		}
	}
	s.giveBack()
}

func (s *Simulator) dropServer(server *Server) {
	s.servers.Remove(server.UUID)
	for tag := range s.tags.All() {
		tag.Resources = slices.DeleteFunc(slices.Clone(tag.Resources), func(r string) bool { return r == server.UUID })
	}
	s.giveBack()
}

// serverView is what the API says of a server.
func (s *Simulator) serverView(server *Server, detail bool) map[string]any {
	v := map[string]any{
		"uuid": server.UUID, "name": server.Name, "status": server.Status, "owner": s.ownerView(server.Owner),
		"resource_uri": apiPrefix + "servers/" + server.UUID + "/", "runtime": nil,
	}
	up := server.Status != stopped
	cards := []any{}
	for i := range server.NICs {
		cards = append(cards, server.NICs[i].view(up))
	}
	if up {
		v["runtime"] = map[string]any{"active_since": "2020-01-01T00:00:00+00:00", "nics": cards}
	}
	if !detail {
		return v
	}
	for name, value := range server.fields {
		v[name] = value
	}
	v["nics"], v["tags"], v["jobs"], v["mounted_on"] = cards, s.tagsOf(server.UUID), []any{}, []any{}
	return v
}

func (s *Simulator) ownerView(id string) map[string]any {
	v := map[string]any{"uuid": id, "resource_uri": apiPrefix + "user/" + id + "/"}
	if u := s.users.Get(id); u != nil {
		v["email"] = u.Email
	}
	return v
}
