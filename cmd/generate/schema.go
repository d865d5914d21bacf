package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/snapshot"
	commands "fairlead.io/internal/tool"
)

// schemaFile has the schema of what commands print with -o json and -o yaml.
const schemaFile = "docs/reference/kubectl-fairlead.schema.json"

// schema is a JSON schema, as far as it is needed.
type schema struct {
	Schema               string             `json:"$schema,omitempty"`
	Title                string             `json:"title,omitempty"`
	Type                 any                `json:"type,omitempty"`
	Format               string             `json:"format,omitempty"`
	Enum                 []any              `json:"enum,omitempty"`
	Properties           map[string]*schema `json:"properties,omitempty"`
	Required             []string           `json:"required,omitempty"`
	AdditionalProperties any                `json:"additionalProperties,omitempty"`
	Items                *schema            `json:"items,omitempty"`
	OneOf                []*schema          `json:"oneOf,omitempty"`
}

// enums are types that have few values.
var enums = map[reflect.Type][]any{
	reflect.TypeFor[snapshot.Mark]():  {snapshot.Passed, snapshot.Failed, snapshot.Unclear, snapshot.Skipped, snapshot.Noted},
	reflect.TypeFor[snapshot.State](): {snapshot.OK, snapshot.Waiting, snapshot.Unreachable, snapshot.NotServed, snapshot.Missing, snapshot.Unsure, snapshot.Unattended},
}

// answerSchema makes the schema from the types of the answers.
func answerSchema() (files, error) {
	out := schema{Schema: "https://json-schema.org/draft/2020-12/schema", Title: "What kubectl fairlead prints with -o json and -o yaml"}
	all := commands.Answers()
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		s, err := schemaOf(reflect.TypeOf(all[kind]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		s.Title = kind
		s.Properties["apiVersion"] = &schema{Type: "string", Enum: []any{"fairlead.io/v1alpha1"}}
		s.Properties["kind"] = &schema{Type: "string", Enum: []any{kind}}
		s.Required = append(s.Required, "apiVersion", "kind")
		slices.Sort(s.Required)
		out.OneOf = append(out.OneOf, s)
	}
	raw, err := json.MarshalIndent(out, "", "  ")
	return files{schemaFile: append(raw, '\n')}, err
}

// schemaOf returns the schema of what a value of the type is in JSON.
func schemaOf(t reflect.Type) (*schema, error) {
	if values := enums[t]; values != nil {
		return &schema{Type: "string", Enum: values}, nil
	}
	if t == reflect.TypeFor[metav1.Time]() {
		return &schema{Type: "string", Format: "date-time"}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem())
	case reflect.String:
		return &schema{Type: "string"}, nil
	case reflect.Bool:
		return &schema{Type: "boolean"}, nil
	case reflect.Int, reflect.Int32, reflect.Int64:
		return &schema{Type: "integer"}, nil
	case reflect.Slice:
		items, err := schemaOf(t.Elem())
		return &schema{Type: "array", Items: items}, err
	case reflect.Map:
		values, err := schemaOf(t.Elem())
		return &schema{Type: "object", AdditionalProperties: values}, err
	case reflect.Struct:
		return objectSchema(t)
	default:
		return nil, fmt.Errorf("no schema for %s", t)
	}
}

// objectSchema returns the schema of a struct. What may be empty is not required.
func objectSchema(t reflect.Type) (*schema, error) {
	out := &schema{Type: "object", Properties: map[string]*schema{}, AdditionalProperties: false}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			return nil, fmt.Errorf("field %s of %s has no name in JSON", f.Name, t)
		}
		of, err := schemaOf(f.Type)
		if err != nil {
			return nil, err
		}
		optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
		if !optional {
			out.Required = append(out.Required, name)
			if f.Type.Kind() == reflect.Slice {
				of.Type = []string{"array", "null"} // nil is null
			}
		}
		out.Properties[name] = of
	}
	slices.Sort(out.Required)
	return out, nil
}
