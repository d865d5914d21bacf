package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func kindsPage(p *page) error {
	p.title("Custom resources", "api/v1alpha1 and api/metallb", "`kubectl explain pool.spec` and `kubectl explain ipaddresspool.spec` show the same text.\n\n"+
		"Fairlead's own resources have the API version `fairlead.io/v1alpha1` and are cluster-scoped.")
	for _, name := range []string{"pools", "agents"} {
		if err := kindSection(p, filepath.Join(crdDirs["api/v1alpha1"], "fairlead.io_"+name+".yaml")); err != nil {
			return err
		}
	}
	p.heading("MetalLB's custom resources")
	p.printf("They have the API version `metallb.io/v1beta1`. Only objects in one namespace are used:\n" +
		"`metallb-system`, or that of `--metallb-namespace`. Fairlead uses CRDs that are already installed.\n" +
		"Its own versions of them also have conditions in the status, and keep unknown fields.\n")
	for _, name := range []string{"ipaddresspools", "l2advertisements", "servicel2statuses", "configurationstates"} {
		if err := kindSection(p, filepath.Join(crdDirs["api/metallb"], "metallb.io_"+name+".yaml")); err != nil {
			return err
		}
	}
	var names []string
	for _, k := range opaque {
		names = append(names, "`"+k.kind+"`")
	}
	p.heading("MetalLB's custom resources for BGP")
	p.printf("%s\nare as in MetalLB's documentation: see [announce by BGP](../guides/bgp.md). The condition\nReady of an object says whether it can be used, of a `BGPPeer` also which nodes are connected to the router. An\nobject with a value that cannot be used affects no other.\n", strings.Join(names, ", "))
	return nil
}

// kindSection describes the kind that a file defines.
func kindSection(p *page, path string) error {
	// Not charts.CRDs(): this program was built before they were generated.
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return err
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	p.heading(crd.Spec.Names.Kind)
	p.printf("%s\n", schema.Description)
	for _, part := range []string{"spec", "status"} {
		root, has := schema.Properties[part]
		if !has || len(root.Properties) == 0 {
			continue
		}
		p.printf("\n### %s: %s\n\n%s\n\n", crd.Spec.Names.Kind, part, root.Description)
		p.table("field", "type", "default", "meaning")
		fields(p, "", &root)
	}
	return nil
}

// fields writes one row for each field below schema, the required ones first.
func fields(p *page, prefix string, schema *apiextensionsv1.JSONSchemaProps) {
	required := func(name string) int {
		if slices.Contains(schema.Required, name) {
			return 0
		}
		return 1
	}
	names := slices.SortedFunc(maps.Keys(schema.Properties), func(a, b string) int {
		if d := required(a) - required(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		field := schema.Properties[name]
		value := ""
		if required(name) == 0 {
			value = "required"
		}
		if field.Default != nil {
			value = "`" + strings.Trim(string(field.Default.Raw), `"`) + "`"
		}
		p.row("`"+prefix+name+"`", typeOf(&field), value, field.Description+limits(&field))
		switch {
		case isForeign(&field):
		case field.Type == "object":
			fields(p, prefix+name+".", &field)
		case field.Type == "array" && field.Items.Schema.Type == "object":
			if !isForeign(field.Items.Schema) {
				fields(p, prefix+name+"[].", field.Items.Schema)
			}
		}
	}
}

// isForeign says whether the fields below are Kubernetes' own: label selectors
// and conditions.
func isForeign(s *apiextensionsv1.JSONSchemaProps) bool {
	_, selector := s.Properties["matchLabels"]
	_, condition := s.Properties["lastTransitionTime"]
	return selector || condition
}

func typeOf(s *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.Type == "array":
		return "list of " + typeOf(s.Items.Schema)
	case len(s.Enum) > 0:
		var words []string
		for _, v := range s.Enum {
			words = append(words, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		return strings.Join(words, ", ")
	case isForeign(s) && len(s.Properties) == 2:
		return "label selector"
	case isForeign(s):
		return "condition"
	case s.Format == "date-time":
		return "time"
	default:
		return s.Type
	}
}

// limits are the sentences for what the API server checks.
func limits(s *apiextensionsv1.JSONSchemaProps) string {
	var out strings.Builder
	if s.MaxItems != nil && !strings.Contains(s.Description, "at most") {
		fmt.Fprintf(&out, " At most %d.", *s.MaxItems)
	}
	rules := s.XValidations
	if s.Type == "array" {
		rules = s.Items.Schema.XValidations
	}
	for _, rule := range rules {
		fmt.Fprintf(&out, " Checked: %s.", rule.Message)
	}
	return out.String()
}
