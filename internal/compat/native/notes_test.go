package native

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/lb"
)

// What is written on a Service names the pools of its addresses. One that is out of pool
// goes on naming the pool that it is from, and who gave it.
func TestNotes(t *testing.T) {
	edge, has := lb.PoolKey{Dialect: lb.Native, Name: "edge"}, []netip.Addr{netip.MustParseAddr("192.0.2.7")}
	for name, test := range map[string]struct {
		v    lb.Verdict
		want map[string]string
	}{
		"nothing":         {lb.Verdict{}, map[string]string{AnnotationAllocatedFrom: "", AnnotationDHCP: "", AnnotationReason: ""}},
		"of a pool":       {lb.Verdict{Addresses: has, Pools: []lb.PoolKey{edge}}, map[string]string{AnnotationAllocatedFrom: "edge", AnnotationDHCP: "", AnnotationReason: ""}},
		"of two":          {lb.Verdict{Addresses: has, Pools: []lb.PoolKey{edge, {Dialect: "metallb", Name: "lan"}}}, map[string]string{AnnotationAllocatedFrom: "edge,metallb/lan", AnnotationDHCP: "", AnnotationReason: ""}},
		"by DHCP":         {lb.Verdict{Addresses: has, Pools: []lb.PoolKey{edge}, DHCP: [2]bool{lb.IPv6: true}}, map[string]string{AnnotationAllocatedFrom: "edge", AnnotationDHCP: "IPv6", AnnotationReason: ""}},
		"out of pool":     {lb.Verdict{Addresses: has}, map[string]string{AnnotationReason: ""}},
		"waits for DHCP":  {lb.Verdict{Pools: []lb.PoolKey{edge}, DHCP: [2]bool{true, true}}, map[string]string{AnnotationAllocatedFrom: "edge", AnnotationDHCP: "IPv4,IPv6", AnnotationReason: ""}},
		"DHCP, no pool":   {lb.Verdict{DHCP: [2]bool{lb.IPv4: true}}, map[string]string{AnnotationAllocatedFrom: "", AnnotationDHCP: "IPv4", AnnotationReason: ""}},
		"DHCP, then gone": {lb.Verdict{Addresses: has, DHCP: [2]bool{lb.IPv4: true}}, map[string]string{AnnotationReason: ""}},
	} {
		if diff := cmp.Diff(test.want, Dialect{}.Notes(nil, &test.v, "")); diff != "" {
			t.Errorf("%s: want -, got +:\n%s", name, diff)
		}
	}
}

// Services are read again when Pools can be read again, not whenever one changes.
func TestSame(t *testing.T) {
	readable := Dialect{}.Read(compat.Objects{})
	unread := func(why string) compat.Reading {
		return Dialect{}.Read(compat.Objects{Unread: map[schema.GroupVersionKind]string{KindPool: why}})
	}
	for name, test := range map[string]struct {
		a, b compat.Reading
		want bool
	}{
		"both readable":      {readable, Dialect{}.Read(compat.Objects{}), true},
		"no longer":          {readable, unread("forbidden"), false},
		"both not":           {unread("forbidden"), unread("forbidden"), true},
		"for another reason": {unread("forbidden"), unread("gone"), false},
		"of another format":  {readable, nil, false},
	} {
		if got := test.a.Same(test.b); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A dry run is asked for where the backend makes plans. What cannot be read as true or false
// counts as true: nothing must be changed by mistake.
func TestDryRun(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "false": false, "perhaps": true, "": true, "-": false} {
		for _, plans := range []bool{true, false} {
			s := &lb.Service{Annotations: map[string]string{AnnotationDryRun: value}}
			if value == "-" {
				s.Annotations = nil
			}
			readings := compat.Readings{{Dialect: Dialect{}, Reading: Dialect{}.Read(compat.Objects{})}}
			r := readings.Request(s, nil, compat.Class{Plans: plans})
			if r.DryRun != (want && plans) {
				t.Errorf("%q, plans %t: %t", value, plans, r.DryRun)
			}
			if unknown := r.Invalid != nil; unknown != (value != "-" && !plans) {
				t.Errorf("%q, plans %t: %v", value, plans, r.Invalid)
			}
		}
	}
	// Other annotations are no less unknown for that.
	s := &lb.Service{Annotations: map[string]string{"fairlead.io/poool": "x", "example.com/a": "b"}}
	for _, plans := range []bool{true, false} {
		r := compat.Readings{{Dialect: Dialect{}, Reading: Dialect{}.Read(compat.Objects{})}}.Request(s, nil, compat.Class{Plans: plans})
		if r.Invalid == nil || !strings.Contains(r.Invalid.Text, "fairlead.io/poool is unknown") || strings.Contains(r.Invalid.Text, "example.com") {
			t.Errorf("plans %t: %v", plans, r.Invalid)
		}
	}
}

// As many as a list may have are fine, and one more is not.
func TestMostEntries(t *testing.T) {
	entries := func(n int, format string) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(format, i))
		}
		return strings.Join(out, ",")
	}
	ask := func(name, value string) lb.Request {
		s := &lb.Service{Annotations: map[string]string{name: value}}
		return compat.Readings{{Dialect: Dialect{}, Reading: Dialect{}.Read(compat.Objects{})}}.Request(s, nil, compat.Class{})
	}
	if r := ask(AnnotationAddresses, entries(maxAddresses, "192.0.2.%d")); r.Invalid != nil || len(r.Addresses) != maxAddresses {
		t.Errorf("%d addresses: %v", len(r.Addresses), r.Invalid)
	}
	if r := ask(AnnotationAddresses, entries(maxAddresses+1, "192.0.2.%d")); r.Invalid == nil || len(r.Addresses) != 0 {
		t.Errorf("%d addresses: %v", len(r.Addresses), r.Invalid)
	}
	if r := ask(AnnotationBGPCommunities, entries(lb.MaxCommunities, "64512:%d")); r.Route.Wrong != "" || len(r.Route.Communities) != lb.MaxCommunities {
		t.Errorf("%d communities: %s", len(r.Route.Communities), r.Route.Wrong)
	}
	if r := ask(AnnotationBGPCommunities, entries(lb.MaxCommunities+1, "64512:%d")); r.Route.Wrong == "" || len(r.Route.Communities) != 0 {
		t.Errorf("%d communities: %s", len(r.Route.Communities), r.Route.Wrong)
	}

	for n, want := range map[int]bool{lb.MaxCommunities: true, lb.MaxCommunities + 1: false} {
		p := Pool(&v1alpha1.Pool{Spec: *parse[v1alpha1.PoolSpec](t, `{addresses: [192.0.2.0/24], advertise: {bgp: {communities: ["`+strings.ReplaceAll(entries(n, "64512:%d"), ",", `","`)+`"]}}}`)})
		if (p.Invalid == nil) != want {
			t.Errorf("%d communities: %v", n, p.Invalid)
		}
	}
	for length, want := range map[int]bool{1: true, 0: false, 32: true, 33: false} {
		p := Pool(&v1alpha1.Pool{Spec: *parse[v1alpha1.PoolSpec](t, fmt.Sprintf(`{addresses: [128.0.0.0/1], advertise: {bgp: {aggregationLength: %d}}}`, length))})
		// All of 128.0.0.0/1 can be announced at once; that not all of it can be used is another matter.
		if wrong := p.Invalid != nil && strings.Contains(p.Invalid.Text, "is not between 1 and 32"); wrong == want {
			t.Errorf("length %d: %v", length, p.Invalid)
		}
	}
}

// A pool that is announced by BGP alone is not announced on the LAN, nor is one that names no
// namespace for none.
func TestPoolsWithoutLists(t *testing.T) {
	p := Pool(&v1alpha1.Pool{Spec: *parse[v1alpha1.PoolSpec](t, `{addresses: [192.0.2.0/24], advertise: {bgp: {}}}`)})
	if len(p.Advertisements) != 0 || len(p.Routes) != 1 {
		t.Errorf("%d on the LAN, %d routes", len(p.Advertisements), len(p.Routes))
	}
	if !p.Admits(&lb.Request{}) || p.Namespaces != nil {
		t.Errorf("for namespaces %v", p.Namespaces)
	}
	empty := Pool(&v1alpha1.Pool{})
	if empty.Invalid == nil || strings.Contains(empty.Invalid.Text, "excludes all") {
		t.Errorf("a pool without addresses: %v", empty.Invalid)
	}
}
