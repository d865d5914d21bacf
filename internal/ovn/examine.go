package ovn

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"fairlead.io/internal/lb"
)

// View is how a Service stands in the database.
type View struct {
	// Plan makes it as it is to be. While something is in the way, it only takes away
	// addresses that the Service has no more.
	Plan lb.Plan

	RouterMissing   bool
	MissingSwitches []string
	GatewayMissing  bool
	// Conflicts are others' rows that keep the Service from its addresses. Contested are
	// those with addresses that the Service has all the same.
	Conflicts, Contested []Rival
	Outside              []netip.Addr // backends that the router does not reach
	Gateways             []string     // the router's gateway ports
	Version              string       // of northd
	// Had says that the Service has a row already, and Drift that it was as it is to be
	// when it was last looked at.
	Had, Drift bool
	// Unfiltered is why the Service's sources cannot be filtered; "" if they can be, or
	// need not be. Refused says that nothing is written for that.
	Unfiltered string
	Refused    bool
}

// Blocked says that nothing can be added.
func (v *View) Blocked() bool { return v.RouterMissing || len(v.Conflicts) > 0 || v.Refused }

// standing is what of a view is worth another look, besides its plan.
func (v *View) standing() string {
	if !v.Blocked() && !v.GatewayMissing && v.MissingSwitches == nil && v.Contested == nil && v.Outside == nil && v.Unfiltered == "" && len(v.Gateways) < 2 {
		return "" // as most are
	}
	return fmt.Sprint(v.RouterMissing, v.MissingSwitches, v.GatewayMissing, v.Conflicts, v.Contested, v.Outside, v.Unfiltered, len(v.Gateways))
}

// Kinds of objects in plans.
const (
	kindBalancer   = "load balancer"
	kindAttachment = "attachment"
)

// What steps do, in their Body.
type (
	// create inserts a row. Namesake says that another's row has the name already.
	create struct {
		row      *LoadBalancer
		owner    map[string]string
		namesake bool
	}
	// change sets columns of a row that has been seen as it was.
	change struct {
		was     *LoadBalancer
		columns map[string]any
		adopted bool
	}
	// attach and detach change what is on a router or switch. The row is known by its
	// UUID, or by the name of one that is created.
	attach struct {
		at        Holder
		uuid, row string
	}
	detach struct {
		at   Holder
		uuid string
	}
	// remove deletes a row; exact: only if it is still the same Service's.
	remove struct {
		was   *LoadBalancer
		exact bool
	}
)

// Examine compares what a Service is to have with what there is. It is a pure function.
func Examine(s *Service, seen *Seen) *View {
	v := &View{Had: len(seen.Owned) > 0, Version: seen.Version}
	if len(s.Listeners) == 0 {
		for _, l := range seen.Owned {
			v.remove(l, "")
		}
		v.filter(s, nil, seen)
		return v
	}
	rows, outside := s.rows(seen.Networks)
	v.Outside, v.RouterMissing, v.MissingSwitches, v.Gateways = outside, seen.RouterMissing, seen.MissingSwitches, seen.Gateways
	if v.RouterMissing {
		v.Outside = nil
		v.retract(s, seen)
		return v
	}
	v.GatewayMissing = !seen.GatewayRouter && len(seen.Gateways) == 0
	if s.Gateway != "" && !slices.Contains(seen.Gateways, s.Gateway) {
		v.GatewayMissing = true
	}
	matches := match(s, rows, seen)
	for _, r := range seen.Rivals {
		i := slices.IndexFunc(rows, func(row *LoadBalancer) bool { return row.Protocol == r.Protocol })
		m := matches[i]
		switch {
		case r.Elsewhere && slices.ContainsFunc(seen.Owned, func(l *LoadBalancer) bool { return l.hasAddress(r.VIP) }):
			v.Contested = append(v.Contested, r)
		case m.was != nil && m.was.UUID == r.UUID: // it is about to be ours
		case m.was != nil && !m.adopted && has(m.was.VIPs, r.VIP):
			v.Contested = append(v.Contested, r)
		default:
			v.Conflicts = append(v.Conflicts, r)
		}
	}
	drops, why := s.drops()
	v.Unfiltered = cmp.Or(why, unguarded(seen.Entrances))
	v.Refused = s.Strict && v.Unfiltered != ""
	if v.Blocked() {
		v.retract(s, seen)
		return v
	}
	v.plan(s, rows, matches, seen)
	if why == "" { // else a filter that is there stays: it is better than none
		v.filter(s, drops, seen)
	}
	return v
}

func has(m map[string]string, key string) bool { _, ok := m[key]; return ok }

// matched is the row that is to become a wanted one; none is created.
type matched struct {
	was     *LoadBalancer
	adopted bool
}

// match finds for each wanted row the one that is there: the Service's own with its name
// or else its protocol, or one to be taken over.
func match(s *Service, rows []*LoadBalancer, seen *Seen) []matched {
	out := make([]matched, len(rows))
	taken := set{}
	find := func(fits func(row, l *LoadBalancer) bool) {
		for i, row := range rows {
			if out[i].was != nil {
				continue
			}
			for _, l := range seen.Owned {
				if !taken.has(l.UUID) && fits(row, l) {
					out[i].was = l
					taken[l.UUID] = struct{}{}
					break
				}
			}
		}
	}
	find(func(row, l *LoadBalancer) bool { return l.Name == row.Name })
	find(func(row, l *LoadBalancer) bool { return l.protocol() == row.Protocol })
	for i, row := range rows {
		if out[i].was != nil {
			continue
		}
		for _, l := range seen.Others {
			if l.Name == row.Name && l.protocol() == row.Protocol && s.mayTakeOver(l) {
				out[i] = matched{l, true}
				break
			}
		}
	}
	return out
}

// mayTakeOver says whether another controller has made a row for this Service.
func (s *Service) mayTakeOver(l *LoadBalancer) bool {
	if l.ExternalIDs[KeyVendor] == Vendor || len(l.VIPs) == 0 {
		return false
	}
	for vip := range l.VIPs {
		if !slices.Contains(s.TakeOver, vipAddr(vip)) {
			return false
		}
	}
	return true
}

// plan has all steps: they are one transaction.
func (v *View) plan(s *Service, rows []*LoadBalancer, matches []matched, seen *Seen) {
	kept := set{}
	for i, row := range rows {
		m := matches[i]
		if m.was == nil {
			namesake := slices.ContainsFunc(seen.Others, func(l *LoadBalancer) bool { return l.Name == row.Name })
			v.add(lb.Step{Verb: lb.VerbCreate, Kind: kindBalancer, Name: row.Name, Why: "for " + strings.Join(slices.Sorted(maps.Keys(row.VIPs)), ", "),
				Body: create{row, s.identity(seen.Cluster), namesake}})
			for _, h := range seen.Holders {
				v.attach(row.Name, "", h)
			}
			continue
		}
		kept[m.was.UUID] = struct{}{}
		v.update(s, row, m, seen.Cluster)
		for _, h := range seen.Holders {
			if !slices.Contains(seen.Held[m.was.UUID], h) {
				v.attach(row.Name, m.was.UUID, h)
			}
		}
		for _, h := range seen.Held[m.was.UUID] {
			if !slices.Contains(seen.Holders, h) {
				v.add(lb.Step{Verb: lb.VerbDelete, Kind: kindAttachment, Name: "to " + h.String(), Part: row.Name, ID: m.was.UUID, Impact: lb.ImpactNewConnections, Body: detach{h, m.was.UUID}})
			}
		}
	}
	for _, l := range seen.Owned {
		if !kept.has(l.UUID) {
			why := ""
			if slices.ContainsFunc(rows, func(row *LoadBalancer) bool { return row.Protocol == l.protocol() }) {
				why = "the Service has another one for this protocol"
			}
			v.remove(l, why)
		}
	}
}

func (v *View) add(s lb.Step) { v.Plan.Steps = append(v.Plan.Steps, s) }

func (v *View) attach(name, uuid string, h Holder) {
	v.add(lb.Step{Verb: lb.VerbCreate, Kind: kindAttachment, Name: "to " + h.String(), Part: name, ID: uuid, Body: attach{at: h, uuid: uuid, row: name}})
}

func (v *View) remove(l *LoadBalancer, why string) {
	s := lb.Step{Verb: lb.VerbDelete, Kind: kindBalancer, Name: l.Name, ID: l.UUID, Why: why, Body: remove{was: l}}
	if why == "" {
		s.Impact = lb.ImpactNewConnections
	}
	v.add(s)
}
