package cloudscale

import (
	"fmt"
	"maps"
	"slices"
)

// maxTimeout is a day, in milliseconds.
const maxTimeout = 24 * 60 * 60 * 1000

func (s *Simulator) listListeners(q *request) ([]any, error) {
	return list(q, &s.listeners, func(l *Listener) map[string]string { return l.Tags }, s.viewListener)
}

func (s *Simulator) getListener(q *request) (any, error) {
	l, err := find(&s.listeners, q.id)
	if err != nil {
		return nil, err
	}
	return s.viewListener(q, l), nil
}

func (s *Simulator) createListener(q *request) (any, error) {
	f := q.fields
	f.require("name", "pool", "protocol", "protocol_port")
	l := &Listener{Pool: f.reference("pool"), Created: q.now,
		TimeoutClientDataMS: 50000, TimeoutMemberConnectMS: 5000, TimeoutMemberDataMS: 50000}
	pool := s.pools.Get(l.Pool)
	if pool == nil {
		f.missing("pool", "Pool", l.Pool)
	} else {
		l.LoadBalancer = pool.LoadBalancer
	}
	wanted := s.wantedListener(f, l)
	if err := s.change(q, l.LoadBalancer, func() {
		*l = wanted
		l.UUID = s.uuid()
		s.listeners.Add(l.UUID, l)
	}); err != nil {
		return nil, err
	}
	return s.viewListener(q, l), nil
}

func (s *Simulator) updateListener(q *request) error {
	l, err := find(&s.listeners, q.id)
	if err != nil {
		return err
	}
	q.fields.fixed("pool")
	wanted := s.wantedListener(q.fields, l)
	return s.change(q, l.LoadBalancer, func() { *l = wanted })
}

// wantedListener is a listener with the fields of a request, which are checked.
func (s *Simulator) wantedListener(f *fields, l *Listener) Listener {
	w := *l
	w.Name, w.Tags = f.text("name", l.Name), f.tags(l.Tags)
	w.Protocol = f.oneOf("protocol", l.Protocol, "tcp", "udp")
	w.ProtocolPort = f.number("protocol_port", l.ProtocolPort, 1, maxPort)
	w.AllowedCIDRs = f.prefixes("allowed_cidrs", l.AllowedCIDRs)
	w.TimeoutClientDataMS = f.number("timeout_client_data_ms", l.TimeoutClientDataMS, 1, maxTimeout)
	w.TimeoutMemberConnectMS = f.number("timeout_member_connect_ms", l.TimeoutMemberConnectMS, 1, maxTimeout)
	w.TimeoutMemberDataMS = f.number("timeout_member_data_ms", l.TimeoutMemberDataMS, 1, maxTimeout)
	if pool := s.pools.Get(l.Pool); pool != nil && w.Protocol != "" && (pool.Protocol == "udp") != (w.Protocol == "udp") {
		f.fail("protocol", fmt.Sprintf("A listener of protocol %s cannot use a pool of protocol %s.", w.Protocol, pool.Protocol))
	}
	for _, other := range s.listeners.In(l.LoadBalancer) {
		if other.UUID != l.UUID && other.Protocol == w.Protocol && other.ProtocolPort == w.ProtocolPort {
			f.fail("protocol_port", fmt.Sprintf("Another listener of this load balancer already uses %s port %d.", w.Protocol, w.ProtocolPort))
		}
	}
	return w
}

func (s *Simulator) removeListener(q *request) error {
	l, err := find(&s.listeners, q.id)
	if err != nil {
		return err
	}
	return s.change(q, l.LoadBalancer, func() { s.listeners.Remove(l.UUID) })
}

// Listeners returns all listeners, oldest first.
func (s *Simulator) Listeners() []Listener {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Listener
	for l := range s.listeners.All() {
		c := *l
		c.AllowedCIDRs, c.Tags = slices.Clone(l.AllowedCIDRs), maps.Clone(l.Tags)
		all = append(all, c)
	}
	return all
}
