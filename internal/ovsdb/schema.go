package ovsdb

import (
	"encoding/json"
	"fmt"
)

// Schema says which columns the tables of a database have.
type Schema struct {
	Version string
	Tables  map[string]map[string]bool
}

// Has says whether there is such a column.
func (s Schema) Has(table, column string) bool { return s.Tables[table][column] }

func parseSchema(raw json.RawMessage) (Schema, error) {
	var in struct {
		Version string `json:"version"`
		Tables  map[string]struct {
			Columns map[string]json.RawMessage `json:"columns"`
		} `json:"tables"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return Schema{}, fmt.Errorf("read schema: %w", err)
	}
	out := Schema{Version: in.Version, Tables: make(map[string]map[string]bool, len(in.Tables))}
	for name, table := range in.Tables {
		columns := make(map[string]bool, len(table.Columns))
		for c := range table.Columns {
			columns[c] = true
		}
		out.Tables[name] = columns
	}
	return out, nil
}
