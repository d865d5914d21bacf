package cloudscale

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// onePort is the Service and the load balancer with the port http only.
func onePort(a Actual) Actual {
	a.Pools, a.Listeners, a.Monitors = a.Pools[:1], a.Listeners[:1], a.Monitors[:1]
	return a
}

func TestMembers(t *testing.T) {
	status := func(s string, names ...string) func(*testing.T, *Actual) {
		return func(t *testing.T, a *Actual) {
			for _, n := range names {
				a.memberByName(t, n).MonitorStatus = s
			}
		}
	}
	for _, test := range []struct {
		name   string
		had    []int // numbers of nodes
		wants  []int
		edits  []edit
		actual func(*testing.T, *Actual)
		impact lb.Impact
		lines  []string
	}{
		{"one more", []int{1}, []int{1, 2}, nil, nil, lb.ImpactNone, []string{"create member 10.0.0.2:30080 of tcp/http"}},
		{"one less", []int{1, 2}, []int{2}, nil, nil, lb.ImpactNone, []string{
			"update member 10.0.0.1:30080 of tcp/http: enabled true → false",
			"later delete member 10.0.0.1:30080 of tcp/http"}},
		{"the last one that works stays until another one does", []int{1}, []int{2}, nil, nil, lb.ImpactNone, []string{
			"create member 10.0.0.2:30080 of tcp/http",
			"later update member 10.0.0.1:30080 of tcp/http: enabled true → false",
			"later delete member 10.0.0.1:30080 of tcp/http"}},
		{"the new one does not work yet", []int{1, 2}, []int{2}, nil, func(t *testing.T, a *Actual) {
			m := a.memberByName(t, "10.0.0.2:30080")
			m.MonitorStatus, m.CreatedAt = "changing", now.Add(-10*time.Second)
		}, lb.ImpactNone, []string{
			"later update member 10.0.0.1:30080 of tcp/http: enabled true → false",
			"later delete member 10.0.0.1:30080 of tcp/http"}},
		{"the new one had its time", []int{1, 2}, []int{2}, nil, status("down", "10.0.0.2:30080"), lb.ImpactNewConnections, []string{
			"update member 10.0.0.1:30080 of tcp/http: enabled true → false (new connections)",
			"later delete member 10.0.0.1:30080 of tcp/http"}},
		{"one that is down goes at once", []int{1}, []int{2}, nil, status("down", "10.0.0.1:30080"), lb.ImpactNone, []string{
			"create member 10.0.0.2:30080 of tcp/http",
			"update member 10.0.0.1:30080 of tcp/http: enabled true → false",
			"later delete member 10.0.0.1:30080 of tcp/http"}},
		{"one after the other", []int{1, 2}, []int{3}, nil, nil, lb.ImpactNone, []string{
			"create member 10.0.0.3:30080 of tcp/http",
			"update member 10.0.0.1:30080 of tcp/http: enabled true → false",
			"later delete member 10.0.0.1:30080 of tcp/http",
			"later update member 10.0.0.2:30080 of tcp/http: enabled true → false",
			"later delete member 10.0.0.2:30080 of tcp/http"}},
		{"none is left", []int{1, 2}, nil, nil, nil, lb.ImpactMinutes, []string{
			"update member 10.0.0.1:30080 of tcp/http: enabled true → false",
			"later delete member 10.0.0.1:30080 of tcp/http",
			"update member 10.0.0.2:30080 of tcp/http: enabled true → false (minutes)",
			"later delete member 10.0.0.2:30080 of tcp/http"}},
		{"draining", []int{1, 2}, []int{2}, nil, func(t *testing.T, a *Actual) {
			a.memberByName(t, "10.0.0.1:30080").Enabled = false
			a.Disabled = map[string]time.Time{"member-http-1": now.Add(-19 * time.Second)}
		}, lb.ImpactNone, []string{"later delete member 10.0.0.1:30080 of tcp/http"}},
		{"drained", []int{1, 2}, []int{2}, nil, func(t *testing.T, a *Actual) {
			a.memberByName(t, "10.0.0.1:30080").Enabled = false
			a.Disabled = map[string]time.Time{"member-http-1": now.Add(-20 * time.Second)}
		}, lb.ImpactNone, []string{"delete member 10.0.0.1:30080 of tcp/http"}},
		{"back before it went", []int{1, 2}, []int{1, 2}, nil, func(t *testing.T, a *Actual) { a.memberByName(t, "10.0.0.1:30080").Enabled = false }, lb.ImpactNone, []string{
			"update member 10.0.0.1:30080 of tcp/http: enabled false → true"}},
		{"disabled by somebody else, and not wanted", []int{1, 2}, []int{2}, nil, func(t *testing.T, a *Actual) { a.memberByName(t, "10.0.0.1:30080").Enabled = false }, lb.ImpactNone, []string{
			"delete member 10.0.0.1:30080 of tcp/http"}},
		{"another name", []int{1, 2}, []int{1, 2}, nil, func(t *testing.T, a *Actual) { a.memberByName(t, "10.0.0.1:30080").Name = "x" }, lb.ImpactNone, []string{
			"update member x of tcp/http: name x → 10.0.0.1:30080"}},
		{"no monitor port is that of the member", []int{1, 2}, []int{1, 2}, nil, func(t *testing.T, a *Actual) { a.memberByName(t, "10.0.0.1:30080").MonitorPort = 0 }, lb.ImpactNone, nil},
		{"another monitor port, in turn", []int{1, 2}, []int{1, 2}, []edit{local}, nil, lb.ImpactNewConnections, []string{
			"later delete health monitor of tcp/http (new connections)",
			"later create health monitor of tcp/http (new connections)",
			"delete member 10.0.0.1:30080 of tcp/http (new connections)",
			"create member 10.0.0.1:30080 of tcp/http (new connections)",
			"later delete member 10.0.0.2:30080 of tcp/http (new connections)",
			"later create member 10.0.0.2:30080 of tcp/http (new connections)"}},
		{"another monitor port, on the only node", []int{1}, []int{1}, []edit{local}, nil, lb.ImpactSeconds, []string{
			"later delete health monitor of tcp/http (new connections)",
			"later create health monitor of tcp/http (new connections)",
			"delete member 10.0.0.1:30080 of tcp/http (seconds)",
			"create member 10.0.0.1:30080 of tcp/http (seconds)"}},
		{"nobody checks", []int{1, 2}, []int{2}, nil, status("no_monitor", "10.0.0.1:30080", "10.0.0.2:30080"), lb.ImpactNone, []string{
			"update member 10.0.0.1:30080 of tcp/http: enabled true → false",
			"later delete member 10.0.0.1:30080 of tcp/http"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := onePort(upstream(test.had...))
			if test.actual != nil {
				test.actual(t, &a)
			}
			d := wants(service(append(test.edits, ports(port("http", 80, 30080)))...), test.wants...)
			check(t, Plan(d, a), test.impact, test.lines...)
		})
	}
	// A cloud that knows none of the nodes: it is us who see nothing.
	d := wants(service(ports(port("http", 80, 30080))), 8, 9)
	if !d.KeepMembers {
		t.Error("members would go")
	}
	check(t, Plan(d, onePort(upstream(1, 2))), lb.ImpactNone)
}

func TestNodesThatReceive(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(*corev1.Node)
		want bool
	}{
		{"any", func(*corev1.Node) {}, true},
		{"excluded", func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "true" }, false},
		{"excluded by whatever", func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "" }, false},
		{"not excluded", func(n *corev1.Node) { n.Labels[corev1.LabelNodeExcludeBalancers] = "false" }, true},
		{"being deleted", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: now} }, false},
		{"to be removed by the autoscaler", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}} }, false},
		{"not ready", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		}, true},
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
	} {
		n := nodeNamed(1)
		test.edit(n)
		if got := kubeapi.Node(n).Receives; got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// A node that the cloud does not know is left out, and stops no other.
func TestMuster(t *testing.T) {
	settings, _ := compat.Read(kubeapi.Service(service()), compat.VersionUpstream)
	foreign, byName, unknown, twin, bare := nodeNamed(2), nodeNamed(3), nodeNamed(77), nodeNamed(4), nodeNamed(5)
	foreign.Spec.ProviderID = "aws:///i-0"
	byName.Spec.ProviderID = ""
	twin.Name, twin.Spec.ProviderID = "twin", ""
	all := append(servers(), cloudscale.Server{UUID: "x", Name: "twin"}, cloudscale.Server{UUID: "y", Name: "twin"}, cloudscale.Server{UUID: uuidOf(5), Name: "worker-5"})
	all[2].Zone.Slug = "rma1"
	f := resolveMembers(values([]*corev1.Node{nodeNamed(1), foreign, byName, unknown, twin, bare}), all, &settings)
	want := []string{
		"node twin has several servers with its name",
		`node worker-2 has no server: providerID "aws:///i-0" does not begin with cloudscale://`,
		"node worker-5 has no address in a private network with a subnet",
		"node worker-77 has no server with its providerID",
	}
	if got := strings.Join(f.Skipped, "; "); got != strings.Join(want, "; ") {
		t.Errorf("left out: %s, want %s", got, strings.Join(want, "; "))
	}
	if len(f.Endpoints) != 2 || f.Endpoints[0].Address.String() != "10.0.0.1" || f.Endpoints[1].Address.String() != "10.0.0.3" || f.complete() {
		t.Errorf("%+v", f)
	}
	// UUIDs in any form.
	n := nodeNamed(1)
	n.Spec.ProviderID = " cloudscale://{00000000-0000-4000-8000-000000000001} "
	if f := resolveMembers(values([]*corev1.Node{n}), servers(), &settings); !f.complete() {
		t.Errorf("%+v", f)
	}
}

func TestZones(t *testing.T) {
	elsewhere := servers()
	elsewhere[1].Zone.Slug = "rma1"
	for _, test := range []struct {
		name    string
		nodes   []int
		edits   []edit
		zone    string
		reason  lb.Code
		servers []cloudscale.Server
	}{
		{"of the nodes", []int{1, 2}, nil, "lpg1", "", servers()},
		{"of several", []int{1, 2}, nil, "", NodesInSeveralZones, elsewhere},
		{"of several, given", []int{1, 2}, []edit{annotated(compat.AnnotationZone, "rma1")}, "rma1", "", elsewhere},
		{"of several, selected", []int{1, 2}, []edit{annotated(compat.AnnotationNodeSelector, "number=2")}, "rma1", "", elsewhere},
		{"no nodes", nil, nil, "", ZoneUnknown, servers()},
		{"no nodes, given", nil, []edit{annotated(compat.AnnotationZone, "rma1")}, "rma1", "", servers()},
	} {
		settings, _ := compat.Read(kubeapi.Service(service(test.edits...)), compat.VersionUpstream)
		f := resolveMembers(values(nodesNamed(test.nodes...)), test.servers, &settings)
		zone, reason := place(&Desired{Settings: settings}, f)
		code := lb.Code("")
		if reason != nil {
			code = reason.Code
		}
		if zone != test.zone || code != test.reason {
			t.Errorf("%s: %s %s, want %s %s", test.name, zone, code, test.zone, test.reason)
		}
	}
	// A load balancer that exists stays where it is, wherever the nodes are.
	check(t, Plan(wants(service()), upstream()), lb.ImpactNone)
	d := wants(service(), 1, 2)
	d.ZoneOfNodes = "rma1"
	check(t, Plan(d, upstream(1, 2)), lb.ImpactNone)
}

// Addresses in subnets that are not allowed, and without subnets, are no members.
func TestEndpoints(t *testing.T) {
	double := server(1)
	double.Interfaces = append(double.Interfaces, cloudscale.Interface{Type: "private", Addresses: []cloudscale.InterfaceAddress{
		{Address: double.Interfaces[1].Addresses[0].Address.Next(), Subnet: cloudscale.SubnetRef{UUID: subnet2}}}})
	for allowed, want := range map[string]int{"": 2, subnet1: 1, subnet2: 1, "x": 0} {
		var list []string
		if allowed != "" {
			list = []string{allowed}
		}
		if got := endpoints(&double, list); len(got) != want {
			t.Errorf("%s: %v", allowed, got)
		}
	}
}
