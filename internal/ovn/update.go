package ovn

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"fairlead.io/internal/lb"
	"fairlead.io/internal/ovsdb"
)

// update sets the columns in which a row differs from the wanted one.
func (v *View) update(s *Service, row *LoadBalancer, m matched, cluster string) {
	was, columns := m.was, map[string]any{}
	step := lb.Step{Verb: lb.VerbUpdate, Kind: kindBalancer, Name: row.Name, ID: was.UUID}
	note := func(column string, value any, changes ...lb.Change) {
		columns[column] = value
		step.Changes = append(step.Changes, changes...)
	}
	if was.Name != row.Name {
		note("name", row.Name, lb.Change{Field: "name", From: was.Name, To: row.Name})
	}
	if was.protocol() != row.Protocol {
		note("protocol", row.Protocol, lb.Change{Field: "protocol", From: was.protocol(), To: row.Protocol})
		step.Impact = lb.ImpactNewConnections
	}
	if changes, removed := vipChanges(was.VIPs, row.VIPs); len(changes) > 0 {
		note("vips", ovsdb.MapOf(row.VIPs), changes...)
		if removed {
			step.Impact = lb.ImpactNewConnections
		}
	}
	if !maps.Equal(was.Options, row.Options) {
		note("options", ovsdb.MapOf(row.Options), mapChanges("options:", was.Options, row.Options)...)
	}
	ids := maps.Clone(was.ExternalIDs)
	maps.Copy(ids, s.identity(cluster))
	if !maps.Equal(was.ExternalIDs, ids) {
		note("external_ids", ovsdb.MapOf(ids), mapChanges("external_ids:", was.ExternalIDs, ids)...)
	}
	// Others may have put these there: a health check takes backends out that OVN cannot
	// probe, and selection fields make clients change their backends.
	if len(was.HealthChecks) > 0 {
		note("health_check", ovsdb.SetOf(), lb.Change{Field: "health_check", From: strings.Join(was.HealthChecks, ","), To: nothing})
	}
	if len(was.IPPortMappings) > 0 {
		note("ip_port_mappings", ovsdb.MapOf(nil), mapChanges("ip_port_mappings:", was.IPPortMappings, nil)...)
	}
	if len(was.Selection) > 0 {
		note("selection_fields", ovsdb.SetOf(), lb.Change{Field: "selection_fields", From: strings.Join(was.Selection, ","), To: nothing})
	}
	if len(columns) == 0 {
		return
	}
	if m.adopted {
		step.Why = "taken over in place"
	}
	step.Body = change{was, columns, m.adopted}
	v.add(step)
}

// retract takes VIPs away whose addresses the Service has no more: they may be somebody
// else's by now, whatever keeps the Service from its new ones.
func (v *View) retract(s *Service, seen *Seen) {
	for _, l := range seen.Owned {
		kept := maps.Clone(l.VIPs)
		maps.DeleteFunc(kept, func(vip, _ string) bool {
			return !slices.ContainsFunc(s.Listeners, func(have Listener) bool { return have.VIP.Addr() == vipAddr(vip) })
		})
		changes, removed := vipChanges(l.VIPs, kept)
		switch {
		case !removed:
		case len(kept) == 0:
			v.remove(l, "")
		default:
			v.add(lb.Step{Verb: lb.VerbUpdate, Kind: kindBalancer, Name: l.Name, ID: l.UUID, Impact: lb.ImpactNewConnections, Changes: changes,
				Body: change{l, map[string]any{"vips": ovsdb.MapOf(kept)}, false}})
		}
	}
}

// nothing is how plans show what is not there.
const nothing = "none"

func vipChanges(was, now map[string]string) (changes []lb.Change, removed bool) {
	for _, vip := range slices.Sorted(maps.Keys(now)) {
		if old, has := was[vip]; !has || !sameBackends(old, now[vip]) {
			changes = append(changes, lb.Change{Field: vip, From: cmp.Or(old, nothing), To: cmp.Or(now[vip], nothing)})
		}
	}
	for _, vip := range slices.Sorted(maps.Keys(was)) {
		if _, has := now[vip]; !has {
			changes, removed = append(changes, lb.Change{Field: vip, From: cmp.Or(was[vip], nothing), To: "removed"}), true
		}
	}
	return changes, removed
}

func mapChanges(prefix string, was, now map[string]string) []lb.Change {
	both := maps.Clone(was)
	if both == nil {
		both = map[string]string{}
	}
	maps.Copy(both, now)
	var out []lb.Change
	for _, k := range slices.Sorted(maps.Keys(both)) {
		if was[k] != now[k] || has(was, k) != has(now, k) {
			out = append(out, lb.Change{Field: prefix + k, From: cmp.Or(was[k], nothing), To: cmp.Or(now[k], nothing)})
		}
	}
	return out
}
