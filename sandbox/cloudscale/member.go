package cloudscale

import (
	"fmt"
	"maps"
	"net/http"
)

const maxPort = 65535

func (s *Simulator) listMembers(q *request) ([]any, error) {
	if _, err := find(&s.pools, q.pool); err != nil {
		return nil, err
	}
	views := []any{}
	for _, m := range s.membersOf(q.pool) {
		if tagged(m.Tags, q.tags) {
			views = append(views, s.viewMember(q, m))
		}
	}
	return views, nil
}

// member finds the member of a request, in its pool.
func (s *Simulator) member(q *request) (*Member, *Pool, error) {
	m, pool := s.members.Get(q.id), s.pools.Get(q.pool)
	if m == nil || pool == nil || m.Pool != q.pool {
		return nil, nil, errNotFound
	}
	return m, pool, nil
}

func (s *Simulator) getMember(q *request) (any, error) {
	m, _, err := s.member(q)
	if err != nil {
		return nil, err
	}
	return s.viewMember(q, m), nil
}

func (s *Simulator) createMember(q *request) (any, error) {
	pool, err := find(&s.pools, q.pool)
	if err != nil {
		return nil, err
	}
	f := q.fields
	f.require("name", "protocol_port", "address", "subnet")
	m := &Member{
		Name: f.text("name", ""), Pool: q.pool, Enabled: f.boolean("enabled", true),
		ProtocolPort: f.number("protocol_port", 0, 1, maxPort), Address: f.address("address"),
		Subnet: f.reference("subnet"), Tags: f.tags(nil), Created: q.now,
	}
	if !f.null("monitor_port") {
		m.MonitorPort = f.number("monitor_port", 0, 1, maxPort)
	}
	switch subnet := s.subnets.Get(m.Subnet); {
	case m.Subnet == "":
	case subnet == nil:
		f.missing("subnet", "Subnet", m.Subnet)
	case m.Address.IsValid() && !subnet.CIDR.Contains(m.Address):
		f.fail("address", m.Address.String()+" is not a valid IP for the specified subnet.")
	case !s.inZoneOf(subnet, pool.LoadBalancer):
		f.fail("subnet", "The subnet is not in the zone of the load balancer.")
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	for _, other := range s.membersOf(q.pool) {
		// Assumed: one member for each address and port.
		if other.Address == m.Address && other.ProtocolPort == m.ProtocolPort {
			return nil, detail(http.StatusBadRequest, "Another member of this pool already uses %s on protocol_port %d.", m.Address, m.ProtocolPort)
		}
	}
	if err := s.change(q, pool.LoadBalancer, func() {
		m.UUID = s.uuid()
		s.members.Add(m.UUID, m)
		m.health = health{was: "changing", since: q.now}
	}); err != nil {
		return nil, err
	}
	return s.viewMember(q, m), nil
}

func (s *Simulator) updateMember(q *request) error {
	m, pool, err := s.member(q)
	if err != nil {
		return err
	}
	f := q.fields
	f.fixed("protocol_port", "monitor_port", "address", "subnet")
	name, enabled, tags := f.text("name", m.Name), f.boolean("enabled", m.Enabled), f.tags(m.Tags)
	return s.change(q, pool.LoadBalancer, func() {
		if enabled != m.Enabled {
			s.recheck(m, q.now)
		}
		m.Name, m.Enabled, m.Tags = name, enabled, tags
	})
}

func (s *Simulator) removeMember(q *request) error {
	m, pool, err := s.member(q)
	if err != nil {
		return err
	}
	return s.change(q, pool.LoadBalancer, func() { s.members.Remove(m.UUID) })
}

// Members returns the members of a pool, or of all pools if it is empty, oldest first.
func (s *Simulator) Members(pool string) []Member {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	var all []Member
	for m := range s.members.All() {
		if pool == "" || m.Pool == pool {
			c := *m
			c.MonitorStatus, c.Tags = s.monitorStatus(m, now), maps.Clone(m.Tags)
			all = append(all, c)
		}
	}
	return all
}

// String is what people call a member.
func (m Member) String() string { return fmt.Sprintf("%s:%d", m.Address, m.ProtocolPort) }
