package ovn

import (
	"fmt"
	"slices"

	"fairlead.io/internal/ovsdb"
)

// needed are the columns without which nothing works; all are in OVN 23.03.
var needed = map[string][]string{
	tableLoadBalancer: {"name", "vips", "protocol", "external_ids", "options"},
	tableRouter:       {"name", "load_balancer", "ports", "options"},
	tableSwitch:       {"name", "load_balancer"},
	tablePort:         {"name", "networks", "gateway_chassis"},
	tableSwitchPort:   {"name", "options"},
	tablePortGroup:    {"name", "ports", "acls", "external_ids"},
	tableACL:          {"direction", "priority", "match", "action", "external_ids"},
	tableGlobal:       {"nb_cfg", "sb_cfg"},
}

// used are columns that are monitored where the database has them. Without them, what
// others write there cannot be, and need not be seen.
var used = map[string][]string{
	tableLoadBalancer: {"health_check", "ip_port_mappings", "selection_fields"},
	tableRouter:       {"load_balancer_group"},
	tableSwitch:       {"load_balancer_group"},
	tablePort:         {"ha_chassis_group"},
	tableGroup:        {"load_balancer"},
	tableGlobal:       {"options"},
}

// limited has conditions for the rows of tables that are long, as they have something for every pod or
// every network policy of a cluster.
var limited = map[string]ovsdb.Where{
	tableSwitchPort: {{"type", "==", "router"}},
	tablePortGroup:  {{"external_ids", "includes", ovsdb.MapOf(map[string]string{KeyVendor: Vendor})}},
	tableACL:        {{"external_ids", "includes", ovsdb.MapOf(map[string]string{KeyVendor: Vendor})}},
}

// monitored chooses what to monitor of a database.
func monitored(s ovsdb.Schema) (map[string]ovsdb.Monitored, error) {
	out := map[string]ovsdb.Monitored{}
	for table, columns := range needed {
		for _, c := range columns {
			if !s.Has(table, c) {
				return nil, fmt.Errorf("the database (schema %s) has no column %s in table %s: OVN 23.03 or later is needed", s.Version, c, table)
			}
		}
		out[table] = ovsdb.Monitored{Columns: slices.Clone(columns), Where: limited[table]}
	}
	for table, columns := range used {
		for _, c := range columns {
			if s.Has(table, c) {
				m := out[table]
				m.Columns = append(m.Columns, c)
				out[table] = m
			}
		}
	}
	return out, nil
}
