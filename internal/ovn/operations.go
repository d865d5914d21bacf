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
		}
	}
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
