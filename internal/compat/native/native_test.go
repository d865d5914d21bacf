package native

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

func parse[T any](t testing.TB, text string) *T {
	t.Helper()
	var out T
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	return &out
}

// request is what s asks for where there are no Pools.
func request(s *corev1.Service) lb.Request {
	readings := compat.Readings{{Dialect: Dialect{}, Reading: Dialect{}.Read(compat.Objects{})}}
	return readings.Request(kubeapi.Service(s), nil, compat.Class{})
}

func TestPoolAddresses(t *testing.T) {
	tests := []struct{ name, spec, want, invalid string }{
		{name: "CIDR, range and single address, merged and sorted", spec: `{addresses: [10.0.0.8/29, "10.0.0.1 - 10.0.0.3", 10.0.0.4, "fd00::/126"]}`,
			want: "10.0.0.1-10.0.0.4 10.0.0.8/29 fd00::/126"},
		{name: "host bits are ignored", spec: `{addresses: [10.0.0.77/24]}`, want: "10.0.0.0/24"},
		{name: "exclusions", spec: `{addresses: [10.0.0.0/29], exclude: [10.0.0.0, 10.0.0.3-10.0.0.4]}`, want: "10.0.0.1-10.0.0.2 10.0.0.5-10.0.0.7"},
		{name: "all excluded", spec: `{addresses: [10.0.0.0/29], exclude: [10.0.0.0/8]}`, invalid: "excludes all addresses"},
		{name: "no address", spec: `{addresses: []}`, invalid: "the list is empty"},
		{name: "not an address", spec: `{addresses: [10.0.0.300]}`, invalid: `addresses[0]: "10.0.0.300" is not an IP address`},
		{name: "backwards", spec: `{addresses: [10.0.0.9-10.0.0.1]}`, invalid: "ends before it starts"},
		{name: "two families in a range", spec: `{addresses: ["10.0.0.9-fd00::1"]}`, invalid: "mixes IPv4 and IPv6"},
		{name: "loopback", spec: `{addresses: [126.0.0.0-128.0.0.0]}`, invalid: "loopback"},
		{name: "multicast", spec: `{addresses: ["ff02::/64"]}`, invalid: "multicast"},
		{name: "unspecified", spec: `{addresses: ["0.0.0.0/32"]}`, invalid: "unspecified"},
		{name: "around link-local", spec: `{addresses: ["128.0.0.0/2"]}`, invalid: "128.0.0.0/2 has link-local addresses"},
		{name: "link-local", spec: `{addresses: ["fe80::1"]}`, invalid: "link-local"},
		{name: "a selector nobody understands", spec: `{addresses: [10.0.0.1], serviceSelectors: [{matchExpressions: [{key: a, operator: Near}]}]}`, invalid: "serviceSelectors[0]"},
		{name: "reservation outside", spec: `{addresses: [10.0.0.1], reservations: [{address: 10.0.0.2, namespace: a, name: b}]}`, invalid: "10.0.0.2 is not an address of the pool"},
		{name: "reserved twice", spec: `{addresses: [10.0.0.1], reservations: [{address: 10.0.0.1, namespace: a, name: b}, {address: 10.0.0.1, namespace: a, name: c}]}`, invalid: "already reserved for Service a/b"},
		{name: "unknown order", spec: `{addresses: [10.0.0.1], order: Random}`, invalid: `"Random" is neither Ascending nor Descending`},
		{name: "everything wrong is told", spec: `{addresses: [x], exclude: [z], priority: -1, quotaPerNamespace: -1}`, invalid: `addresses[0]: "x" is not an IP address; exclude[0]: "z" is not an IP address; priority: -1 is negative; quotaPerNamespace: -1 is negative`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := Pool(&v1alpha1.Pool{Spec: *parse[v1alpha1.PoolSpec](t, test.spec)})
			if test.invalid != "" {
				if p.Invalid == nil || p.Invalid.Code != lb.PoolInvalid || !strings.Contains(p.Invalid.Text, test.invalid) {
					t.Errorf("reason is %v, want one that contains %q", p.Invalid, test.invalid)
				}
				return
			}
			if p.Invalid != nil {
				t.Fatal(p.Invalid)
			}
			var got []string
			for _, s := range p.Spans {
				got = append(got, lb.SpanString(s))
			}
			if diff := cmp.Diff(test.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Connections are kept for as long as the pool says. 0s switches that off, which is not the same as
// saying nothing.
func TestKeepConnections(t *testing.T) {
	for _, test := range []struct {
		text    string
		keep    *time.Duration
		invalid bool
	}{
		{text: ""},
		{text: "0s", keep: new(time.Duration(0))},
		{text: "1ns", keep: new(time.Nanosecond)},
		{text: "1h", keep: new(time.Hour)},
		{text: "-1ns", invalid: true},
	} {
		spec := `{addresses: [10.0.0.1]}`
		if test.text != "" {
			spec = `{addresses: [10.0.0.1], advertise: {keepConnections: ` + test.text + `}}`
		}
		p := Pool(&v1alpha1.Pool{Spec: *parse[v1alpha1.PoolSpec](t, spec)})
		if test.invalid {
			if p.Invalid == nil || !strings.Contains(p.Invalid.Text, "advertise.keepConnections: "+test.text+" is negative") {
				t.Errorf("%q: reason is %v", test.text, p.Invalid)
			}
			continue
		}
		if p.Invalid != nil {
			t.Errorf("%q: %v", test.text, p.Invalid)
		}
		if diff := cmp.Diff(test.keep, p.Keep); diff != "" {
			t.Errorf("%q: %s", test.text, diff)
		}
	}
}

func TestBrokenSelectorOpensPoolToNobody(t *testing.T) {
	p := Pool(&v1alpha1.Pool{Spec: *parse[v1alpha1.PoolSpec](t, `{addresses: [10.0.0.1], namespaceSelectors: [{matchExpressions: [{key: a, operator: Near}]}]}`)})
	if p.Admits(&lb.Request{}) {
		t.Error("the pool admits a Service")
	}
}

func TestRequest(t *testing.T) {
	tests := []struct {
		name, service string
		check         func(lb.Request) string // what is wrong, if anything
		invalid       string
	}{
		{name: "plain", service: `{spec: {ipFamilies: [IPv4], ports: [{port: 80}, {port: 53, protocol: UDP}]}}`,
			check: func(r lb.Request) string {
				return cmp.Diff([]lb.Port{{Protocol: "TCP", Number: 80}, {Protocol: "UDP", Number: 53}}, r.Ports)
			}},
		{name: "families in their order", service: `{spec: {ipFamilies: [IPv6, IPv4], ipFamilyPolicy: RequireDualStack}}`,
			check: func(r lb.Request) string {
				return cmp.Diff([]lb.Family{lb.IPv6, lb.IPv4}, r.Families) + cmp.Diff(lb.RequireDualStack, r.Policy)
			}},
		{name: "families from cluster IPs", service: `{spec: {clusterIPs: ["fd96::1", "10.96.0.1"], ipFamilyPolicy: PreferDualStack}}`,
			check: func(r lb.Request) string { return cmp.Diff([]lb.Family{lb.IPv6, lb.IPv4}, r.Families) }},
		{name: "no family at all", service: `{}`,
			check: func(r lb.Request) string { return cmp.Diff([]lb.Family{lb.IPv4}, r.Families) }},
		{name: "addresses", service: `{metadata: {annotations: {fairlead.io/addresses: "10.0.0.1, fd00::1"}}}`,
			check: func(r lb.Request) string { return want(r.Addresses, "10.0.0.1", "fd00::1") }},
		{name: "loadBalancerIP", service: `{spec: {loadBalancerIP: 10.0.0.1}}`,
			check: func(r lb.Request) string { return want(r.Addresses, "10.0.0.1") }},
		{name: "both, the same", service: `{metadata: {annotations: {fairlead.io/addresses: "10.0.0.1,fd00::1"}}, spec: {loadBalancerIP: 10.0.0.1}}`,
			check: func(r lb.Request) string { return want(r.Addresses, "10.0.0.1", "fd00::1") }},
		{name: "both, different", service: `{metadata: {annotations: {fairlead.io/addresses: 10.0.0.2}}, spec: {loadBalancerIP: 10.0.0.1}}`,
			invalid: "spec.loadBalancerIP requests 10.0.0.1, and annotation fairlead.io/addresses requests 10.0.0.2"},
		{name: "not an address", service: `{metadata: {annotations: {fairlead.io/addresses: "10.0.0.1,ten"}}}`, invalid: `"ten" is not an IP address`},
		{name: "a flood of addresses", service: `{metadata: {annotations: {fairlead.io/addresses: "` + strings.Repeat("10.0.0.1,", 30_000) + `"}}}`, invalid: "has 30001 entries"},
		{name: "no address", service: `{metadata: {annotations: {fairlead.io/addresses: " , "}}}`, invalid: "fairlead.io/addresses is empty"},
		{name: "misspelt", service: `{metadata: {annotations: {fairlead.io/address: 10.0.0.1, example.com/address: x}}}`, invalid: "Annotation fairlead.io/address is unknown; known ones are fairlead.io/addresses, "},
		{name: "unusable", service: `{spec: {loadBalancerIP: 127.0.0.1}}`, invalid: "127.0.0.1 is a loopback address"},
		{name: "reallocate", service: `{metadata: {annotations: {fairlead.io/reallocate: "true"}}}`,
			check: func(r lb.Request) string { return cmp.Diff(true, r.Reallocate) }},
		{name: "reallocate, how", service: `{metadata: {annotations: {fairlead.io/reallocate: "now"}}}`, invalid: `"now" is neither true nor false`},
		{name: "Local: the pods matter", service: `{spec: {externalTrafficPolicy: Local, selector: {b: "2", a: "1"}}}`,
			check: func(r lb.Request) string { return cmp.Diff("a=1,b=2", r.Backends) }},
		{name: "Local without selector: own endpoints", service: `{metadata: {namespace: ns, name: s}, spec: {externalTrafficPolicy: Local}}`,
			check: func(r lb.Request) string { return cmp.Diff("endpoints of ns/s", r.Backends) }},
		{name: "Cluster: any node", service: `{spec: {externalTrafficPolicy: Cluster, selector: {a: "1"}}}`,
			check: func(r lb.Request) string { return cmp.Diff("", r.Backends) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := request(parse[corev1.Service](t, test.service))
			if test.invalid != "" {
				if r.Invalid == nil || r.Invalid.Code != lb.InvalidRequest || !strings.Contains(r.Invalid.Text, test.invalid) {
					t.Errorf("reason is %v, want one that contains %q", r.Invalid, test.invalid)
				}
				return
			}
			if r.Invalid != nil {
				t.Fatal(r.Invalid)
			}
			if wrong := test.check(r); wrong != "" {
				t.Error(wrong)
			}
		})
	}
}

// Exclusions are found in whatever order they were written.
func TestExclusionsOutOfOrder(t *testing.T) {
	p := Pool(&v1alpha1.Pool{Spec: *parse[v1alpha1.PoolSpec](t, `{addresses: [10.0.0.0/24], exclude: [10.0.0.200, 10.0.0.100, 10.0.0.1, 10.0.0.0/28]}`)})
	for _, a := range []string{"10.0.0.200", "10.0.0.100", "10.0.0.1", "10.0.0.15"} {
		if !p.Excludes(netip.MustParseAddr(a)) {
			t.Errorf("%s is not excluded", a)
		}
	}
}

func want(got []netip.Addr, texts ...string) string {
	var want []netip.Addr
	for _, s := range texts {
		want = append(want, netip.MustParseAddr(s))
	}
	return cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }))
}

// FuzzPool holds: whatever is written into a pool, it is either refused with a
// reason, or all its addresses can be given to a Service, in order, none twice.
func FuzzPool(f *testing.F) {
	f.Add("10.0.0.0/24", "10.0.0.7", "10.0.0.9")
	f.Add("fd00::-fd00::ff", "fd00::1/127", "fd00::7")
	f.Add("0.0.0.0/0", "::/0", "x")
	f.Fuzz(func(t *testing.T, addresses, exclude, reserved string) {
		p := Pool(&v1alpha1.Pool{Spec: v1alpha1.PoolSpec{
			Addresses:    []v1alpha1.Span{v1alpha1.Span(addresses)},
			Exclude:      []v1alpha1.Span{v1alpha1.Span(exclude)},
			Reservations: []v1alpha1.Reservation{{Address: reserved, Namespace: "a", Name: "b"}},
		}})
		if p.Invalid != nil {
			return
		}
		for i, s := range p.Spans {
			if kind := lb.Unusable(s); kind != "" {
				t.Errorf("%s has %s addresses", s, kind)
			}
			if p.Excludes(s.From()) || p.Excludes(s.To()) {
				t.Errorf("%s is excluded", s)
			}
			if i > 0 && !p.Spans[i-1].To().Less(s.From()) {
				t.Errorf("%s does not follow %s", s, p.Spans[i-1])
			}
		}
		for a := range p.Reserved {
			if !p.Contains(a) {
				t.Errorf("%s is reserved outside of the pool", a)
			}
		}
	})
}

// FuzzRequest holds: no annotation makes it fail, and what it asks for can be
// given to a Service.
func FuzzRequest(f *testing.F) {
	f.Add("10.0.0.1,fd00::1", "edge", "key", "true", "10.0.0.1")
	f.Fuzz(func(t *testing.T, addresses, pool, share, reallocate, ip string) {
		s := &corev1.Service{Spec: corev1.ServiceSpec{LoadBalancerIP: ip}}
		s.Annotations = map[string]string{AnnotationAddresses: addresses, AnnotationPool: pool, AnnotationShare: share, AnnotationReallocate: reallocate}
		r := request(s)
		if r.Invalid == nil && len(r.Addresses) == 0 {
			t.Error("asked for addresses, got none and no reason")
		}
		for _, a := range r.Addresses {
			if !a.IsValid() || a.IsLoopback() || a.IsMulticast() || a.IsUnspecified() {
				t.Errorf("asks for %s", a)
			}
		}
	})
}

func TestPoolsThatAddressesAreFrom(t *testing.T) {
	for text, want := range map[string][]string{
		"":                   nil,
		"edge":               {"edge"},
		"edge,metallb/lab":   {"edge", "lab"},
		"kube-vip/default,,": {"default"},
	} {
		s := &corev1.Service{}
		s.Annotations = map[string]string{AnnotationAllocatedFrom: text}
		if got := request(s).From; !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
