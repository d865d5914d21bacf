package kubeovn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// row is a row of the northbound database, as far as its columns are plain.
type row struct {
	uuid, name string
	maps       map[string]map[string]string
	sets       map[string][]string
	text       map[string]string
}

func (r row) ours() bool { return r.maps["external_ids"]["vendor"] == vendor }

const vendor = "kube-ovn"

// tables that are read, by name, with the columns that count.
var tables = map[string][]string{
	"Logical_Router":        {"_uuid", "name", "external_ids", "options", "ports", "policies", "nat"},
	"Logical_Switch":        {"_uuid", "name", "external_ids", "ports", "load_balancer"},
	"Logical_Router_Port":   {"_uuid", "name", "external_ids", "networks", "mac"},
	"Logical_Router_Policy": {"_uuid", "external_ids", "priority", "match", "action", "nexthops"},
	"NAT":                   {"_uuid", "external_ids", "type", "external_ip", "logical_ip"},
	"Load_Balancer":         {"_uuid", "name", "external_ids", "vips"},
	"Port_Group":            {"_uuid", "name", "external_ids"},
}

type rows map[string][]row

func (r rows) named(table, name string) *row {
	i := slices.IndexFunc(r[table], func(x row) bool { return x.name == name })
	if i < 0 {
		return nil
	}
	return &r[table][i]
}

func (n *Network) readRows(ctx context.Context) (rows, error) {
	all := rows{}
	for table, columns := range tables {
		out, err := n.ctl(ctx, "--format=json", "--data=json", "--columns="+strings.Join(columns, ","), "list", table)
		if err != nil {
			return nil, err
		}
		var answer struct {
			Headings []string            `json:"headings"`
			Data     [][]json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			return nil, fmt.Errorf("read %s: %w", table, err)
		}
		for _, cells := range answer.Data {
			r := row{maps: map[string]map[string]string{}, sets: map[string][]string{}, text: map[string]string{}}
			for i, column := range answer.Headings {
				r.take(column, cells[i])
			}
			r.uuid, r.name = r.text["_uuid"], r.text["name"]
			all[table] = append(all[table], r)
		}
	}
	return all, nil
}

// take reads a cell in the JSON of RFC 7047: an atom, or ["uuid", x], ["set", [...]] or
// ["map", [[k, v]...]].
func (r row) take(column string, raw json.RawMessage) {
	var pair []json.RawMessage
	var kind string
	if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[0], &kind) != nil {
		r.text[column] = atom(raw)
		r.sets[column] = []string{atom(raw)}
		return
	}
	switch kind {
	case "uuid":
		r.text[column] = atom(pair[1])
		r.sets[column] = []string{r.text[column]}
	case "set":
		var members []json.RawMessage
		_ = json.Unmarshal(pair[1], &members)
		for _, m := range members {
			r.sets[column] = append(r.sets[column], atom(m))
		}
	case "map":
		var members [][2]json.RawMessage
		_ = json.Unmarshal(pair[1], &members)
		r.maps[column] = map[string]string{}
		for _, m := range members {
			r.maps[column][atom(m[0])] = atom(m[1])
		}
	}
}

func atom(raw json.RawMessage) string {
	var tagged [2]string
	if json.Unmarshal(raw, &tagged) == nil && tagged[0] == "uuid" {
		return tagged[1]
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}
