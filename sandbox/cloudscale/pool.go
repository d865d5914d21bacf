package cloudscale

import (
	"maps"
	"net/http"
)

var algorithms = []string{"round_robin", "least_connections", "source_ip"}

func (s *Simulator) listPools(q *request) ([]any, error) {
	return list(q, &s.pools, func(p *Pool) map[string]string { return p.Tags }, s.viewPool)
}

func (s *Simulator) getPool(q *request) (any, error) {
	pool, err := find(&s.pools, q.id)
	if err != nil {
		return nil, err
	}
	return s.viewPool(q, pool), nil
}

func (s *Simulator) createPool(q *request) (any, error) {
	f := q.fields
	f.require("name", "load_balancer", "algorithm", "protocol")
	pool := &Pool{
		Name: f.text("name", ""), LoadBalancer: f.reference("load_balancer"),
		Algorithm: f.oneOf("algorithm", "", algorithms...),
		Protocol:  f.oneOf("protocol", "", "tcp", "proxy", "proxyv2", "udp"),
		Tags:      f.tags(nil), Created: q.now,
	}
	lb := s.lbs.Get(pool.LoadBalancer)
	if lb == nil {
		f.missing("load_balancer", "Load balancer", pool.LoadBalancer)
	}
	if err := f.err(); err != nil {
		return nil, err
	}
	if err := lb.free(q.now); err != nil {
		return nil, err
	}
	pool.UUID = s.uuid()
	s.pools.Add(pool.UUID, pool)
	s.touched(q, lb)
	return s.viewPool(q, pool), nil
}

func (s *Simulator) updatePool(q *request) error {
	pool, err := find(&s.pools, q.id)
	if err != nil {
		return err
	}
	f := q.fields
	f.fixed("load_balancer", "algorithm", "protocol")
	name, tags := f.text("name", pool.Name), f.tags(pool.Tags)
	return s.change(q, pool.LoadBalancer, func() { pool.Name, pool.Tags = name, tags })
}

func (s *Simulator) removePool(q *request) error {
	pool, err := find(&s.pools, q.id)
	if err != nil {
		return err
	}
	return s.change(q, pool.LoadBalancer, func() { s.dropPool(pool) })
}

// dropPool removes a pool with its members and its monitor, and what the
// options say with its listeners.
func (s *Simulator) dropPool(pool *Pool) {
	for _, m := range s.membersOf(pool.UUID) {
		s.members.Remove(m.UUID)
	}
	if m := s.monitorOf(pool.UUID); m != nil {
		s.monitors.Remove(m.UUID)
	}
	for _, l := range s.listeners.In(pool.LoadBalancer) {
		if l.Pool != pool.UUID {
			continue
		}
		if l.Pool = ""; !s.options.KeepListeners {
			s.listeners.Remove(l.UUID)
		}
	}
	s.pools.Remove(pool.UUID)
	s.changedState()
}

// change does something to a load balancer if the fields are right and it is
// free; it is changing afterwards.
func (s *Simulator) change(q *request, lbID string, do func()) error {
	if err := q.fields.err(); err != nil {
		return err
	}
	lb := s.lbs.Get(lbID)
	if lb == nil {
		return detail(http.StatusConflict, "The load balancer is gone.") // only after an edit
	}
	if err := lb.free(q.now); err != nil {
		return err
	}
	do()
	s.touched(q, lb)
	return nil
}

// Pools returns all pools, oldest first.
func (s *Simulator) Pools() []Pool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Pool
	for pool := range s.pools.All() {
		c := *pool
		c.Tags = maps.Clone(pool.Tags)
		all = append(all, c)
	}
	return all
}
