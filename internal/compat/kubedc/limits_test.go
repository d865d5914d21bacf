package kubedc

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
	"fairlead.io/internal/lb"
)

func names(n int, format string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// As many switches as an annotation may name are fine, and one more is told.
func TestMostSwitches(t *testing.T) {
	for n, fits := range map[int]bool{maxSwitches: true, maxSwitches + 1: false} {
		o := &metav1.ObjectMeta{Name: "shop", Annotations: map[string]string{AnnotationRouter: "r", AnnotationSwitches: strings.Join(names(n, "s%d"), ",")}}
		p, ok, problem := Locate(o, Network{})
		if ok != fits || (problem == "") != fits || fits && len(p.Switches) != n {
			t.Errorf("%d: %t, %d, %q", n, ok, len(p.Switches), problem)
		}
	}
}

// The networks of kube-ovn's own provider are behind the router, by whichever name.
func TestOverlay(t *testing.T) {
	for provider, want := range map[string]bool{"": true, "ovn": true, "net1.shop.ovn": true, "macvlan.shop": false, "ovn.shop": false} {
		if got := overlay(&kubeovn.Subnet{Spec: kubeovn.SubnetSpec{Provider: provider}}); got != want {
			t.Errorf("%q: %t", provider, got)
		}
		if overlay(&kubeovn.Subnet{Spec: kubeovn.SubnetSpec{Provider: provider, Vlan: "v"}}) {
			t.Errorf("%q with a VLAN is behind the router", provider)
		}
	}
}

// Of two Vpcs that list a namespace the oldest counts, and of those of one age the first by
// name, in whatever order they are read. The name alone is for a Project's namespace.
func TestOldestVpc(t *testing.T) {
	vpc := func(name string, namespaces ...string) *kubeovn.Vpc {
		return &kubeovn.Vpc{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kubeovn.VpcSpec{Namespaces: namespaces}}
	}
	a, b, shop := vpc("a", "shop"), vpc("b", "shop"), vpc("shop")
	for _, order := range [][]*kubeovn.Vpc{{a, b, shop}, {b, a, shop}, {shop, b, a}} {
		for _, projects := range [][]*api.Project{nil, {{Status: api.ProjectStatus{Namespace: "shop"}}}} {
			if p, ok, _ := Locate(&metav1.ObjectMeta{Name: "shop"}, Network{Vpcs: order, Projects: projects}); !ok || p.Vpc != "a" {
				t.Errorf("%d projects: %t, %q", len(projects), ok, p.Vpc)
			}
		}
	}
	if p, ok, _ := Locate(&metav1.ObjectMeta{Name: "shop"}, Network{Vpcs: []*kubeovn.Vpc{shop}}); ok {
		t.Errorf("by its name alone: %q", p.Vpc)
	}
}

// A port counts for the external subnet that both its name and its spec say.
func TestPortOfSubnet(t *testing.T) {
	subnet := &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: "ext", Labels: map[string]string{LabelNetworkType: Cloud}}}
	for _, test := range []struct{ name, in, want string }{{"v-ext", "ext", "ext"}, {"v-ext", "other", ""}, {"x", "ext", ""}} {
		n := Network{Subnets: []*kubeovn.Subnet{subnet}, OvnEips: []*kubeovn.OvnEip{{ObjectMeta: metav1.ObjectMeta{Name: test.name}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: test.in}}}}
		if got := n.defaultSubnet("shop", Place{Vpc: "v"}); got != test.want {
			t.Errorf("%s in %s: %q", test.name, test.in, got)
		}
	}
}

// Annotations without effect are told, the first few of many.
func TestRemarks(t *testing.T) {
	s := &lb.Service{Annotations: map[string]string{}}
	for _, key := range names(maxKeys+3, prefix+"nonsense-%02d") {
		s.Annotations[key] = ""
	}
	if got := Remarks(s); len(got) != maxKeys {
		t.Errorf("%d are told", len(got))
	}
	for code, about := range Reasons {
		if !about.Ready || !about.Warning || !about.Event {
			t.Errorf("%s: %+v", code, about)
		}
	}
	if !(reading{}).Same(nil) {
		t.Error("Services are read again, although there are no objects")
	}
}
