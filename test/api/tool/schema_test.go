package tool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"fairlead.io/test/kit/tree"
)

// schemas returns the published schema of each kind.
func schemas(t *testing.T) map[string]*spec.Schema {
	t.Helper()
	data, err := os.ReadFile(tree.Path("docs/reference/kubectl-fairlead.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		OneOf []*spec.Schema `json:"oneOf"`
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]*spec.Schema{}
	for _, s := range all.OneOf {
		out[s.Title] = s
	}
	return out
}

// What commands print for machines is what the schema says, as JSON and as YAML.
func TestSchema(t *testing.T) {
	w := newWorld(t)
	w.install("n1", "n2")
	w.pool("edge", "192.0.2.16/30")
	w.service("web", nil, "n1", "n2")
	w.announced("web")
	w.service("full", nil)
	dir := t.TempDir()
	pool := filepath.Join(dir, "pool.yaml")
	if err := os.WriteFile(pool, []byte(`{apiVersion: fairlead.io/v1alpha1, kind: Pool, metadata: {name: edge}, spec: {addresses: [192.0.2.16]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	before := filepath.Join(dir, "before.json")
	apply(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: controller, namespace: metallb-system}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: controller, image: metallb/controller, args: [--port=1]}]}}}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: speaker, namespace: metallb-system}, spec: {selector: {matchLabels: {a: c}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: speaker, image: metallb/speaker, env: [{name: A, value: b}]}]}}}}
`)
	saved, code := run(t, "migrate", "--from", "metallb", "-o", "json")
	if err := os.WriteFile(before, []byte(saved), 0o600); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s", code, err, saved)
	}
	all, seen := schemas(t), map[string]bool{}
	for _, command := range []string{
		"status", "why shop/web", "why shop/full", "why shop/ghost", "why 192.0.2.16", "why 192.0.2.201", "ip", "ip --free", "ip --by-namespace",
		"plan --drain n1", "plan --remove edge", "plan -f " + pool, "check", "check -f " + pool,
		"migrate --from metallb", "migrate --from kube-vip", "migrate --from metallb --verify " + before,
	} {
		for _, format := range []string{"json", "yaml"} {
			got, code := run(t, append(strings.Fields(command), "-o", format)...)
			var doc map[string]any
			if err := yaml.Unmarshal([]byte(got), &doc); err != nil || code > 1 {
				t.Errorf("%s -o %s: exit %d, %v\n%s", command, format, code, err, got)
				continue
			}
			kind, _ := doc["kind"].(string)
			if all[kind] == nil {
				t.Errorf("%s: there is no schema of kind %q", command, kind)
				continue
			}
			seen[kind] = true
			if r := validate.NewSchemaValidator(all[kind], nil, "", strfmt.Default).Validate(doc); !r.IsValid() {
				t.Errorf("%s -o %s: %v\n%s", command, format, r.Errors, got)
			}
			// The schema is strict: it says what there is.
			doc["surprise"] = true
			if r := validate.NewSchemaValidator(all[kind], nil, "", strfmt.Default).Validate(doc); r.IsValid() {
				t.Errorf("%s: the schema takes anything", kind)
			}
		}
	}
	for kind := range all {
		if !seen[kind] {
			t.Errorf("no command printed kind %s: %v", kind, seen)
		}
	}
}
