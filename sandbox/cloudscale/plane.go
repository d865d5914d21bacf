package cloudscale

import (
	"net/netip"
	"slices"
	"time"
)

// plane is what forwards packets, as the objects of the API want it.
type plane struct {
	lbs       []string
	addresses []netip.Addr // VIPs of load balancers, and floating IPs that lead to them
	fronts    map[frontKey]frontConfig
	pools     map[string]poolConfig
}

// frontKey is where a load balancer listens.
type frontKey struct {
	address netip.AddrPort
	udp     bool
}

// frontConfig is what a listener does.
type frontConfig struct {
	lb, pool                              string
	allowed                               []netip.Prefix // empty: everybody
	clientData, memberConnect, memberData time.Duration
}

// poolConfig is how a pool chooses, and whom it has.
type poolConfig struct {
	algorithm, protocol string
	members             []memberConfig
	monitor             *HealthMonitor // nil: none
}

// memberConfig is a member of a pool.
type memberConfig struct {
	uuid           string
	address, check netip.AddrPort
	enabled        bool
}

// plane reads what there is.
func (s *Simulator) plane() plane {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := plane{fronts: make(map[frontKey]frontConfig), pools: make(map[string]poolConfig)}
	for lb := range s.lbs.All() {
		addresses := s.addressesOf(lb)
		p.lbs, p.addresses = append(p.lbs, lb.UUID), append(p.addresses, addresses...)
		for _, l := range s.listeners.In(lb.UUID) {
			if s.pools.Get(l.Pool) == nil {
				continue // it has nobody to pass connections on to
			}
			for _, a := range addresses {
				p.fronts[frontKey{netip.AddrPortFrom(a, uint16(l.ProtocolPort)), l.Protocol == "udp"}] = frontConfig{
					lb: lb.UUID, pool: l.Pool, allowed: slices.Clone(l.AllowedCIDRs),
					clientData: milliseconds(l.TimeoutClientDataMS), memberConnect: milliseconds(l.TimeoutMemberConnectMS),
					memberData: milliseconds(l.TimeoutMemberDataMS),
				}
			}
		}
	}
	for pool := range s.pools.All() {
		c := poolConfig{algorithm: pool.Algorithm, protocol: pool.Protocol}
		if m := s.monitorOf(pool.UUID); m != nil {
			monitor := *m
			monitor.HTTP, monitor.Tags = m.HTTP.clone(), nil
			c.monitor = &monitor
		}
		for _, m := range s.membersOf(pool.UUID) {
			checked := m.MonitorPort
			if checked == 0 {
				checked = m.ProtocolPort
			}
			c.members = append(c.members, memberConfig{
				m.UUID, netip.AddrPortFrom(m.Address, uint16(m.ProtocolPort)), netip.AddrPortFrom(m.Address, uint16(checked)), m.Enabled,
			})
		}
		p.pools[pool.UUID] = c
	}
	return p
}

// addressesOf are those that a load balancer is reached at.
func (s *Simulator) addressesOf(lb *LoadBalancer) []netip.Addr {
	var all []netip.Addr
	for _, vip := range lb.VIPs {
		all = append(all, vip.Address)
	}
	for f := range s.fips.All() {
		if f.LoadBalancer == lb.UUID && f.Prefix.IsValid() {
			all = append(all, f.Prefix.Addr())
		}
	}
	return all
}

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// report notes what real checks have found of a member.
func (s *Simulator) report(member, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members.Get(member); m != nil {
		m.health.probed = status
	}
}

// observe has changed called after every change of what plane returns, with
// the lock held. While it does, health comes from real checks.
func (s *Simulator) observe(changed func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changedState, s.probed = changed, true
}

func (s *Simulator) unobserve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changedState, s.probed = func() {}, false
}
