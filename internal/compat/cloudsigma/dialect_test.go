package cloudsigma

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// A tag names a Service by namespace and name, and a hyphen may be in either.
func TestServicesOf(t *testing.T) {
	for tag, want := range map[string][]string{
		"service:shop-web":       {"shop/web"},
		"service:shop-web-x":     {"shop/web-x", "shop-web/x"},
		"service:shop":           nil,
		"service:":               nil,
		"service:-web":           nil,
		"service:shop-":          nil,
		"service:a-b":            {"a/b"},
		"service:-a-b-":          {"-a/b-"},
		"cluster:shop-web":       nil,
		"shop-web":               nil,
		"managed-by:a-b":         nil,
		ServiceTag(key("s/w-x")): {"s/w-x", "s-w/x"},
	} {
		var got []string
		for _, s := range ServicesOf(tag) {
			got = append(got, s.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", tag, diff)
		}
	}
}

func key(text string) types.NamespacedName {
	return types.NamespacedName{Namespace: text[:1], Name: text[2:]}
}

// The annotation counts in classes with addresses of the account, and only if it is there.
func TestOtherClasses(t *testing.T) {
	asks := &lb.Service{Annotations: map[string]string{AnnotationPool: "dynamic"}}
	for _, test := range []struct {
		name     string
		s        *lb.Service
		dialects []lb.Dialect
		before   string
		pool     string
		wrong    bool
	}{
		{"the account's", asks, []lb.Dialect{Format}, "", "dynamic", false},
		{"other pools", asks, []lb.Dialect{lb.Native}, "", "", false},
		{"other pools, and one is named", asks, []lb.Dialect{lb.Native}, "edge", "edge", false},
		{"nothing is asked", &lb.Service{}, []lb.Dialect{Format}, "", "", false},
		{"a pool is named, and nothing is asked", &lb.Service{}, []lb.Dialect{Format}, "static", "static", false},
		{"another is named", asks, []lb.Dialect{Format}, "static", "static", true},
	} {
		r := lb.Request{Pool: test.before, Dialects: test.dialects}
		reading{}.Amend(&r, test.s, compat.Class{Dialects: test.dialects})
		if r.Pool != test.pool || (r.Invalid != nil) != test.wrong {
			t.Errorf("%s: %q, %v", test.name, r.Pool, r.Invalid)
		}
	}
	if !(reading{}).Same(nil) {
		t.Error("Services are read again, although there are no objects")
	}
}
