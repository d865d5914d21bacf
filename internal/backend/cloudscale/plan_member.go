package cloudscale

import (
	"net/netip"
	"slices"
	"time"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
)

const (
	// drainTime is how long a member that gets no new connections stays: the cloud
	// needs up to 20 seconds until it sends none.
	drainTime = 20 * time.Second
	// settleTime is how long a new member has to pass its first checks. As long as
	// none works, old ones stay.
	settleTime = time.Minute
	// settleLook is how often that is looked at.
	settleLook = 5 * time.Second
)

// memberKey is what of a member cannot be changed.
type memberKey struct {
	Address      netip.Addr
	Subnet       string
	ProtocolPort int
	MonitorPort  int
}

func memberKeyOf(m *cloudscale.Member) memberKey {
	k := memberKey{m.Address, m.Subnet.UUID, m.ProtocolPort, m.MonitorPort}
	if k.MonitorPort == 0 {
		k.MonitorPort = m.ProtocolPort
	}
	return k
}

func wantedMember(e endpoint, port *compat.Port) memberKey {
	return memberKey{e.Address, e.Subnet, port.NodePort, port.MonitorPort}
}

func (k memberKey) name() string {
	return netip.AddrPortFrom(k.Address, uint16(k.ProtocolPort)).String()
}

// members makes those that are missing, and sees to those that are there. The
// ones that are not wanted are left for retire.
func (p *planner) members(i int) {
	if p.d.KeepMembers && p.pools[i] != nil {
		return
	}
	port, have := &p.d.Ports[i], p.have(i)
	for _, e := range p.d.Endpoints {
		k := wantedMember(e, port)
		if m := first(have, k); m != nil {
			p.patchMember(i, m, k)
			continue
		}
		// A pool has one member for an address and a port. Where an old one is in
		// the way, retire replaces it.
		if !slices.ContainsFunc(have, k.isInTheWay) {
			p.createMember(i, k, lb.Step{})
		}
	}
}

// isInTheWay says whether m is not k, but has its place.
func (k memberKey) isInTheWay(m cloudscale.Member) bool {
	return m.Address == k.Address && m.ProtocolPort == k.ProtocolPort && memberKeyOf(&m) != k
}

// replacing says whether members of a port have to make place for others.
func (p *planner) replacing(i int) bool {
	return slices.ContainsFunc(p.d.Endpoints, func(e endpoint) bool {
		k := wantedMember(e, &p.d.Ports[i])
		return first(p.have(i), k) == nil && slices.ContainsFunc(p.have(i), k.isInTheWay)
	})
}

func (p *planner) have(i int) []cloudscale.Member {
	if p.pools[i] == nil {
		return nil
	}
	return p.a.Members[p.pools[i].UUID]
}

// first member with the key; any other is one too many.
func first(have []cloudscale.Member, k memberKey) *cloudscale.Member {
	if at := slices.IndexFunc(have, func(m cloudscale.Member) bool { return memberKeyOf(&m) == k }); at >= 0 {
		return &have[at]
	}
	return nil
}

func (p *planner) createMember(i int, k memberKey, s lb.Step) {
	s.Verb, s.Kind, s.Name = lb.VerbCreate, kindMember, k.name()
	s.In = p.inPool(&s, i)
	s.Body = cloudscale.NewMember{Name: k.name(), ProtocolPort: k.ProtocolPort, MonitorPort: k.MonitorPort, Address: k.Address, Subnet: k.Subnet, Tags: p.tags()}
	p.add(s)
}

// patchMember gives a wanted member its name back, and its connections.
func (p *planner) patchMember(i int, m *cloudscale.Member, k memberKey) {
	var changes []lb.Change
	patch := cloudscale.MemberPatch{
		Name:    differing(&changes, "name", m.Name, k.name()),
		Enabled: differing(&changes, "enabled", m.Enabled, true),
	}
	if len(changes) > 0 {
		s := lb.Step{Verb: lb.VerbUpdate, Kind: kindMember, Name: m.Name, ID: m.UUID, Body: patch, Changes: changes}
		s.In = p.inPool(&s, i)
		p.add(s)
	}
}

// retire sees off members that are not wanted: they get no new connections for a
// while, then they are deleted. One that works stays until another one does.
func (p *planner) retire(i int) {
	if p.d.KeepMembers || p.pools[i] == nil {
		return
	}
	port, have := &p.d.Ports[i], p.have(i)
	r := p.roster(port, have)
	for _, m := range have {
		if r.wanted[m.UUID] {
			continue
		}
		successor := r.replaces(&m)
		if !m.Enabled && successor == nil {
			p.deleteMember(i, &m, lb.Step{Later: p.undrained(&m)})
			continue
		}
		later, impact := r.leave(&m)
		if successor != nil {
			p.deleteMember(i, &m, lb.Step{Later: later, Impact: max(impact, lb.ImpactNewConnections)})
			p.createMember(i, *successor, lb.Step{Later: later, Impact: max(impact, lb.ImpactNewConnections)})
			continue
		}
		p.disableMember(i, &m, lb.Step{Later: later, Impact: impact})
		p.deleteMember(i, &m, lb.Step{Later: later + drainTime})
	}
}

// undrained is how long a disabled member has yet to stay. One that somebody else
// has disabled, or we in another life, has been so for long enough.
func (p *planner) undrained(m *cloudscale.Member) time.Duration {
	return min(max(p.a.Disabled[m.UUID].Add(drainTime).Sub(p.a.Now), 0), drainTime)
}

func (p *planner) disableMember(i int, m *cloudscale.Member, s lb.Step) {
	off := false
	s.Verb, s.Kind, s.Name, s.ID = lb.VerbUpdate, kindMember, m.Name, m.UUID
	s.Body = cloudscale.MemberPatch{Enabled: &off}
	s.Changes = []lb.Change{{Field: "enabled", From: "true", To: "false"}}
	s.In = p.inPool(&s, i)
	p.add(s)
}

func (p *planner) deleteMember(i int, m *cloudscale.Member, s lb.Step) {
	s.Verb, s.Kind, s.Name, s.ID = lb.VerbDelete, kindMember, m.Name, m.UUID
	s.In = p.inPool(&s, i)
	p.add(s)
}

// roster has the members of a pool that serve while some leave.
type roster struct {
	wanted  map[string]bool // by UUID
	missing []memberKey     // wanted ones that are not there yet
	serving map[string]bool // by UUID
	young   bool            // a wanted member is new, or not there yet
}

func (p *planner) roster(port *compat.Port, have []cloudscale.Member) *roster {
	r := &roster{wanted: map[string]bool{}, serving: map[string]bool{}}
	for _, e := range p.d.Endpoints {
		k := wantedMember(e, port)
		m := first(have, k)
		if m == nil {
			r.missing = append(r.missing, k)
			r.young = true
			continue
		}
		r.wanted[m.UUID] = true
		r.young = r.young || !m.Enabled || p.a.Now.Sub(m.CreatedAt) < settleTime
	}
	for _, m := range have {
		if m.Enabled && (m.MonitorStatus == "up" || m.MonitorStatus == "no_monitor" || m.MonitorStatus == "") {
			r.serving[m.UUID] = true
		}
	}
	return r
}

// replaces returns the missing member whose place m has, if there is one.
func (r *roster) replaces(m *cloudscale.Member) *memberKey {
	if at := slices.IndexFunc(r.missing, func(k memberKey) bool { return k.isInTheWay(*m) }); at >= 0 {
		return &r.missing[at]
	}
	return nil
}

// leave says when m may go, and what that costs.
func (r *roster) leave(m *cloudscale.Member) (later time.Duration, impact lb.Impact) {
	works := r.serving[m.UUID]
	others := len(r.serving)
	if works {
		others--
	}
	switch {
	case !works || others > 0:
	case len(r.wanted) == 0 && len(r.missing) == 0:
		impact = lb.ImpactMinutes // nobody is left
	case len(r.wanted) == 0 && len(r.missing) == 1 && r.replaces(m) != nil:
		impact = lb.ImpactSeconds // it is the only one, and in the way of the next
	case r.young:
		return settleLook, lb.ImpactNone
	default:
		impact = lb.ImpactNewConnections // the others had their time
	}
	delete(r.serving, m.UUID)
	return 0, impact
}
