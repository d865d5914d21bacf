package kubedc

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "fairlead.io/api/kubedc"
	"fairlead.io/api/kubeovn"
)

// project is kube-dc's own example: org shalb, project dev.
func project() Network {
	external := func(name, kind string) *kubeovn.Subnet {
		return &kubeovn.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelNetworkType: kind}}, Spec: kubeovn.SubnetSpec{Vlan: "vlan-" + name, Vpc: "ovn-cluster", Provider: "ovn"}}
	}
	return Network{
		Vpcs: []*kubeovn.Vpc{{ObjectMeta: metav1.ObjectMeta{Name: "shalb-dev"}, Spec: kubeovn.VpcSpec{Namespaces: []string{"shalb-dev"}},
			Status: kubeovn.VpcStatus{Subnets: []string{"shalb-dev-vms", "shalb-dev-default", "ext-cloud", "shalb-dev-nad"}}}},
		Subnets: []*kubeovn.Subnet{
			{ObjectMeta: metav1.ObjectMeta{Name: "shalb-dev-vms"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "shalb-dev-nad"}, Spec: kubeovn.SubnetSpec{Provider: "macvlan.shalb-dev"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "shalb-dev-default"}, Spec: kubeovn.SubnetSpec{Provider: "ovn"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "shalb-prod-default"}},
			external("ext-cloud", Cloud), external("ext-public", Public),
		},
		OvnEips: []*kubeovn.OvnEip{
			{ObjectMeta: metav1.ObjectMeta{Name: "shalb-dev-ext-cloud"}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext-cloud"}},
			{ObjectMeta: metav1.ObjectMeta{Name: "shalb-dev-ext-public"}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext-public"}},
		},
		Projects: []*api.Project{{ObjectMeta: metav1.ObjectMeta{Namespace: "shalb", Name: "dev"}, Spec: api.ProjectSpec{EgressNetworkType: Cloud}, Status: api.ProjectStatus{Namespace: "shalb-dev"}}},
		EIps:     []*api.EIp{{ObjectMeta: metav1.ObjectMeta{Namespace: "shalb-dev", Name: DefaultGateway}, Spec: api.EIpSpec{ChildRef: "shalb-dev-ext-cloud"}}},
	}
}

func TestLocate(t *testing.T) {
	whole := Place{Router: "shalb-dev", Switches: []string{"shalb-dev-default", "shalb-dev-vms"}, Vpc: "shalb-dev", Subnet: "ext-cloud", NetworkType: Cloud}
	with := func(change func(*Place)) Place {
		p := whole
		change(&p)
		return p
	}
	for name, test := range map[string]struct {
		namespace   string
		annotations map[string]string
		change      func(*Network)
		want        Place
		none        bool
		problem     string
	}{
		"a project":           {want: whole},
		"not a project":       {namespace: "kube-system", none: true},
		"nothing can be read": {change: func(n *Network) { *n = Network{} }, none: true},
		"the Vpc alone":       {change: func(n *Network) { n.Projects = nil }, want: with(func(p *Place) { p.NetworkType = "" })},
		"the Project alone":   {change: func(n *Network) { n.Vpcs = nil }, want: with(func(p *Place) { p.Switches = p.Switches[:1] })},
		"a Vpc that does not list the namespace, but has its name": {change: func(n *Network) { n.Vpcs[0].Spec.Namespaces = nil }, want: whole},
		"the router has another name":                              {change: func(n *Network) { n.Vpcs[0].Status.Router = "r1" }, want: with(func(p *Place) { p.Router = "r1" })},
		"Subnets cannot be read":                                   {change: func(n *Network) { n.Subnets = nil }, want: with(func(p *Place) { p.Switches = p.Switches[:1] })},
		"two Vpcs list it: the older one": {change: func(n *Network) {
			n.Vpcs[0].CreationTimestamp = metav1.Unix(100, 0)
			n.Vpcs = append([]*kubeovn.Vpc{{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(time.Unix(200, 0))}, Spec: kubeovn.VpcSpec{Namespaces: []string{"shalb-dev"}}}}, n.Vpcs...)
		}, want: whole},
		"the default gateway is in the other network": {change: func(n *Network) { n.EIps[0].Spec.ChildRef = "shalb-dev-ext-public" }, want: with(func(p *Place) { p.Subnet = "ext-public" })},
		"the default gateway names what is no port of the router": {change: func(n *Network) {
			n.OvnEips = append(n.OvnEips, &kubeovn.OvnEip{ObjectMeta: metav1.ObjectMeta{Name: "shalb-prod-ext-secret"}, Spec: kubeovn.OvnEipSpec{ExternalSubnet: "ext-secret"}})
			n.EIps[0].Spec.ChildRef = "shalb-prod-ext-secret"
		}, want: whole},
		"another namespace's default gateway": {change: func(n *Network) {
			n.EIps[0].Namespace, n.EIps[0].Spec.ChildRef = "shalb-prod", "shalb-dev-ext-public"
		}, want: whole},
		"no default gateway, two ports":             {change: func(n *Network) { n.EIps = nil }, want: whole},
		"no default gateway, two ports, no project": {change: func(n *Network) { n.EIps, n.Projects = nil, nil }, want: with(func(p *Place) { p.Subnet, p.NetworkType = "", "" })},
		"no default gateway, one port":              {change: func(n *Network) { n.EIps, n.OvnEips = nil, n.OvnEips[1:] }, want: with(func(p *Place) { p.Subnet = "ext-public" })},
		"annotated":                                 {annotations: map[string]string{AnnotationRouter: " lr0 ", AnnotationSwitches: "ls0, ls1,,ls0"}, want: Place{Router: "lr0", Switches: []string{"ls0", "ls1"}}},
		"annotated, no switches":                    {annotations: map[string]string{AnnotationRouter: "lr0"}, want: Place{Router: "lr0"}},
		"switches without a router":                 {annotations: map[string]string{AnnotationSwitches: "ls0"}, none: true, problem: "The namespace has annotation fairlead.io/ovn-switches, but not fairlead.io/ovn-router"},
		"an empty router":                           {annotations: map[string]string{AnnotationRouter: " "}, none: true, problem: "Annotation fairlead.io/ovn-router of the namespace is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			n := project()
			if test.change != nil {
				test.change(&n)
			}
			namespace := &metav1.ObjectMeta{Name: "shalb-dev", Annotations: test.annotations}
			if test.namespace != "" {
				namespace.Name = test.namespace
			}
			got, ok, problem := Locate(namespace, n)
			if diff := cmp.Diff(test.want, got); diff != "" || ok == test.none || problem != test.problem {
				t.Errorf("found %v, problem %q, place (-want +got):\n%s", ok, problem, diff)
			}
		})
	}
}
