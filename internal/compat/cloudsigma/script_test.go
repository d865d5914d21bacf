package cloudsigma

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/script"
)

// TestScripts reads testdata/*.txtar: Services, each in "service", followed by what it
// asks for in "request", and by its tag in "tag".
func TestScripts(t *testing.T) {
	script.Sections(t, func() script.Section {
		var s *lb.Service
		return func(t *testing.T, name, text string) string {
			switch name {
			case "service":
				var object corev1.Service
				if err := yaml.UnmarshalStrict([]byte(text), &object); err != nil {
					t.Fatalf("%v in:\n%s", err, text)
				}
				s = kubeapi.Service(&object)
			case "request":
				return showRequest(s)
			case "tag":
				return ServiceTag(s.Key) + "\n"
			default:
				t.Errorf("what is %q?", name)
			}
			return text
		}
	})
}

// readings are those of a class of this backend.
var readings = compat.Readings{
	{Dialect: native.Dialect{}, Reading: native.Dialect{}.Read(compat.Objects{})},
	{Dialect: Dialect{}, Reading: Dialect{}.Read(compat.Objects{})},
}

func showRequest(s *lb.Service) string {
	r := readings.Request(s, nil, compat.Class{Dialects: []lb.Dialect{Format}, Words: Format, Plans: true})
	var out strings.Builder
	show := func(what string, value any, silent bool) {
		if !silent {
			fmt.Fprintf(&out, "%s: %v\n", what, value)
		}
	}
	show("pool", r.Pool, r.Pool == "")
	show("addresses", r.Addresses, len(r.Addresses) == 0)
	show("share", r.ShareKey, r.ShareKey == "")
	show("reallocate", r.Reallocate, !r.Reallocate)
	show("dry run", r.DryRun, !r.DryRun)
	if r.Invalid != nil {
		show("invalid", r.Invalid.Text, false)
	}
	_, unknown := Pool(s)
	show("unknown pool", unknown, unknown == "")
	if out.Len() == 0 {
		return "any address\n"
	}
	return out.String()
}

// Whatever a tenant writes, one of the two pools is meant, and only that.
func FuzzPool(f *testing.F) {
	for _, v := range []string{"", "static", "dynamic", " Static ", "moon", "\x00"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		s := &lb.Service{Annotations: map[string]string{AnnotationPool: value}}
		pool, unknown := Pool(s)
		if pool != Static && pool != Dynamic || unknown != "" && pool != Static {
			t.Errorf("%q is pool %q, unknown %q", value, pool, unknown)
		}
	})
}

func TestTags(t *testing.T) {
	if a, b := ServiceTag(types.NamespacedName{Namespace: "a-b", Name: "c"}), ServiceTag(types.NamespacedName{Namespace: "a", Name: "b-c"}); a != b {
		t.Errorf("%s and %s are one tag in the cloud", a, b)
	}
	if c, ok := ClusterOf(ClusterTag("prod")); c != "prod" || !ok {
		t.Errorf("cluster %q, %v", c, ok)
	}
	if _, ok := ClusterOf(ManagedTag); ok || IsServiceTag(ManagedTag) || !IsServiceTag("service:shop-web") {
		t.Error("tags are mistaken for each other")
	}
}
