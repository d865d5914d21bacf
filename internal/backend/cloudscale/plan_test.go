package cloudscale

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"fairlead.io/internal/cloudscale"
	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

// A load balancer that cloudscale's controller has made is as it should be.
func TestAdoption(t *testing.T) {
	check(t, Plan(wants(service(), 1, 2), upstream(1, 2)), lb.ImpactNone)

	// Whatever the Service says that upstream does not hear.
	unheard := func(s *corev1.Service) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
		s.Spec.LoadBalancerIP = "192.0.2.99"
	}
	check(t, Plan(wants(service(unheard), 1, 2), upstream(1, 2)), lb.ImpactNone)

	// Everything that it makes otherwise: the PROXY protocol, UDP with a monitor by
	// TCP, and externalTrafficPolicy Local.
	a := upstream(1, 2)
	for i := range a.Pools {
		a.Pools[i].Protocol = "proxyv2"
	}
	check(t, Plan(wants(service(annotated(compat.AnnotationPoolProtocol, "proxyv2")), 1, 2), a), lb.ImpactNone)
	a = upstream(1, 2)
	a.Pools[0].Name, a.Pools[0].Protocol, a.Listeners[0].Name, a.Listeners[0].Protocol = "udp/http", "udp", "udp/80", "udp"
	check(t, Plan(wants(service(ports(udpPort("http", 80, 30080), port("https", 443, 30443))), 1, 2), a), lb.ImpactNone)
	a = upstream(1, 2)
	for i := range a.Monitors {
		a.Monitors[i].Type, a.Monitors[i].HTTP = "http", &cloudscale.HTTPCheck{ExpectedCodes: []string{"200"}, Method: "GET", URLPath: "/livez", Version: "1.0"}
	}
	for _, members := range a.Members {
		for i := range members {
			members[i].MonitorPort = 32000
		}
	}
	check(t, Plan(wants(service(local), 1, 2), a), lb.ImpactNone)

	// Only tags are new, and those of others stay.
	d := wants(service(), 1, 2)
	a = upstream(1, 2)
	d.Tags = cloudscale.Tags{tagUID: "deadbeef"}
	a.LoadBalancers[0].Tags = cloudscale.Tags{"team": "shop"}
	p := Plan(d, a)
	check(t, p, lb.ImpactNone, "update load balancer k8s-service-deadbeef: tag k8s-service-uid none → deadbeef")
	want := cloudscale.LoadBalancerPatch{Tags: &cloudscale.Tags{"team": "shop", tagUID: "deadbeef"}}
	if diff := cmp.Diff(want, p.Steps[0].Body); diff != "" {
		t.Error(diff)
	}
}

func TestCreate(t *testing.T) {
	d := wants(service(annotated(compat.AnnotationZone, "rma1")), 1, 2)
	d.Tags = cloudscale.Tags{tagUID: "deadbeef", tagVersion: "1"}
	p := Plan(d, Actual{Now: now})
	check(t, p, lb.ImpactNone,
		"create load balancer k8s-service-deadbeef",
		"create pool tcp/http",
		"create members 10.0.0.1:30080, 10.0.0.2:30080 of tcp/http",
		"create health monitor of tcp/http",
		"create listener tcp/80 of tcp/http",
		"create pool tcp/https",
		"create members 10.0.0.1:30443, 10.0.0.2:30443 of tcp/https",
		"create health monitor of tcp/https",
		"create listener tcp/443 of tcp/https")
	tags := cloudscale.Tags{tagUID: "deadbeef"}
	toLB, toPool := []lb.Ref{{Field: "load_balancer", To: "load balancer k8s-service-deadbeef"}}, []lb.Ref{{Field: "pool", To: "pool tcp/http"}}
	for i, want := range []lb.Step{
		{Verb: "create", Kind: "load balancer", Name: "k8s-service-deadbeef", Body: cloudscale.NewLoadBalancer{Name: "k8s-service-deadbeef", Flavor: "lb-standard", Zone: "rma1", Tags: d.Tags}},
		{Verb: "create", Kind: "pool", Name: "tcp/http", Part: "tcp/http", Refs: toLB, Body: cloudscale.NewPool{Name: "tcp/http", Algorithm: "round_robin", Protocol: "tcp", Tags: tags}},
		{Verb: "create", Kind: "member", Name: "10.0.0.1:30080", Part: "tcp/http", Refs: toPool, Body: cloudscale.NewMember{Name: "10.0.0.1:30080",
			ProtocolPort: 30080, MonitorPort: 30080, Address: netip.MustParseAddr("10.0.0.1"), Subnet: subnet1, Tags: tags}},
		{Verb: "create", Kind: "member", Name: "10.0.0.2:30080", Part: "tcp/http", Refs: toPool, Body: cloudscale.NewMember{Name: "10.0.0.2:30080",
			ProtocolPort: 30080, MonitorPort: 30080, Address: netip.MustParseAddr("10.0.0.2"), Subnet: subnet1, Tags: tags}},
		{Verb: "create", Kind: "health monitor", Part: "tcp/http", Refs: toPool, Body: cloudscale.NewHealthMonitor{Type: "tcp", DelayS: 2, TimeoutS: 1, UpThreshold: 2, DownThreshold: 3, Tags: tags}},
		{Verb: "create", Kind: "listener", Name: "tcp/80", Part: "tcp/http", Refs: toPool, Body: cloudscale.NewListener{Name: "tcp/80", Protocol: "tcp", ProtocolPort: 80,
			TimeoutClientDataMS: 50000, TimeoutMemberConnectMS: 5000, TimeoutMemberDataMS: 50000, Tags: tags}},
	} {
		if diff := cmp.Diff(want, p.Steps[i], cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
}

// Names by which everything is found again: any other would make all anew.
func TestNames(t *testing.T) {
	d := wants(service(ports(port("", 80, 30080))), 1)
	if d.Ports[0].Pool != "tcp" || d.Ports[0].Listener != "tcp/80" {
		t.Errorf("%+v", d.Ports[0])
	}
	d = wants(service(ports(udpPort("foo", 80, 30080), udpPort("FOO", 81, 30081))), 1)
	if d.Ports[0].Pool != "udp/foo" || d.Ports[1].Pool != "udp/FOO" || d.Ports[1].Listener != "udp/81" {
		t.Errorf("%+v", d.Ports)
	}
	for address, want := range map[string]string{"10.0.0.1": "10.0.0.1:80", "::1": "[::1]:80"} {
		if got := (memberKey{Address: netip.MustParseAddr(address), ProtocolPort: 80}).name(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := service().UID; compat.Name(kubeapi.Service(service())) != "k8s-service-"+string(got) || compat.Name(kubeapi.Service(service(annotated(compat.AnnotationName, "foo")))) != "foo" {
		t.Error("names of load balancers")
	}
}

func TestGone(t *testing.T) {
	check(t, Plan(Desired{Gone: true}, Actual{Now: now}), lb.ImpactNone)
	check(t, Plan(Desired{Gone: true}, upstream(1, 2)), lb.ImpactNewConnections, "delete load balancer k8s-service-deadbeef (new connections)")
}

func TestRefused(t *testing.T) {
	vip := func(json string) edit { return annotated(compat.AnnotationVIPAddresses, json) }
	for _, test := range []struct {
		name  string
		edit  edit
		lines []string
	}{
		{"flavor", annotated(compat.AnnotationFlavor, "lb-large"), []string{"refuse load balancer k8s-service-deadbeef: flavor lb-standard cannot become lb-large"}},
		{"zone", annotated(compat.AnnotationZone, "rma1"), []string{"refuse load balancer k8s-service-deadbeef: zone lpg1 cannot become rma1"}},
		{"the same zone", annotated(compat.AnnotationZone, "lpg1"), nil},
		{"the same addresses", vip(`[{"subnet": "p4"}, {"subnet": "P6", "address": "2001:db8::10"}]`), nil},
		{"one address less", vip(`[{"subnet": "p4"}]`), []string{
			"refuse load balancer k8s-service-deadbeef: VIP addresses 192.0.2.10 in subnet p4, 2001:db8::10 in subnet p6 cannot become any in subnet p4"}},
		{"another address", vip(`[{"subnet": "p4", "address": "192.0.2.11"}, {"subnet": "p6"}]`), []string{
			"refuse load balancer k8s-service-deadbeef: VIP addresses 192.0.2.10 in subnet p4, 2001:db8::10 in subnet p6 cannot become 192.0.2.11 in subnet p4, any in subnet p6"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			impact := lb.ImpactNone
			if len(test.lines) > 0 {
				impact = lb.ImpactRefused
			}
			check(t, Plan(wants(service(test.edit), 1, 2), upstream(1, 2)), impact, test.lines...)
		})
	}
	// Everything else is planned all the same.
	check(t, Plan(wants(service(annotated(compat.AnnotationFlavor, "x"), annotated(compat.AnnotationName, "web")), 1, 2, 3), upstream(1, 2)), lb.ImpactNone,
		"refuse load balancer k8s-service-deadbeef: flavor lb-standard cannot become x",
		"update load balancer k8s-service-deadbeef: name k8s-service-deadbeef → web",
		"create member 10.0.0.3:30080 of tcp/http",
		"create member 10.0.0.3:30443 of tcp/https")
}

func TestPorts(t *testing.T) {
	http, https := port("http", 80, 30080), port("https", 443, 30443)
	for _, test := range []struct {
		name   string
		ports  []corev1.ServicePort
		impact lb.Impact
		lines  []string
	}{
		{"added", []corev1.ServicePort{http, https, port("admin", 9000, 30900)}, lb.ImpactNone, []string{
			"create pool tcp/admin",
			"create members 10.0.0.1:30900, 10.0.0.2:30900 of tcp/admin",
			"create health monitor of tcp/admin",
			"create listener tcp/9000 of tcp/admin"}},
		{"removed", []corev1.ServicePort{http}, lb.ImpactNewConnections, []string{
			"delete listener tcp/443 (new connections)",
			"delete pool tcp/https"}},
		{"other number, same name", []corev1.ServicePort{port("http", 8080, 30080), https}, lb.ImpactNewConnections, []string{
			"create listener tcp/8080 of tcp/http",
			"delete listener tcp/80 of tcp/http (new connections)"}},
		{"renamed", []corev1.ServicePort{port("web", 80, 30080), https}, lb.ImpactNone, []string{
			"update pool tcp/http of tcp/web: name tcp/http → tcp/web"}},
		{"other number and name", []corev1.ServicePort{port("web", 8080, 30088), https}, lb.ImpactNewConnections, []string{
			"create pool tcp/web",
			"create members 10.0.0.1:30088, 10.0.0.2:30088 of tcp/web",
			"create health monitor of tcp/web",
			"create listener tcp/8080 of tcp/web",
			"delete listener tcp/80 (new connections)",
			"delete pool tcp/http"}},
		{"numbers swapped", []corev1.ServicePort{port("http", 443, 30080), port("https", 80, 30443)}, lb.ImpactSeconds, []string{
			"delete listener tcp/443 of tcp/http (seconds)",
			"create listener tcp/443 of tcp/http (seconds)",
			"delete listener tcp/80 of tcp/https (seconds)",
			"create listener tcp/80 of tcp/https (seconds)"}},
		{"in another order", []corev1.ServicePort{https, http}, lb.ImpactNone, nil},
		{"UDP on a port of TCP", []corev1.ServicePort{http, https, udpPort("quic", 443, 30443)}, lb.ImpactNone, []string{
			"create pool udp/quic",
			"create members 10.0.0.1:30443, 10.0.0.2:30443 of udp/quic",
			"create health monitor of udp/quic",
			"create listener udp/443 of udp/quic"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, Plan(wants(service(ports(test.ports...)), 1, 2), upstream(1, 2)), test.impact, test.lines...)
		})
	}
}

// A pool that has to be made anew is made beside the old one.
func TestPoolsMadeAnew(t *testing.T) {
	for key, value := range map[string]string{compat.AnnotationPoolAlgorithm: "source_ip", compat.AnnotationPoolProtocol: "proxyv2"} {
		d := wants(service(annotated(key, value), ports(port("http", 80, 30080))), 1, 2)
		a := upstream(1, 2)
		a.Pools, a.Listeners = a.Pools[:1], a.Listeners[:1]
		check(t, Plan(d, a), lb.ImpactSeconds,
			"create pool tcp/http",
			"create members 10.0.0.1:30080, 10.0.0.2:30080 of tcp/http",
			"create health monitor of tcp/http",
			"delete listener tcp/80 of tcp/http (seconds)",
			"create listener tcp/80 of tcp/http (seconds)",
			"delete pool tcp/http")
	}
}

// The API may leave the listeners of a deleted pool behind.
func TestListenersWithoutPool(t *testing.T) {
	a := upstream(1, 2)
	a.Listeners[0].Pool = nil
	a.Listeners = append(a.Listeners, cloudscale.Listener{UUID: "stray", Name: "tcp/9", Protocol: "tcp", ProtocolPort: 9})
	check(t, Plan(wants(service(), 1, 2), a), lb.ImpactNone,
		"delete listener tcp/80 of tcp/http",
		"create listener tcp/80 of tcp/http",
		"delete listener tcp/9")
}

// What there is twice is there once afterwards: the one that serves stays.
func TestDuplicates(t *testing.T) {
	a := upstream(1, 2)
	a.Pools = slices.Insert(a.Pools, 0, cloudscale.Pool{UUID: "twin", Name: "tcp/http", Algorithm: "round_robin", Protocol: "tcp"})
	a.Monitors = append(a.Monitors, cloudscale.HealthMonitor{UUID: "monitor-twin", Pool: cloudscale.Ref{UUID: "pool-http"}, Type: "tcp", DelayS: 2, TimeoutS: 1, UpThreshold: 2, DownThreshold: 3})
	twin := memberOf("http", 1, 30080)
	twin.UUID = "member-twin"
	a.Members["pool-http"] = append(a.Members["pool-http"], twin)
	p := Plan(wants(service(), 1, 2), a)
	check(t, p, lb.ImpactNewConnections,
		"delete health monitor of tcp/http (new connections)",
		"update member 10.0.0.1:30080 of tcp/http: enabled true → false",
		"later delete member 10.0.0.1:30080 of tcp/http",
		"delete pool tcp/http")
	for i, id := range []string{"monitor-twin", "member-twin", "member-twin", "twin"} {
		if p.Steps[i].ID != id {
			t.Errorf("%s is of %s, want %s", p.Steps[i], p.Steps[i].ID, id)
		}
	}
}

func TestInPlace(t *testing.T) {
	httpMonitor := func(a *Actual, host *string) {
		for i := range a.Monitors {
			a.Monitors[i].Type = "http"
			a.Monitors[i].HTTP = &cloudscale.HTTPCheck{ExpectedCodes: []string{"200"}, Method: "GET", URLPath: "/", Version: "1.1", Host: host}
		}
	}
	host := "example.org"
	for _, test := range []struct {
		name   string
		edits  []edit
		actual func(*Actual)
		impact lb.Impact
		lines  []string
	}{
		{"all of a listener in one", []edit{
			annotated(compat.AnnotationAllowedCIDRs, `["7.0.0.0/8"]`), annotated(compat.AnnotationTimeoutClientData, "1"),
			annotated(compat.AnnotationTimeoutMemberConnect, "2"), annotated(compat.AnnotationTimeoutMemberData, "3")}, nil, lb.ImpactNewConnections, []string{
			"update listener tcp/80 of tcp/http: timeout_client_data_ms 50000 → 1, timeout_member_connect_ms 5000 → 2, timeout_member_data_ms 50000 → 3, allowed_cidrs [] → [7.0.0.0/8] (new connections)"}},
		{"networks in any order", []edit{annotated(compat.AnnotationAllowedCIDRs, `["7.0.0.0/8", "2001:db8::/32", "1.2.3.4"]`)}, func(a *Actual) {
			a.Listeners[0].AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("1.2.3.4/32"), netip.MustParsePrefix("7.0.0.0/8")}
		}, lb.ImpactNone, nil},
		{"networks taken back", nil, func(a *Actual) { a.Listeners[0].AllowedCIDRs = []netip.Prefix{netip.MustParsePrefix("7.0.0.0/8")} }, lb.ImpactNewConnections, []string{
			"update listener tcp/80 of tcp/http: allowed_cidrs [7.0.0.0/8] → [] (new connections)"}},
		{"all of a monitor in one", []edit{
			annotated(compat.AnnotationMonitorDelay, "5"), annotated(compat.AnnotationMonitorTimeout, "4"), annotated(compat.AnnotationMonitorUpThreshold, "7")}, nil, lb.ImpactNewConnections, []string{
			"update health monitor of tcp/http: delay_s 2 → 5, timeout_s 1 → 4, up_threshold 2 → 7 (new connections)"}},
		{"another type", []edit{annotated(compat.AnnotationMonitorType, "http")}, nil, lb.ImpactNewConnections, []string{
			"delete health monitor of tcp/http (new connections)",
			"create health monitor of tcp/http (new connections)"}},
		{"another method", []edit{annotated(compat.AnnotationMonitorType, "http"), annotated(compat.AnnotationMonitorHTTP, `{"method": "HEAD"}`)},
			func(a *Actual) { httpMonitor(a, nil) }, lb.ImpactNewConnections, []string{"update health monitor of tcp/http: http.method GET → HEAD (new connections)"}},
		{"the same", []edit{annotated(compat.AnnotationMonitorType, "http"), annotated(compat.AnnotationMonitorHTTP, `{"host": "example.org"}`)},
			func(a *Actual) { httpMonitor(a, &host) }, lb.ImpactNone, nil},
		{"no host any more", []edit{annotated(compat.AnnotationMonitorType, "http")},
			func(a *Actual) { httpMonitor(a, &host) }, lb.ImpactNewConnections, []string{`update health monitor of tcp/http: http.host "example.org" → none (new connections)`}},
		{"another version", []edit{annotated(compat.AnnotationMonitorType, "http"), annotated(compat.AnnotationMonitorHTTP, `{"version": "1.0"}`)},
			func(a *Actual) { httpMonitor(a, nil) }, lb.ImpactNewConnections, []string{
				"delete health monitor of tcp/http (new connections)",
				"create health monitor of tcp/http (new connections)"}},
		{"names that somebody changed", nil, func(a *Actual) { a.Listeners[0].Name, a.Pools[0].Name = "x", "y" }, lb.ImpactNone, []string{
			"update pool y of tcp/http: name y → tcp/http",
			"update listener x of tcp/http: name x → tcp/80"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := upstream(1, 2)
			a.Pools, a.Listeners, a.Monitors = a.Pools[:1], a.Listeners[:1], a.Monitors[:1]
			if test.actual != nil {
				test.actual(&a)
			}
			check(t, Plan(wants(service(append(test.edits, ports(port("http", 80, 30080)))...), 1, 2), a), test.impact, test.lines...)
		})
	}
}

// As long as something cannot be understood, members follow the nodes.
func TestMembersOnly(t *testing.T) {
	d := wants(service(annotated(compat.AnnotationMonitorDelay, "x"), annotated(compat.AnnotationPoolAlgorithm, "source_ip")), 1, 3)
	check(t, Plan(d, upstream(1, 2)), lb.ImpactNone,
		"create member 10.0.0.3:30080 of tcp/http",
		"update member 10.0.0.2:30080 of tcp/http: enabled true → false",
		"later delete member 10.0.0.2:30080 of tcp/http",
		"create member 10.0.0.3:30443 of tcp/https",
		"update member 10.0.0.2:30443 of tcp/https: enabled true → false",
		"later delete member 10.0.0.2:30443 of tcp/https")
	for _, key := range []string{compat.AnnotationNodeSelector, compat.AnnotationAllowedSubnets} {
		check(t, Plan(wants(service(annotated(key, "===")), 3), upstream(1, 2)), lb.ImpactNone)
	}
}

// The same is planned whatever the order in which the cloud lists things, but
// for the order of what is deleted.
func TestPlansAreStable(t *testing.T) {
	d := wants(service(ports(port("a", 1, 30001), port("b", 2, 30002))), 1, 2, 3)
	want := Plan(d, upstream(1, 2))
	for range 20 {
		if diff := cmp.Diff(want.Lines(), Plan(d, upstream(1, 2)).Lines()); diff != "" {
			t.Fatal(diff)
		}
	}
	a := upstream(1, 2)
	slices.Reverse(a.Members["pool-http"])
	slices.Reverse(a.Monitors)
	if diff := cmp.Diff(want.Lines(), Plan(d, a).Lines()); diff != "" {
		t.Error(diff)
	}
}
