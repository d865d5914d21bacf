package ovn

import (
	"maps"
	"slices"
	"strconv"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovsdb"
)

// transaction turns plans of several Services into operations. What all of them attach to
// one router is one operation: its set of load balancers is long.
type transaction struct {
	guards, rows []ovsdb.Operation
	guarded      set
	attached     map[Holder][]any
	detached     map[Holder][]any
	created      int
}

func newTransaction() *transaction {
	return &transaction{guarded: set{}, attached: map[Holder][]any{}, detached: map[Holder][]any{}}
}

// add has the steps of one plan. Guards fail the transaction if the database is not any
// more as the plan was made for.
func (t *transaction) add(p lb.Plan) {
	named := map[string]any{}
	for _, s := range p.Steps {
		switch b := s.Body.(type) {
		case create:
			where := ovsdb.Where{{"name", "==", b.row.Name}}
			if b.namesake {
				where = ovsdb.Where{{"external_ids", "includes", ovsdb.MapOf(map[string]string{
					KeyCluster: b.owner[KeyCluster], KeyService: b.owner[KeyService]})}, {"name", "==", b.row.Name}}
			}
			t.guards = append(t.guards, ovsdb.AssertNot(tableLoadBalancer, where, ovsdb.Row{"name": b.row.Name}))
			t.created++
			name := "row" + strconv.Itoa(t.created)
			named[b.row.Name] = ovsdb.NamedUUID(name)
			t.rows = append(t.rows, ovsdb.Insert(tableLoadBalancer, name, ovsdb.Row{
				"name": b.row.Name, "protocol": b.row.Protocol, "vips": ovsdb.MapOf(b.row.VIPs),
				"options": ovsdb.MapOf(b.row.Options), "external_ids": ovsdb.MapOf(b.owner),
			}))
		case change:
			t.guardRow(b.was, b.adopted)
			t.rows = append(t.rows, ovsdb.Update(tableLoadBalancer, ovsdb.ByUUID(b.was.UUID), b.columns))
		case attach:
			t.guardHolder(b.at)
			row := named[b.row]
			if b.uuid != "" {
				row = ovsdb.UUID(b.uuid)
			}
			t.attached[b.at] = append(t.attached[b.at], row)
		case detach:
			t.detached[b.at] = append(t.detached[b.at], ovsdb.UUID(b.uuid))
		case remove:
			if b.exact {
				t.guards = append(t.guards, ovsdb.Assert(tableLoadBalancer, ovsdb.ByUUID(b.was.UUID), ovsdb.Row{"external_ids": ovsdb.MapOf(b.was.ExternalIDs)}))
			}
			t.rows = append(t.rows, ovsdb.Delete(tableLoadBalancer, ovsdb.ByUUID(b.was.UUID)))
		default:
			t.addFilter(b)
		}
	}
}

// addFilter has the steps about filters. Rules that no port group has any more are gone:
// the database removes them.
func (t *transaction) addFilter(body any) {
	switch b := body.(type) {
	case createFilter:
		// The name is ours alone. A row that has it and does not say so was changed.
		t.rows = append(t.rows, ovsdb.Delete(tablePortGroup, ovsdb.Where{{"name", "==", b.name}}))
		rules := t.addRules(b.matches, b.owner)
		t.rows = append(t.rows, ovsdb.Insert(tablePortGroup, "", ovsdb.Row{
			"name": b.name, "ports": uuids(b.ports), "acls": rules, "external_ids": ovsdb.MapOf(b.owner),
		}))
	case changeFilter:
		t.guards = append(t.guards, ovsdb.Assert(tablePortGroup, ovsdb.ByUUID(b.was.UUID), ovsdb.Row{"name": b.was.Name}))
		columns := ovsdb.Row(maps.Clone(b.columns))
		if b.matches != nil {
			columns["acls"] = t.addRules(b.matches, b.owner)
		}
		t.rows = append(t.rows, ovsdb.Update(tablePortGroup, ovsdb.ByUUID(b.was.UUID), columns))
	case removeFilter:
		if b.exact {
			t.guards = append(t.guards, ovsdb.Assert(tablePortGroup, ovsdb.ByUUID(b.was.UUID), ovsdb.Row{"external_ids": ovsdb.MapOf(b.was.ExternalIDs)}))
		}
		t.rows = append(t.rows, ovsdb.Delete(tablePortGroup, ovsdb.ByUUID(b.was.UUID)))
	}
}

// addRules inserts rules, and returns them as a set.
func (t *transaction) addRules(matches []string, owner map[string]string) any {
	rules := make([]any, len(matches))
	for i, m := range matches {
		t.created++
		name := "row" + strconv.Itoa(t.created)
		rules[i] = ovsdb.NamedUUID(name)
		t.rows = append(t.rows, ovsdb.Insert(tableACL, name, ovsdb.Row{
			"direction": ruleDirection, "priority": rulePriority, "match": m, "action": ruleAction, "external_ids": ovsdb.MapOf(owner),
		}))
	}
	return ovsdb.SetOf(rules...)
}

func uuids(ids []string) any {
	atoms := make([]any, len(ids))
	for i, id := range ids {
		atoms[i] = ovsdb.UUID(id)
	}
	return ovsdb.SetOf(atoms...)
}

// guardRow fails unless the row is still there. One that is taken over must still be as
// it was seen: its owner may be writing it.
func (t *transaction) guardRow(l *LoadBalancer, adopted bool) {
	row := ovsdb.Row{"name": l.Name}
	if adopted {
		row["vips"], row["external_ids"] = ovsdb.MapOf(l.VIPs), ovsdb.MapOf(l.ExternalIDs)
	}
	t.guards = append(t.guards, ovsdb.Assert(tableLoadBalancer, ovsdb.ByUUID(l.UUID), row))
}

func (t *transaction) guardHolder(h Holder) {
	if !t.guarded.has(h.UUID) {
		t.guarded[h.UUID] = struct{}{}
		t.guards = append(t.guards, ovsdb.Assert(h.Table, ovsdb.ByUUID(h.UUID), ovsdb.Row{"name": h.Name}))
	}
}

// operations of the transaction. The last one reads nb_cfg, which is raised by one: northd
// copies it to sb_cfg when it has done its part.
func (t *transaction) operations() []ovsdb.Operation {
	out := slices.Concat(t.guards, t.rows)
	mutate := func(of map[Holder][]any, operator string) {
		for _, h := range slices.SortedFunc(maps.Keys(of), compareHolders) {
			out = append(out, ovsdb.Mutate(h.Table, ovsdb.ByUUID(h.UUID), "load_balancer", operator, ovsdb.SetOf(of[h]...)))
		}
	}
	mutate(t.detached, "delete")
	mutate(t.attached, "insert")
	return append(out, ovsdb.Mutate(tableGlobal, ovsdb.All(), "nb_cfg", "+=", 1), ovsdb.Select(tableGlobal, ovsdb.All(), "nb_cfg"))
}
