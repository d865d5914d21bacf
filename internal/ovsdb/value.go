package ovsdb

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Value is the value of a column. Atoms are text: UUIDs without their wrapping, numbers
// and booleans as JSON writes them. A scalar is a set of one.
type Value struct {
	Set []string
	Map map[string]string // not nil if and only if the column is a map
}

// String is the atom of a scalar, "" for an empty set.
func (v Value) String() string {
	if len(v.Set) == 0 {
		return ""
	}
	return v.Set[0]
}

// parseValue reads a <value> of RFC 7047, section 5.1, as json decodes it with UseNumber.
func parseValue(in any) (Value, error) {
	list, ok := in.([]any)
	if !ok {
		atom, err := parseAtom(in)
		return Value{Set: []string{atom}}, err
	}
	kind, items, err := tagged(list)
	if err != nil {
		return Value{}, err
	}
	switch kind {
	case "set":
		v := Value{Set: make([]string, len(items))}
		for i, item := range items {
			if v.Set[i], err = parseAtom(item); err != nil {
				return Value{}, err
			}
		}
		return v, nil
	case "map":
		v := Value{Map: make(map[string]string, len(items))}
		for _, item := range items {
			pair, ok := item.([]any)
			if !ok || len(pair) != 2 {
				return Value{}, fmt.Errorf("%v is not a pair of a map", item)
			}
			key, err := parseAtom(pair[0])
			if err != nil {
				return Value{}, err
			}
			if v.Map[key], err = parseAtom(pair[1]); err != nil {
				return Value{}, err
			}
		}
		return v, nil
	default:
		atom, err := parseAtom(in)
		return Value{Set: []string{atom}}, err
	}
}

// tagged splits ["set", [...]], ["map", [...]] and ["uuid", "..."]; items are nil in the
// last.
func tagged(list []any) (kind string, items []any, err error) {
	if len(list) == 2 {
		if kind, ok := list[0].(string); ok {
			items, isList := list[1].([]any)
			if isList == (kind == "set" || kind == "map") {
				return kind, items, nil
			}
		}
	}
	return "", nil, fmt.Errorf("%v is not a value", list)
}

func parseAtom(in any) (string, error) {
	switch a := in.(type) {
	case string:
		return a, nil
	case json.Number:
		return a.String(), nil
	case bool:
		return fmt.Sprint(a), nil
	case []any:
		if len(a) == 2 && a[0] == "uuid" {
			if id, ok := a[1].(string); ok {
				return id, nil
			}
		}
	}
	return "", fmt.Errorf("%v is not an atom", in)
}

// UUID refers to a row in an operation.
func UUID(id string) any { return [2]string{"uuid", id} }

// NamedUUID refers to a row that an earlier operation of the transaction inserts.
func NamedUUID(name string) any { return [2]string{"named-uuid", name} }

// SetOf is a set in an operation.
func SetOf(atoms ...any) any {
	if atoms == nil {
		atoms = []any{}
	}
	return [2]any{"set", atoms}
}

// MapOf is a map in an operation.
func MapOf(m map[string]string) any {
	pairs := make([][2]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		pairs = append(pairs, [2]string{k, m[k]})
	}
	return [2]any{"map", pairs}
}
