package install

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"fairlead.io/test/kit/tree"
)

const cdev = "examples/cdev"

// cdevRender fills in a file of the example as cdev does.
func cdevRender(t *testing.T, path string, address string) []byte {
	t.Helper()
	text, err := os.ReadFile(tree.Path(cdev, path))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := template.New(path).Funcs(template.FuncMap{
		"default": func(other, value any) any {
			if value == nil || value == "" {
				return other
			}
			return value
		},
	}).Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	variables := map[string]any{"node_external_ip": address, "versions": map[string]any{}}
	if err := parsed.Execute(&out, map[string]any{"variables": variables}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The files of examples/cdev, rendered for an address, are accepted by the API
// server, with the chart that the units install.
func cdevApplies(t *testing.T, c client.Client) {
	var units []struct {
		Name, Type string
		Source     any
		Values     []struct{ File string }
		Options    struct{ Namespace string } `json:"additional_options"`
	}
	if err := yaml.Unmarshal(cdevRender(t, "template.yaml", "203.0.113.7"), &units); err != nil {
		t.Fatal(err)
	}
	if len(units) != 2 || units[0].Type != "helm" || units[1].Type != "kubernetes" {
		t.Fatalf("units are %+v", units)
	}
	source := units[0].Source.(map[string]any)
	out := render(t, units[0].Name, filepath.Join("charts", source["chart"].(string)),
		"--namespace", units[0].Options.Namespace, "--version", source["version"].(string), "--values", filepath.Join(cdev, units[0].Values[0].File))
	var kinds []*unstructured.Unstructured
	all, err := objects([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.GetKind() == "CustomResourceDefinition" && strings.HasSuffix(o.GetName(), "metallb.io") {
			kinds = append(kinds, o)
		}
	}
	kinds = append(kinds, envoyProxyKind(t))
	for _, o := range kinds {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"metallb-system", "envoy-gateway-system"} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
	paths := []string{"metallb/ipaddresspool.yaml", "metallb/l2advertisement.yaml", "envoy-gateway/service-patch.yaml"}
	there, err := filepath.Glob(tree.Path(cdev, "*", "*.yaml"))
	if err != nil || len(there) != len(paths)+1 { // and values.yaml
		t.Errorf("there are %v (%v)", there, err)
	}
	for _, address := range []string{"203.0.113.7", "2001:db8::7"} {
		for _, path := range paths {
			text := cdevRender(t, path, address)
			if address == "2001:db8::7" { // a /32 of it is another thing
				text = bytes.ReplaceAll(text, []byte("/32"), []byte("/128"))
			}
			all, err := objects(text)
			if err != nil || len(all) != 1 {
				t.Fatalf("%s has %d objects (%v)", path, len(all), err)
			}
			eventually(t, path+" is accepted", func(ctx context.Context) error {
				return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(all[0]), client.FieldOwner("cdev"))
			})
		}
	}
	var proxy unstructured.Unstructured
	proxy.SetAPIVersion("gateway.envoyproxy.io/v1alpha1")
	proxy.SetKind("EnvoyProxy")
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "envoy-gateway-system", Name: "custom-proxy-config"}, &proxy); err != nil {
		t.Fatal(err)
	}
	service := []string{"spec", "provider", "kubernetes", "envoyService"}
	class, _, _ := unstructured.NestedString(proxy.Object, append(service, "loadBalancerClass")...)
	asks, _, _ := unstructured.NestedString(proxy.Object, append(service, "patch", "value", "metadata", "annotations", "metallb.universe.tf/loadBalancerIPs")...)
	if class != "metallb" || asks != "2001:db8::7" {
		t.Errorf("Envoy's Service has class %q and asks for %q", class, asks)
	}
}

// envoyProxyKind stands for Envoy Gateway's own CRD: the fields that are used.
func envoyProxyKind(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	text := func(values ...string) apiextensionsv1.JSONSchemaProps {
		s := apiextensionsv1.JSONSchemaProps{Type: "string"}
		for _, v := range slices.Sorted(slices.Values(values)) {
			s.Enum = append(s.Enum, apiextensionsv1.JSON{Raw: []byte(`"` + v + `"`)})
		}
		return s
	}
	object := func(properties map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: properties}
	}
	type props = map[string]apiextensionsv1.JSONSchemaProps
	schema := object(props{"spec": object(props{"provider": object(props{
		"type": text("Kubernetes", "Host"),
		"kubernetes": object(props{"envoyService": object(props{
			"externalTrafficPolicy": text("Cluster", "Local"),
			"loadBalancerClass":     text(),
			"annotations":           {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}},
			"patch": object(props{
				"type":  text("StrategicMerge", "JSONMerge"),
				"value": {Type: "object", XPreserveUnknownFields: ptr.To(true)},
			}),
		})}),
	})})})
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "envoyproxies.gateway.envoyproxy.io"}}
	crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
	crd.Spec.Group, crd.Spec.Scope = "gateway.envoyproxy.io", apiextensionsv1.NamespaceScoped
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: "EnvoyProxy", Plural: "envoyproxies"}
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
	}}
	raw, err := yaml.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	all, err := objects(raw)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}
