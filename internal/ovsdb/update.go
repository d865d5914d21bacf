package ovsdb

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Change is what became of a row.
type Change uint8

// What can become of one.
const (
	Inserted Change = iota // or it was there when the monitor began
	Modified               // Columns has differences, to be applied with ApplyMap and ApplySet
	Deleted
)

// RowUpdate is what became of one row.
type RowUpdate struct {
	Change  Change
	Columns map[string]Value
}

// Updates are changes of rows, by table and UUID. Those of one transaction come together.
type Updates map[string]map[string]RowUpdate

var changes = map[string]Change{"initial": Inserted, "insert": Inserted, "modify": Modified, "delete": Deleted}

// parseUpdates reads <table-updates2> of ovsdb-server(7).
func parseUpdates(raw json.RawMessage) (Updates, error) {
	var tables map[string]map[string]map[string]map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&tables); err != nil {
		return nil, fmt.Errorf("read updates: %w", err)
	}
	out := make(Updates, len(tables))
	for table, rows := range tables {
		out[table] = make(map[string]RowUpdate, len(rows))
		for id, row := range rows {
			if len(row) != 1 {
				return nil, fmt.Errorf("read updates: row %s of table %s has %d changes", id, table, len(row))
			}
			for kind, columns := range row {
				change, known := changes[kind]
				if !known {
					return nil, fmt.Errorf("read updates: row %s of table %s: %q is not a change", id, table, kind)
				}
				u := RowUpdate{Change: change, Columns: make(map[string]Value, len(columns))}
				for name, in := range columns {
					v, err := parseValue(in)
					if err != nil {
						return nil, fmt.Errorf("read updates: column %s of row %s of table %s: %w", name, id, table, err)
					}
					u.Columns[name] = v
				}
				out[table][id] = u
			}
		}
	}
	return out, nil
}

// ApplyMap changes a map by a difference: a pair that is there goes, others are set.
func ApplyMap(m, difference map[string]string) {
	for k, v := range difference {
		if old, has := m[k]; has && old == v {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
}

// ApplySet changes a set by a difference: members that are there go, others come. It
// returns which.
func ApplySet(set map[string]struct{}, difference []string) (added, removed []string) {
	for _, a := range difference {
		if _, has := set[a]; has {
			delete(set, a)
			removed = append(removed, a)
		} else {
			set[a] = struct{}{}
			added = append(added, a)
		}
	}
	return added, removed
}
