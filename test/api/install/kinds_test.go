package install

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/config"
	"fairlead.io/test/kit/tree"
)

var (
	yamlFence = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	hereText  = regexp.MustCompile(`(?ms)^( *)kubectl \S+ -f - <<END\n(.*?)^ *END$`)
)

func TestKinds(t *testing.T) {
	t.Parallel()
	_, c := startAPI(t)
	installKinds(t, c)
	t.Run("cdev", func(t *testing.T) { cdevApplies(t, c) }) // brings MetalLB's kinds
	t.Run("examples", func(t *testing.T) { examplesApply(t, c) })
	t.Run("refusals", func(t *testing.T) { kindsRefuse(t, c) })
	t.Run("manifests", func(t *testing.T) { manifestsApply(t, c) })
	t.Run("values", func(t *testing.T) { valuesApply(t, c) })
}

// Everything that people may copy from the examples and the guides is accepted
// by the API server, unknown fields being errors.
func examplesApply(t *testing.T, c client.Client) {
	texts := map[string][]byte{}
	for _, pattern := range []string{"examples/*.yaml", "*.md", "docs/*.md", "docs/*/*.md"} {
		paths, err := filepath.Glob(tree.Path(pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(path, ".md") {
				var blocks [][]byte
				for _, m := range yamlFence.FindAllSubmatch(raw, -1) {
					blocks = append(blocks, m[1])
				}
				for _, m := range hereText.FindAllSubmatch(raw, -1) {
					blocks = append(blocks, bytes.ReplaceAll(append([]byte("\n"), m[2]...), append([]byte("\n"), m[1]...), []byte("\n")))
				}
				raw = bytes.Join(blocks, []byte("---\n"))
			}
			texts[path] = raw
		}
	}
	for path, text := range texts {
		all, err := objects(text)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		for _, o := range all {
			if o.GetKind() == "Configuration" {
				raw, err := o.MarshalJSON()
				if err == nil {
					_, err = config.Parse(raw)
				}
				if err != nil {
					t.Errorf("%s: %v", path, err)
				}
				continue
			}
			err := c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
			if there := o.GetKind() == "Namespace" && apierrors.IsAlreadyExists(err); err != nil && !there {
				t.Errorf("%s: %s %s: %v", path, o.GetKind(), o.GetName(), err)
			}
		}
	}
}

// The files in deploy/ can be applied as they are, and again.
func manifestsApply(t *testing.T, c client.Client) {
	for _, path := range []string{"deploy/fairlead.yaml", "deploy/fairlead.yaml", "deploy/metallb.yaml", "deploy/metallb.yaml", "deploy/cloudscale.yaml", "deploy/cloudscale.yaml", "deploy/kube-vip.yaml", "deploy/kube-vip.yaml"} {
		text, err := os.ReadFile(tree.Path(path))
		if err != nil {
			t.Fatal(err)
		}
		all, err := objects(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			err := c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("test"), client.ForceOwnership)
			if err != nil {
				t.Errorf("%s: %s %s: %v", path, o.GetKind(), o.GetName(), err)
			}
		}
	}
}

// What the chart makes of values is accepted by the API server, unknown fields being
// errors. It does not have the kinds of the Prometheus operator.
func valuesApply(t *testing.T, c client.Client) {
	for _, name := range []string{"monitoring", "pools", "lb"} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"charts/fairlead/testdata/everything.yaml", "charts/fairlead/testdata/podmonitor.yaml"} {
		text, err := os.ReadFile(tree.Path(path))
		if err != nil {
			t.Fatal(err)
		}
		all, err := objects(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all {
			if o.GroupVersionKind().Group == "monitoring.coreos.com" || o.GetKind() == "CustomResourceDefinition" {
				continue
			}
			o.SetName(o.GetName() + "-tried") // others are installed already
			if err := c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
				t.Errorf("%s: %s %s: %v", path, o.GetKind(), o.GetName(), err)
			}
		}
	}
}

func kindsRefuse(t *testing.T, c client.Client) {
	pool := func(change func(*v1alpha1.PoolSpec)) *v1alpha1.Pool {
		p := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.PoolSpec{Addresses: []v1alpha1.Span{"192.0.2.0/24"}}}
		change(&p.Spec)
		return p
	}
	for name, test := range map[string]struct {
		spec func(*v1alpha1.PoolSpec)
		want string // "" is accepted
	}{
		"a CIDR":                {func(s *v1alpha1.PoolSpec) {}, ""},
		"a range":               {func(s *v1alpha1.PoolSpec) { s.Addresses = []v1alpha1.Span{"192.0.2.1 - 192.0.2.9"} }, ""},
		"an address":            {func(s *v1alpha1.PoolSpec) { s.Addresses = []v1alpha1.Span{"2001:db8::1"} }, ""},
		"both families":         {func(s *v1alpha1.PoolSpec) { s.Addresses = append(s.Addresses, "2001:db8::/64") }, ""},
		"no addresses":          {func(s *v1alpha1.PoolSpec) { s.Addresses = nil }, "spec.addresses"},
		"a name":                {func(s *v1alpha1.PoolSpec) { s.Addresses = []v1alpha1.Span{"example.org"} }, "must be a CIDR"},
		"an octet too large":    {func(s *v1alpha1.PoolSpec) { s.Addresses = []v1alpha1.Span{"192.0.2.1-192.0.2.300"} }, "must be a CIDR"},
		"mixed families":        {func(s *v1alpha1.PoolSpec) { s.Addresses = []v1alpha1.Span{"192.0.2.1-2001:db8::1"} }, "one IP family"},
		"three ends":            {func(s *v1alpha1.PoolSpec) { s.Exclude = []v1alpha1.Span{"192.0.2.1-192.0.2.2-192.0.2.3"} }, "must be a CIDR"},
		"an unknown order":      {func(s *v1alpha1.PoolSpec) { s.Order = "Random" }, "spec.order"},
		"a negative quota":      {func(s *v1alpha1.PoolSpec) { s.QuotaPerNamespace = -1 }, "spec.quotaPerNamespace"},
		"a negative priority":   {func(s *v1alpha1.PoolSpec) { s.Priority = -1 }, "spec.priority"},
		"a reserved name":       {reserve("web", "shop", "web"), "must be an IP address"},
		"nobody's reservation":  {reserve("192.0.2.1", "", "web"), "spec.reservations[0].namespace"},
		"a reservation":         {reserve("192.0.2.1", "shop", "web"), ""},
		"one address for two":   {func(s *v1alpha1.PoolSpec) { reserve("192.0.2.1", "a", "a")(s); reserve("192.0.2.1", "b", "b")(s) }, "Duplicate value"},
		"a namespace twice":     {func(s *v1alpha1.PoolSpec) { s.Namespaces = []string{"a", "a"} }, "Duplicate value"},
		"the longest of ranges": {func(s *v1alpha1.PoolSpec) { s.Addresses = []v1alpha1.Span{longest + "-" + longest} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.Create(t.Context(), pool(test.spec), client.DryRunAll)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("want it accepted, got %v", err)
			case test.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want)):
				t.Errorf("want it refused with %q, got %v", test.want, err)
			}
		})
	}
}

const longest = "2001:0db8:0000:0000:0000:0000:0000:ffff"

func reserve(address, namespace, name string) func(*v1alpha1.PoolSpec) {
	return func(s *v1alpha1.PoolSpec) {
		s.Reservations = append(s.Reservations, v1alpha1.Reservation{Address: address, Namespace: namespace, Name: name})
	}
}
