package cloudscale

import (
	"net/netip"
	"time"
)

// changing reports whether a load balancer is being changed.
func (lb *LoadBalancer) changing(now time.Time) bool { return lb.busyUntil.After(now) }

// free reports as an error if a load balancer cannot be changed now.
func (lb *LoadBalancer) free(now time.Time) error {
	if lb.changing(now) {
		return &busyError{until: lb.busyUntil, making: lb.built.After(now)}
	}
	return nil
}

// touched starts the time in which a load balancer is changing.
func (s *Simulator) touched(q *request, lb *LoadBalancer) {
	d := s.options.Changing
	if q.slow > 0 {
		d = q.slow
	}
	lb.busyUntil = q.now.Add(max(d, 0))
	s.changedState()
}

// status is what the API says of a load balancer. A pool none of whose members
// is up is down, and so is one without members.
func (s *Simulator) status(lb *LoadBalancer, now time.Time) string {
	if lb.changing(now) {
		return "changing"
	}
	healthy, sick := false, false
	for _, pool := range s.poolsOf(lb.UUID) {
		up, down := false, false
		for _, m := range s.membersOf(pool.UUID) {
			if s.monitorStatus(m, now) == "down" {
				down = true
			} else {
				up = true
			}
		}
		healthy = healthy || up
		sick = sick || down || !up
	}
	switch {
	case !sick:
		return "running"
	case healthy:
		return "degraded"
	default:
		return "error"
	}
}

// health is how a member's last checks went. Without real checks it follows
// from the clock: what the checks find since the last change of anything that
// matters, after as many checks as the monitor wants.
type health struct {
	was     string    // status when the last change happened
	since   time.Time // of the last change
	settled bool      // enough checks were made, whatever the clock says
	probed  string    // what real checks found last
}

// monitorStatus is what the API says of a member.
func (s *Simulator) monitorStatus(m *Member, now time.Time) string {
	monitor := s.monitorOf(m.Pool)
	switch {
	case monitor == nil:
		return "no_monitor"
	case !m.Enabled:
		return "unknown" // assumed: it is not checked
	case s.probed && m.health.probed != "":
		return m.health.probed
	case s.probed:
		return "changing"
	}
	found, checks := "up", monitor.UpThreshold
	if s.unreachable[m.Address] {
		found, checks = "down", monitor.DownThreshold
	}
	if m.health.settled || !now.Before(m.health.since.Add(time.Duration(checks*monitor.DelayS)*time.Second)) {
		return found
	}
	return m.health.was
}

// recheck restarts the checks of a member, after something has changed that
// they depend on.
func (s *Simulator) recheck(m *Member, now time.Time) {
	was := s.monitorStatus(m, now)
	if was != "up" && was != "down" {
		was = "changing"
	}
	m.health = health{was: was, since: now, probed: m.health.probed}
}

// SetReachable says what health monitors find at an address from now on. All
// addresses are reachable at first. It means nothing while real checks are made.
func (s *Simulator) SetReachable(a netip.Addr, reachable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreachable[a] == !reachable {
		return
	}
	now := s.Now()
	for m := range s.members.All() {
		if m.Address == a {
			s.recheck(m, now)
		}
	}
	s.unreachable[a] = !reachable
}

func (s *Simulator) poolsOf(lb string) []*Pool {
	return s.pools.In(lb)
}

func (s *Simulator) membersOf(pool string) []*Member {
	return s.members.In(pool)
}

// lbOf is the load balancer of a pool; empty if there is none.
func (s *Simulator) lbOf(pool string) string {
	if p := s.pools.Get(pool); p != nil {
		return p.LoadBalancer
	}
	return ""
}

// monitorOf returns nil if the pool has none.
func (s *Simulator) monitorOf(pool string) *HealthMonitor {
	if all := s.monitors.In(pool); len(all) > 0 {
		return all[0]
	}
	return nil
}
