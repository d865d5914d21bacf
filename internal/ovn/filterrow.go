package ovn

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"fairlead.io/internal/ovsdb"
)

// filters are the port groups of ours, their rules, and the switch ports that lead to
// routers, as the database has them.
type filters struct {
	groups map[string]*portGroup
	rules  map[string]*rule
	ports  map[string]string // switch port → the router's port that it leads to

	byOwner multi // Service → port groups
	byRule  multi // rule → port groups
	peers   multi // router's port → switch ports
}

type portGroup struct {
	name         string
	ports, rules set
	ids          map[string]string
}

type rule struct {
	Rule
	ids map[string]string
}

func newFilters() filters {
	return filters{groups: map[string]*portGroup{}, rules: map[string]*rule{}, ports: map[string]string{}, byOwner: multi{}, byRule: multi{}, peers: multi{}}
}

// applyPortGroup changes one of our port groups.
func (r *replica) applyPortGroup(id string, u ovsdb.RowUpdate, t *touched) {
	g := r.filters.groups[id]
	if g == nil {
		g = &portGroup{ports: set{}, rules: set{}, ids: map[string]string{}}
	}
	touch := func(do func(multi, string, string)) {
		if owner := ownerOf(g.ids, r.cluster); owner != "" {
			do(r.filters.byOwner, owner, id)
			t.owners[owner] = struct{}{}
		}
	}
	touch(multi.remove)
	if u.Change == ovsdb.Deleted {
		u.Columns = map[string]ovsdb.Value{"acls": {Set: slices.Collect(maps.Keys(g.rules))}}
	}
	for column, v := range u.Columns {
		switch column {
		case "name":
			g.name = v.String()
		case "ports":
			ovsdb.ApplySet(g.ports, v.Set)
		case "acls":
			added, removed := ovsdb.ApplySet(g.rules, v.Set)
			for _, a := range added {
				r.filters.byRule.add(a, id)
			}
			for _, a := range removed {
				r.filters.byRule.remove(a, id)
			}
		case "external_ids":
			ovsdb.ApplyMap(g.ids, v.Map)
		}
	}
	if u.Change == ovsdb.Deleted {
		delete(r.filters.groups, id)
		return
	}
	r.filters.groups[id] = g
	touch(multi.add)
}

// applyRule changes one of our rules. It concerns who has a port group with it.
func (r *replica) applyRule(id string, u ovsdb.RowUpdate, t *touched) {
	for group := range r.filters.byRule[id] {
		if g := r.filters.groups[group]; g != nil {
			if owner := ownerOf(g.ids, r.cluster); owner != "" {
				t.owners[owner] = struct{}{}
			}
		}
	}
	if u.Change == ovsdb.Deleted {
		delete(r.filters.rules, id)
		return
	}
	a := r.filters.rules[id]
	if a == nil {
		a = &rule{Rule: Rule{UUID: id}, ids: map[string]string{}}
		r.filters.rules[id] = a
	}
	for column, v := range u.Columns {
		switch column {
		case "direction":
			a.Direction = v.String()
		case "action":
			a.Action = v.String()
		case "match":
			a.Match = v.String()
		case "priority":
			a.Priority, _ = strconv.Atoi(v.String())
		case "external_ids":
			ovsdb.ApplyMap(a.ids, v.Map)
		}
	}
}

// applySwitchPort changes where a switch port leads. It concerns all on the router.
func (r *replica) applySwitchPort(id string, u ovsdb.RowUpdate, t *touched) {
	before := r.filters.ports[id]
	after := before
	if difference, has := u.Columns["options"]; has {
		options := map[string]string{}
		if before != "" {
			options[optionRouterPort] = before
		}
		if to, has := difference.Map[optionRouterPort]; has {
			ovsdb.ApplyMap(options, map[string]string{optionRouterPort: to})
		}
		after = options[optionRouterPort]
	}
	if u.Change == ovsdb.Deleted {
		after = ""
	}
	if before == after {
		return
	}
	if before != "" {
		delete(r.filters.ports, id)
		r.filters.peers.remove(before, id)
		r.touchPortNamed(before, t)
	}
	if after != "" {
		r.filters.ports[id] = after
		r.filters.peers.add(after, id)
		r.touchPortNamed(after, t)
	}
}

// optionRouterPort is where a switch port says which router's port it leads to.
const optionRouterPort = "router-port"

func (r *replica) touchPortNamed(name string, t *touched) {
	for id := range r.portsByName[name] {
		for router := range r.ownerOfPort[id] {
			if h := r.holders[router]; h != nil {
				t.holders[holderKey(h.table(), h.name)] = struct{}{}
			}
		}
	}
}

// observeFilters looks for the Service's filters, and for where packets come in. A router
// that is on one chassis as a whole is entered by any of its ports, others by those with
// gateway chassis.
func (r *replica) observeFilters(s *Service, out *Seen) {
	for _, id := range slices.Sorted(maps.Keys(r.filters.byOwner[s.Key()])) {
		g := r.filters.groups[id]
		f := &Filter{UUID: id, Name: g.name, Ports: slices.Sorted(maps.Keys(g.ports)), ExternalIDs: maps.Clone(g.ids)}
		for a := range g.rules {
			seen := Rule{UUID: a}
			if known := r.filters.rules[a]; known != nil {
				seen = known.Rule
			}
			f.Rules = append(f.Rules, seen)
		}
		slices.SortFunc(f.Rules, compareRules)
		out.Filters = append(out.Filters, f)
	}
	if !s.Restricted {
		return
	}
	for _, h := range out.Holders {
		if h.Table != tableRouter {
			continue
		}
		whole := r.holders[h.UUID].options["chassis"] != ""
		for id := range r.holders[h.UUID].ports {
			if p := r.ports[id]; p != nil && (whole || p.gateway()) {
				out.Entrances = append(out.Entrances, Entrance{p.name, slices.Sorted(maps.Keys(r.filters.peers[p.name]))})
			}
		}
	}
	slices.SortFunc(out.Entrances, func(a, b Entrance) int { return strings.Compare(a.Port, b.Port) })
}
