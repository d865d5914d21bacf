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

// columnsOf chooses what to monitor of a database.
func columnsOf(s ovsdb.Schema) (map[string][]string, error) {
	out := map[string][]string{}
	for table, columns := range needed {
		for _, c := range columns {
			if !s.Has(table, c) {
				return nil, fmt.Errorf("the database (schema %s) has no column %s in table %s: OVN 23.03 or later is needed", s.Version, c, table)
			}
		}
		out[table] = slices.Clone(columns)
	}
	for table, columns := range used {
		for _, c := range columns {
			if s.Has(table, c) {
				out[table] = append(out[table], c)
			}
		}
	}
	return out, nil
}
