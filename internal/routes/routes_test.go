package routes

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/compat/kubedc"
	"fairlead.io/internal/eip"
	"fairlead.io/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func subnet(name, cidr, gateway string) *kubeovn.Subnet {
	return &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{kubedc.LabelNetworkType: kubedc.Public}},
		Spec: kubeovn.SubnetSpec{CIDRBlock: cidr, Gateway: gateway}}
}

var external = []*kubeovn.Subnet{
	subnet("ext-cloud", "100.65.0.0/16", "100.65.0.1"),
	subnet("ext-public", "168.119.17.48/28,2001:db8::/64", "168.119.17.49, 2001:db8::1"),
	{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Spec: kubeovn.SubnetSpec{CIDRBlock: "10.0.0.0/16", Gateway: "10.0.0.1"}},
}

func at(vip, protocol string, backends ...string) Served {
	s := Served{VIP: netip.MustParseAddr(vip), Protocol: protocol}
	for _, b := range backends {
		s.Backends = append(s.Backends, netip.MustParseAddrPort(b))
	}
	return s
}

func texts(routes []kubeovn.PolicyRoute) (out []string) {
	for _, r := range routes {
		if r.Priority != 30010 || r.Action != "reroute" {
			out = append(out, "wrong")
		}
		out = append(out, text(r))
	}
	return out
}

func textsOf(served []Served, standard string) []string {
	needed, _ := Needed(served, external, standard)
	return texts(needed)
}

// A Service with very many backends does not fill the Vpc, and what it is to have comes
// before what it has.
func TestRoutesAreLimited(t *testing.T) {
	wanted, has := at("168.119.17.52", "tcp"), at("168.119.17.52", "tcp", "10.0.0.11:1")
	for i := range uint16(2 * maxRoutes) {
		wanted.Backends = append(wanted.Backends, netip.AddrPortFrom(netip.MustParseAddr("10.0.0.12"), 1+i))
	}
	all, beyond := Needed([]Served{wanted, has}, external, "ext-cloud")
	needed, more := Needed([]Served{wanted, wanted}, external, "ext-cloud")
	if len(all) != maxRoutes || !slices.Equal(all, needed) {
		t.Errorf("%d routes, %d for what it is to have", len(all), len(needed))
	}
	if beyond != maxRoutes+1 || more != maxRoutes {
		t.Errorf("%d and %d more", beyond, more)
	}
	wanted.Backends = wanted.Backends[:maxRoutes]
	if needed, more := Needed([]Served{wanted, wanted}, external, "ext-cloud"); len(needed) != maxRoutes || more != 0 {
		t.Errorf("%d routes and %d more", len(needed), more)
	}
}

// Only replies to addresses of another external subnet than the default one need a route.
func TestNeeded(t *testing.T) {
	served := []Served{
		at("168.119.17.52", "tcp", "10.0.0.12:8080", "10.0.0.11:8080"),
		at("168.119.17.52", "udp", "10.0.0.11:53"),
		at("168.119.17.53", "tcp", "10.0.0.11:8080"), // another Service, the same backend
		at("2001:db8::52", "tcp", "[fd00::11]:8080", "10.0.0.11:1"),
		at("100.65.0.9", "tcp", "10.0.0.13:80"),
		at("10.0.0.9", "tcp", "10.0.0.13:80"),
		at("192.0.2.1", "tcp", "10.0.0.13:80"),
	}
	want := []string{
		"ip4.src == 10.0.0.11 && tcp.src == 8080 via 168.119.17.49",
		"ip4.src == 10.0.0.11 && udp.src == 53 via 168.119.17.49",
		"ip4.src == 10.0.0.12 && tcp.src == 8080 via 168.119.17.49",
		"ip6.src == fd00::11 && tcp.src == 8080 via 2001:db8::1",
	}
	if diff := cmp.Diff(want, textsOf(served, "ext-cloud")); diff != "" {
		t.Error(diff)
	}
	if got := textsOf(served, ""); got != nil {
		t.Errorf("without a default subnet: %v", got)
	}
	if got := textsOf(served[:4], "ext-public"); got != nil {
		t.Errorf("on the default subnet: %v", got)
	}
}

// change gives a Service its routes, as an API server does, and returns whether anything
// was written.
func change(t *testing.T, vpc *kubeovn.Vpc, service string, needed ...kubeovn.PolicyRoute) bool {
	t.Helper()
	step, ok := Change(vpc, service, needed)
	if !ok {
		return false
	}
	body := step.Body.(eip.Write)
	var ops []struct {
		Op, Path string
		Value    json.RawMessage
	}
	if err := json.Unmarshal(body.Patch, &ops); err != nil {
		t.Fatal(err)
	}
	for _, o := range ops {
		var at int
		index, _ := fmt.Sscanf(o.Path, "/spec/policyRoutes/%d", &at)
		var into any
		switch {
		case o.Op == "replace" && o.Path == "/metadata/resourceVersion":
			into = &vpc.ResourceVersion
		case o.Op == "remove" && index == 1:
			vpc.Spec.PolicyRoutes = slices.Delete(slices.Clone(vpc.Spec.PolicyRoutes), at, at+1)
		case o.Op == "add" && o.Path == "/spec/policyRoutes":
			into = &vpc.Spec.PolicyRoutes
		case o.Op == "add" && o.Path == "/spec/policyRoutes/-" && vpc.Spec.PolicyRoutes != nil:
			vpc.Spec.PolicyRoutes = append(slices.Clone(vpc.Spec.PolicyRoutes), kubeovn.PolicyRoute{})
			into = &vpc.Spec.PolicyRoutes[len(vpc.Spec.PolicyRoutes)-1]
		case o.Op == "add" && o.Path == "/metadata/annotations":
			into = &vpc.Annotations
		case o.Op == "add" && o.Path == "/metadata/annotations/fairlead.io~1policy-routes" && vpc.Annotations != nil:
			var text string
			if err := json.Unmarshal(o.Value, &text); err != nil {
				t.Fatal(err)
			}
			vpc.Annotations[Annotation] = text
		case o.Op == "remove" && o.Path == "/metadata/annotations/fairlead.io~1policy-routes":
			delete(vpc.Annotations, Annotation)
		default:
			t.Fatalf("%+v cannot be applied to %+v", o, vpc)
		}
		if into != nil {
			if err := json.Unmarshal(o.Value, into); err != nil {
				t.Fatal(err)
			}
		}
	}
	return true
}

func r(match, via string) kubeovn.PolicyRoute {
	return kubeovn.PolicyRoute{Priority: priority, Action: reroute, Match: match, NextHopIP: via}
}

// Routes that Services share are there once, and go with the last one. Those of others
// stay, even if they look the same.
func TestChange(t *testing.T) {
	foreign := kubeovn.PolicyRoute{Priority: 32000, Action: "allow", Match: "ip4"}
	theirs := r("ip4.src == 10.0.0.9 && tcp.src == 1", "v")
	a, b, c := r("a", "v"), r("b", "v"), r("c", "v")
	vpc := &kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: "shalb-dev", ResourceVersion: "7"}}
	has := func(what string, want ...kubeovn.PolicyRoute) {
		t.Helper()
		if diff := cmp.Diff(want, slices.Clip(vpc.Spec.PolicyRoutes)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		for _, s := range []string{"x/1", "x/2"} {
			if step, again := Change(vpc, s, read(vpc)[s]); again {
				t.Errorf("%s: a second look does something: %v", what, step)
			}
		}
	}
	vpc.Spec.PolicyRoutes = []kubeovn.PolicyRoute{foreign, theirs}
	change(t, vpc, "x/1", a, b, theirs)
	has("the first", foreign, theirs, a, b)
	change(t, vpc, "x/2", b, c)
	has("the second", foreign, theirs, a, b, c)
	change(t, vpc, "x/1", a)
	has("one is not needed by both", foreign, theirs, a, b, c)
	change(t, vpc, "x/2", r("b", "w"), r("a", "w"))
	has("another gateway, but not for what another Service has", foreign, theirs, a, r("b", "w"))
	vpc.Spec.PolicyRoutes = []kubeovn.PolicyRoute{foreign, theirs}
	if got := Broken(vpc); !slices.Equal(got, []string{"x/1", "x/2"}) {
		t.Errorf("broken: %v", got)
	}
	change(t, vpc, "x/1", a)
	change(t, vpc, "x/2", r("b", "w"))
	has("made again", foreign, theirs, a, r("b", "w"))
	change(t, vpc, "x/2")
	change(t, vpc, "x/1")
	has("gone", foreign, theirs)
	if _, left := vpc.Annotations[Annotation]; left || len(Services(vpc)) > 0 {
		t.Errorf("left: %v", vpc.Annotations)
	}
	if change(t, vpc, "x/1") {
		t.Error("nothing was to be done")
	}
	vpc.Annotations = map[string]string{Annotation: "nonsense", "note": "of the operator"}
	change(t, vpc, "x/1", a)
	change(t, vpc, "x/1")
	if vpc.Annotations["note"] == "" || !strings.Contains(vpc.ResourceVersion, "7") {
		t.Errorf("%v", vpc.ObjectMeta)
	}
	has("after nonsense", foreign, theirs)
}

// The first route of a Vpc that has none, and no annotations.
func TestFirstRoute(t *testing.T) {
	vpc := &kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: "shalb-dev", ResourceVersion: "7"}, Spec: kubeovn.VpcSpec{EnableExternal: true}}
	change(t, vpc, "x/1", r("a", "v"))
	if len(vpc.Spec.PolicyRoutes) != 1 || !vpc.Spec.EnableExternal {
		t.Errorf("%+v", vpc.Spec)
	}
}
