package compat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"fairlead.io/internal/compat"
	"fairlead.io/internal/compat/metallb"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/script"
)

var both = []lb.Dialect{lb.Native, metallb.Name}

// TestServices reads testdata/*.txtar: Services, each followed by what it asks
// for.
func TestServices(t *testing.T) {
	script.Sections(t, func() script.Section {
		var s *corev1.Service
		return func(t *testing.T, name, text string) string {
			switch name {
			case "service":
				s = parse(t, text)
			case "asks":
				return show(s, both)
			case "asks, in a class of native pools":
				return show(s, both[:1])
			case "asks, in a class of MetalLB's pools":
				return show(s, both[1:])
			default:
				t.Errorf("what is %q?", name)
			}
			return text
		}
	})
}

// request is what s asks for in a class with pools of dialects. There are no objects.
func request(s *corev1.Service, dialects []lb.Dialect) lb.Request {
	readings := compat.Readings{
		{Dialect: native.Dialect{}, Reading: native.Dialect{}.Read(compat.Objects{})},
		{Dialect: metallb.Dialect{}, Reading: metallb.Dialect{}.Read(compat.Objects{})},
	}
	return readings.Request(kubeapi.Service(s), nil, compat.Class{Dialects: dialects})
}

// parse reads a Service. As the API server does, it fills in one IPv4 family.
func parse(t testing.TB, text string) *corev1.Service {
	t.Helper()
	var s corev1.Service
	if err := yaml.UnmarshalStrict([]byte(text), &s); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if len(s.Spec.IPFamilies) == 0 {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return &s
}

func show(s *corev1.Service, dialects []lb.Dialect) string {
	r := request(s, dialects)
	var out strings.Builder
	for _, fact := range []struct{ name, value string }{
		{"addresses", join(r.Addresses)}, {"pool", r.Pool}, {"share", r.ShareKey}, {"from", join(r.From)},
	} {
		if fact.value != "" {
			fmt.Fprintf(&out, "%s: %s\n", fact.name, fact.value)
		}
	}
	fmt.Fprintf(&out, "voice: %s\n", r.Voice)
	if r.Invalid != nil {
		fmt.Fprintf(&out, "%s\n", r.Invalid)
	}
	if slices.Contains(dialects, metallb.Name) {
		if old := (metallb.Dialect{}).Deprecated(kubeapi.Service(s)); old != nil {
			fmt.Fprintf(&out, "%s\n", old)
		}
	}
	return out.String()
}

func join[T any](list []T) string {
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, ", ")
}

// Of two pools of one name, the one is meant in whose dialect it is asked for; asked
// for in both, it is the first that the class may use.
func TestWhosePoolIsMeant(t *testing.T) {
	theirsFirst := []lb.Dialect{metallb.Name, lb.Native}
	for _, test := range []struct {
		annotations map[string]string
		class, want []lb.Dialect
	}{
		{map[string]string{metallb.AnnotationAddressPool: "lan"}, both, theirsFirst},
		{map[string]string{"metallb.universe.tf/address-pool": "lan"}, both, theirsFirst},
		{map[string]string{"fairlead.io/pool": "lan"}, theirsFirst, both},
		{map[string]string{"fairlead.io/pool": "lan", metallb.AnnotationAddressPool: "lan"}, both, both},
		{map[string]string{"fairlead.io/pool": "lan", metallb.AnnotationAddressPool: "lan"}, theirsFirst, theirsFirst},
		{map[string]string{metallb.AnnotationAddressPool: " "}, both, both},
		{map[string]string{"fairlead.io/pool": "lan"}, theirsFirst[:1], theirsFirst[:1]},
		{map[string]string{metallb.AnnotationAddressPool: "lan"}, both[:1], both[:1]},
	} {
		s := parse(t, "{}")
		s.Annotations = test.annotations
		class := slices.Clone(test.class)
		if got := request(s, class).Dialects; !slices.Equal(got, test.want) {
			t.Errorf("%v in a class of %v: %v", test.annotations, test.class, got)
		}
		if !slices.Equal(class, test.class) {
			t.Errorf("the class is now of %v", class)
		}
	}
}

// FuzzRequest: whatever the annotations say, what is understood is an answer of
// its kind, and the same Service is always told the same.
func FuzzRequest(f *testing.F) {
	f.Add("192.0.2.7, 2001:db8::7", "edge", "key", "", "", "", "", "edge")
	f.Add("", "", "", "192.0.2.7", "lab", "other", "192.0.2.8", "a,b")
	f.Add("192.0.2.7,192.0.2.8,x", " edge ", "\t", "192.0.2.7", "", "", "::1", "/")
	f.Fuzz(func(t *testing.T, list, pool, key, ownList, ownPool, ownKey, ip, from string) {
		annotations := map[string]string{}
		for name, value := range map[string]string{
			metallb.AnnotationAddresses: list, metallb.AnnotationAddressPool: pool, "metallb.universe.tf/allow-shared-ip": key,
			"fairlead.io/addresses": ownList, "fairlead.io/pool": ownPool, "fairlead.io/share": ownKey,
			metallb.AnnotationAllocatedFrom: from, "fairlead.io/allocated-from": from,
		} {
			if value != "" {
				annotations[name] = value
			}
		}
		s := &corev1.Service{Spec: corev1.ServiceSpec{LoadBalancerIP: ip, IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}}}
		s.Annotations = annotations
		r := request(s, both)
		if r.Invalid != nil {
			if r.Invalid.Text == "" || len(r.Invalid.Text) > 8192 {
				t.Errorf("says %d bytes: %.100s", len(r.Invalid.Text), r.Invalid.Text)
			}
			return
		}
		if strings.TrimSpace(r.Pool) != r.Pool || strings.TrimSpace(r.ShareKey) != r.ShareKey {
			t.Errorf("blanks in %q or %q", r.Pool, r.ShareKey)
		}
		if list != "" && strings.TrimSpace(list) != "" && (len(r.Addresses) != 2 || r.Addresses[0].Is4() == r.Addresses[1].Is4()) {
			t.Errorf("%q gives %v", list, r.Addresses)
		}
		for _, theirs := range []struct{ has, ours, theirs string }{{r.Pool, ownPool, pool}, {r.ShareKey, ownKey, key}} {
			for _, asked := range []string{strings.TrimSpace(theirs.ours), strings.TrimSpace(theirs.theirs)} {
				if asked != "" && asked != theirs.has {
					t.Errorf("asks for %q, gets %q", asked, theirs.has)
				}
			}
		}
	})
}
