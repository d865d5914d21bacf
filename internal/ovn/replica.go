package ovn

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"fairlead.io/internal/ovsdb"
)

// set is a set of UUIDs or names.
type set map[string]struct{}

func (s set) has(k string) bool { _, ok := s[k]; return ok }

// multi has several UUIDs by one key.
type multi map[string]set

func (m multi) add(key, id string) {
	if m[key] == nil {
		m[key] = set{}
	}
	m[key][id] = struct{}{}
}

func (m multi) remove(key, id string) {
	if delete(m[key], id); len(m[key]) == 0 {
		delete(m, key)
	}
}

// replica is the copy of the database. It is not safe for concurrent use.
type replica struct {
	cluster string
	schema  ovsdb.Schema

	balancers map[string]*LoadBalancer
	holders   map[string]*holder
	ports     map[string]*port
	groups    map[string]set // members by group
	nbCfg     int64
	sbCfg     int64
	version   string // of northd

	filters filters

	byOwner, byName, byVIP multi // load balancers
	byAddress              multi // those of this cluster, by the addresses of their VIPs
	byHolderName           multi // "table name" → holders
	heldBy                 multi // load balancer → holders
	groupedBy              multi // load balancer → groups
	ownerOfPort            multi // port → routers
	portsByName            multi // a router's port by name
}

func newReplica(cluster string, schema ovsdb.Schema) *replica {
	return &replica{cluster: cluster, schema: schema,
		balancers: map[string]*LoadBalancer{}, holders: map[string]*holder{}, ports: map[string]*port{}, groups: map[string]set{}, filters: newFilters(),
		byOwner: multi{}, byName: multi{}, byVIP: multi{}, byAddress: multi{}, byHolderName: multi{}, heldBy: multi{}, groupedBy: multi{}, ownerOfPort: multi{}, portsByName: multi{}}
}

// touched is what an update concerns.
type touched struct {
	owners     set // Services that have, or had, a row that changed
	names      set // names of rows that changed
	vips       set // of rows that came or went, or whose holders changed
	addresses  set // of such rows, if they are of this cluster
	holders    set // "table name" of routers and switches of which all must be looked at
	balancers  set // load balancers that were attached or detached
	programmed bool
}

func newTouched() *touched {
	return &touched{owners: set{}, names: set{}, vips: set{}, addresses: set{}, holders: set{}, balancers: set{}}
}

// apply changes the copy as the database says.
func (r *replica) apply(updates ovsdb.Updates) *touched {
	t := newTouched()
	for id, u := range updates[tableLoadBalancer] {
		r.applyBalancer(id, u, t)
	}
	for id, u := range updates[tableGroup] {
		r.applyGroup(id, u, t)
	}
	for id, u := range updates[tablePort] {
		r.applyPort(id, u, t)
	}
	for id, u := range updates[tableRouter] {
		r.applyHolder(id, false, u, t)
	}
	for id, u := range updates[tableSwitch] {
		r.applyHolder(id, true, u, t)
	}
	for id, u := range updates[tableSwitchPort] {
		r.applySwitchPort(id, u, t)
	}
	for id, u := range updates[tablePortGroup] {
		r.applyPortGroup(id, u, t)
	}
	for id, u := range updates[tableACL] {
		r.applyRule(id, u, t)
	}
	for _, u := range updates[tableGlobal] {
		r.applyGlobal(u, t)
	}
	for id := range t.balancers {
		if l := r.balancers[id]; l != nil {
			r.touch(l, t)
		}
	}
	return t
}

// touch notes whom a row concerns.
func (r *replica) touch(l *LoadBalancer, t *touched) {
	if owner := l.owner(r.cluster); owner != "" {
		t.owners[owner] = struct{}{}
		for vip := range l.VIPs {
			t.addresses[vipAddr(vip).String()] = struct{}{}
		}
	}
	t.names[l.Name] = struct{}{}
	for vip := range l.VIPs {
		t.vips[vipKey(vip)] = struct{}{}
	}
}

func (r *replica) applyBalancer(id string, u ovsdb.RowUpdate, t *touched) {
	old := r.balancers[id]
	if old != nil {
		r.touch(old, t)
		r.index(old, multi.remove)
		delete(r.balancers, id)
	}
	if u.Change == ovsdb.Deleted {
		return
	}
	l := &LoadBalancer{UUID: id, VIPs: map[string]string{}, Options: map[string]string{}, ExternalIDs: map[string]string{}, IPPortMappings: map[string]string{}}
	if old != nil && u.Change == ovsdb.Modified {
		l = old
	}
	for column, v := range u.Columns {
		switch column {
		case "name":
			l.Name = v.String()
		case "protocol":
			l.Protocol = v.String()
		case "vips":
			ovsdb.ApplyMap(l.VIPs, v.Map)
		case "options":
			ovsdb.ApplyMap(l.Options, v.Map)
		case "external_ids":
			ovsdb.ApplyMap(l.ExternalIDs, v.Map)
		case "ip_port_mappings":
			ovsdb.ApplyMap(l.IPPortMappings, v.Map)
		case "health_check":
			l.HealthChecks = toggled(l.HealthChecks, v.Set)
		case "selection_fields":
			l.Selection = toggled(l.Selection, v.Set)
		}
	}
	r.balancers[id] = l
	r.index(l, multi.add)
	r.touch(l, t)
}

// toggled applies a difference to a sorted list.
func toggled(list, difference []string) []string {
	members := set{}
	for _, m := range list {
		members[m] = struct{}{}
	}
	ovsdb.ApplySet(members, difference)
	return slices.Sorted(maps.Keys(members))
}

// index adds or removes a row.
func (r *replica) index(l *LoadBalancer, do func(multi, string, string)) {
	if owner := l.owner(r.cluster); owner != "" {
		do(r.byOwner, owner, l.UUID)
		for vip := range l.VIPs {
			do(r.byAddress, vipAddr(vip).String(), l.UUID)
		}
	}
	do(r.byName, l.Name, l.UUID)
	for vip := range l.VIPs {
		do(r.byVIP, vipKey(vip), l.UUID)
	}
}

func (r *replica) applyGroup(id string, u ovsdb.RowUpdate, t *touched) {
	if r.groups[id] == nil {
		r.groups[id] = set{}
	}
	difference := u.Columns["load_balancer"].Set
	if u.Change == ovsdb.Deleted {
		difference = slices.Collect(maps.Keys(r.groups[id]))
	}
	added, removed := ovsdb.ApplySet(r.groups[id], difference)
	for _, l := range added {
		r.groupedBy.add(l, id)
		t.balancers[l] = struct{}{}
	}
	for _, l := range removed {
		r.groupedBy.remove(l, id)
		t.balancers[l] = struct{}{}
	}
	if u.Change == ovsdb.Deleted {
		delete(r.groups, id)
	}
}

func holderKey(table, name string) string { return table + " " + name }

func (r *replica) applyHolder(id string, isSwitch bool, u ovsdb.RowUpdate, t *touched) {
	h := r.holders[id]
	all := h == nil || u.Change == ovsdb.Deleted
	if h == nil {
		if u.Change == ovsdb.Deleted {
			return
		}
		h = &holder{uuid: id, isSwitch: isSwitch, balancers: set{}, groups: set{}, ports: set{}, options: map[string]string{}}
		r.holders[id] = h
	} else {
		r.byHolderName.remove(holderKey(h.table(), h.name), id)
	}
	before := holderKey(h.table(), h.name)
	if u.Change == ovsdb.Deleted {
		u.Columns = map[string]ovsdb.Value{
			"load_balancer": {Set: slices.Collect(maps.Keys(h.balancers))},
			"ports":         {Set: slices.Collect(maps.Keys(h.ports))},
		}
	}
	for column, v := range u.Columns {
		switch column {
		case "name":
			h.name, all = v.String(), true
		case "load_balancer":
			added, removed := ovsdb.ApplySet(h.balancers, v.Set)
			for _, l := range added {
				r.heldBy.add(l, id)
				t.balancers[l] = struct{}{}
			}
			for _, l := range removed {
				r.heldBy.remove(l, id)
				t.balancers[l] = struct{}{}
			}
		case "load_balancer_group":
			ovsdb.ApplySet(h.groups, v.Set)
			all = true
		case "ports":
			added, removed := ovsdb.ApplySet(h.ports, v.Set)
			for _, p := range added {
				r.ownerOfPort.add(p, id)
			}
			for _, p := range removed {
				r.ownerOfPort.remove(p, id)
			}
			all = true
		case "options":
			if !isSwitch {
				ovsdb.ApplyMap(h.options, v.Map)
				all = true
			}
		}
	}
	after := holderKey(h.table(), h.name)
	if u.Change == ovsdb.Deleted {
		delete(r.holders, id)
	} else {
		r.byHolderName.add(after, id)
	}
	if all {
		t.holders[before], t.holders[after] = struct{}{}, struct{}{}
	}
}

func (r *replica) applyPort(id string, u ovsdb.RowUpdate, t *touched) {
	for router := range r.ownerOfPort[id] {
		if h := r.holders[router]; h != nil {
			t.holders[holderKey(h.table(), h.name)] = struct{}{}
		}
	}
	p := r.ports[id]
	if u.Change == ovsdb.Deleted {
		if p != nil {
			r.portsByName.remove(p.name, id)
		}
		delete(r.ports, id)
		return
	}
	if p == nil {
		p = &port{uuid: id, sets: map[string]set{}}
		r.ports[id] = p
		r.portsByName.add(p.name, id)
	}
	for column, v := range u.Columns {
		if column == "name" {
			r.portsByName.remove(p.name, id)
			p.name = v.String()
			r.portsByName.add(p.name, id)
			continue
		}
		if column == "ha_chassis_group" { // at most one: the value, not a difference
			p.sets[column] = nil
		}
		if p.sets[column] == nil {
			p.sets[column] = set{}
		}
		ovsdb.ApplySet(p.sets[column], v.Set)
	}
	p.readNetworks()
}

// readNetworks reads the networks that the port is in.
func (p *port) readNetworks() {
	p.networks = nil
	for text := range p.sets["networks"] {
		if n, err := netip.ParsePrefix(text); err == nil {
			p.networks = append(p.networks, n.Masked())
		}
	}
}

// gateway says that the port is bound to gateway chassis.
func (p *port) gateway() bool {
	return len(p.sets["gateway_chassis"]) > 0 || len(p.sets["ha_chassis_group"]) > 0
}

func (r *replica) applyGlobal(u ovsdb.RowUpdate, t *touched) {
	if v, has := u.Columns["nb_cfg"]; has {
		r.nbCfg, _ = strconv.ParseInt(v.String(), 10, 64)
	}
	if v, has := u.Columns["sb_cfg"]; has {
		r.sbCfg, _ = strconv.ParseInt(v.String(), 10, 64)
		t.programmed = true
	}
	if v, has := u.Columns["options"]; has {
		// Of a difference only what northd sets is of interest; it never removes it.
		if version, has := v.Map["northd_internal_version"]; has {
			r.version = version
		}
	}
}
