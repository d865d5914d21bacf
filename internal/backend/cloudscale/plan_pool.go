package cloudscale

import (
	"cmp"
	"slices"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

// poolKey is what a pool is known by. One with another key is another pool: the
// algorithm and the protocol of a pool cannot be changed.
type poolKey struct{ Name, Algorithm, Protocol string }

func poolKeyOf(p *cloudscale.Pool) poolKey { return poolKey{p.Name, p.Algorithm, p.Protocol} }

// match finds the pools of the ports. Of several that would do, it is the one
// that serves the port; the others are left for the sweep.
func (p *planner) match(fits func(*compat.Port, *cloudscale.Pool) bool) {
	p.pools = make([]*cloudscale.Pool, len(p.d.Ports))
	for i := range p.d.Ports {
		port := &p.d.Ports[i]
		for j := range p.a.Pools {
			pool := &p.a.Pools[j]
			if !fits(port, pool) || p.isPoolOfPort(&cloudscale.Ref{UUID: pool.UUID}) {
				continue
			}
			if p.pools[i] == nil || p.serves(pool, port) && !p.serves(p.pools[i], port) {
				p.pools[i] = pool
			}
		}
	}
}

// serves says whether a listener of the port leads to the pool.
func (p *planner) serves(pool *cloudscale.Pool, port *compat.Port) bool {
	return slices.ContainsFunc(p.a.Listeners, func(l cloudscale.Listener) bool {
		return l.Pool != nil && l.Pool.UUID == pool.UUID && listenerKeyOf(&l) == wantedKey(port)
	})
}

// rename finds pools of ports that were renamed: the port's listener leads to a
// pool that is as it should be, but for its name. It gets the new one.
func (p *planner) rename() {
	for i := range p.d.Ports {
		port := &p.d.Ports[i]
		if p.pools[i] != nil {
			continue
		}
		at := slices.IndexFunc(p.a.Pools, func(pool cloudscale.Pool) bool {
			return pool.Algorithm == port.Algorithm && pool.Protocol == port.PoolProtocol &&
				p.serves(&pool, port) && !p.isPoolOfPort(&cloudscale.Ref{UUID: pool.UUID})
		})
		if at < 0 {
			continue
		}
		pool := &p.a.Pools[at]
		p.pools[i] = pool
		p.add(lb.Step{Verb: lb.VerbUpdate, Kind: kindPool, Name: pool.Name, Part: port.Pool, ID: pool.UUID,
			Body: cloudscale.PoolPatch{Name: &port.Pool}, Changes: []lb.Change{{Field: "name", From: pool.Name, To: port.Pool}}})
	}
}

// port is all that has to be done for one port. The listener of a new pool comes
// last, so that whoever it lets in is served.
func (p *planner) port(i int) {
	if p.pools[i] == nil {
		p.createPool(&p.d.Ports[i])
	}
	p.members(i)
	p.monitor(i)
	p.listener(i)
	p.retire(i)
}

func (p *planner) createPool(port *compat.Port) {
	s := lb.Step{Verb: lb.VerbCreate, Kind: kindPool, Name: port.Pool, Part: port.Pool}
	body := cloudscale.NewPool{Name: port.Pool, Algorithm: port.Algorithm, Protocol: port.PoolProtocol, Tags: p.tags()}
	if p.own == nil {
		s.Refs = []lb.Ref{p.ref("load_balancer", kindLoadBalancer, p.d.Name)}
	} else {
		body.LoadBalancer = p.own.UUID
	}
	s.Body = body
	p.add(s)
}

// inPool makes a step one of a port's pool, whether it exists or not. The ID of
// one that does is returned.
func (p *planner) inPool(s *lb.Step, i int) string {
	port := &p.d.Ports[i]
	s.Part = port.Pool
	if p.pools[i] == nil {
		s.Refs = []lb.Ref{p.ref("pool", kindPool, port.Pool)}
		return ""
	}
	return p.pools[i].UUID
}

// listenerKey is what a listener is known by: a load balancer has one of each.
type listenerKey struct {
	Protocol string
	Port     int
}

func listenerKeyOf(l *cloudscale.Listener) listenerKey {
	return listenerKey{l.Protocol, l.ProtocolPort}
}

func wantedKey(p *compat.Port) listenerKey { return listenerKey{p.Protocol, p.Number} }

// listener makes the port answer, and takes ports off its pool that are no
// longer wanted.
func (p *planner) listener(i int) {
	port, kept := &p.d.Ports[i], false
	for _, l := range p.a.Listeners {
		if !p.gone[l.UUID] && !kept && listenerKeyOf(&l) == wantedKey(port) && p.leadsTo(&l, i) {
			p.patchListener(&l, port)
			kept = true
		}
	}
	if !kept {
		p.replaceListener(i)
	}
	for _, l := range p.a.Listeners {
		if !p.gone[l.UUID] && p.leadsTo(&l, i) && !p.isWanted(listenerKeyOf(&l)) {
			p.deleteListener(l, port.Pool, lb.ImpactNewConnections)
		}
	}
}

func (p *planner) leadsTo(l *cloudscale.Listener, i int) bool {
	return l.Pool != nil && p.pools[i] != nil && l.Pool.UUID == p.pools[i].UUID
}

func (p *planner) isWanted(k listenerKey) bool {
	return slices.ContainsFunc(p.d.Ports, func(port compat.Port) bool { return wantedKey(&port) == k })
}

// replaceListener makes a listener. One that has its port leads elsewhere, and
// cannot be led here: it has to go first.
func (p *planner) replaceListener(i int) {
	port := &p.d.Ports[i]
	impact := lb.ImpactNone
	for _, l := range p.a.Listeners {
		if p.gone[l.UUID] || listenerKeyOf(&l) != wantedKey(port) {
			continue
		}
		if impact = lb.ImpactSeconds; l.Pool == nil {
			impact = lb.ImpactNone
		}
		p.deleteListener(l, port.Pool, impact)
	}
	body := cloudscale.NewListener{
		Name: port.Listener, Protocol: port.Protocol, ProtocolPort: port.Number, AllowedCIDRs: port.AllowedCIDRs,
		TimeoutClientDataMS: port.ClientDataMS, TimeoutMemberConnectMS: port.MemberConnectMS, TimeoutMemberDataMS: port.MemberDataMS,
		Tags: p.tags(),
	}
	s := lb.Step{Verb: lb.VerbCreate, Kind: kindListener, Name: port.Listener, Impact: impact}
	body.Pool = p.inPool(&s, i)
	s.Body = body
	p.add(s)
}

func (p *planner) deleteListener(l cloudscale.Listener, part string, impact lb.Impact) {
	p.gone[l.UUID] = true
	p.add(lb.Step{Verb: lb.VerbDelete, Kind: kindListener, Name: cmp.Or(l.Name, l.UUID), Part: part, ID: l.UUID, Impact: impact})
}
