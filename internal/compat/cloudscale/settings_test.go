package cloudscale

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
)

func service(annotations map[string]string, ports ...corev1.ServicePort) *corev1.Service {
	if ports == nil {
		ports = []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}}
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "deadbeef", Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports},
	}
}

func read(s *corev1.Service, v Version) (Settings, []Problem) { return Read(kubeapi.Service(s), v) }

func port(protocol corev1.Protocol, name string, number, nodePort int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: protocol, Port: number, NodePort: nodePort}
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

var compareNets = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func TestDefaults(t *testing.T) {
	got, problems := read(service(nil), VersionUpstream)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := Settings{
		Name: "k8s-service-deadbeef", Flavor: "lb-standard", IPMode: "Proxy", NodeSelector: labels.Everything(),
		Ports: []Port{{
			Pool: "tcp/http", Algorithm: "round_robin", PoolProtocol: "tcp",
			Listener: "tcp/80", Protocol: "tcp", Number: 80, ClientDataMS: 50000, MemberConnectMS: 5000, MemberDataMS: 50000,
			NodePort: 30080, MonitorPort: 30080, Monitor: Monitor{Type: "tcp", DelayS: 2, TimeoutS: 1, UpThreshold: 2, DownThreshold: 3},
		}},
	}
	if diff := cmp.Diff(want, got, compareNets, cmp.Comparer(func(a, b labels.Selector) bool { return a.String() == b.String() })); diff != "" {
		t.Error(diff)
	}
}

// Every annotation, as it should be, and with what cannot be understood in it.
func TestEveryAnnotation(t *testing.T) {
	host := "example.org"
	for _, test := range []struct {
		key, value string
		field      func(*Settings) any
		want       any
		wrong      string // part of what is told
	}{
		{AnnotationName, "foo", func(s *Settings) any { return s.Name }, "foo", ""},
		{AnnotationName, "", nil, nil, "it is empty"},
		{AnnotationFlavor, "lb-large", func(s *Settings) any { return s.Flavor }, "lb-large", ""},
		{AnnotationFlavor, "", nil, nil, "it is empty"},
		{AnnotationZone, "rma1", func(s *Settings) any { return s.Zone }, "rma1", ""},
		{AnnotationZone, "", func(s *Settings) any { return s.Zone }, "", ""},
		{AnnotationVIPAddresses, `[{"subnet": "a", "address": "10.0.0.1"}, {"subnet": "b"}]`, func(s *Settings) any { return s.VIPs },
			[]VIP{{"a", netip.MustParseAddr("10.0.0.1")}, {Subnet: "b"}}, ""},
		{AnnotationVIPAddresses, "", nil, nil, "not a JSON list"},
		{AnnotationVIPAddresses, `[{"subnet": "a", "address": "x"}]`, nil, nil, `"x" is not an address`},
		{AnnotationVIPAddresses, `[{}]`, nil, nil, "neither subnet nor address"},
		{AnnotationFloatingIPs, `["5.1.2.3/32", "2a06::1/128", "5.1.2.4"]`, func(s *Settings) any { return s.FloatingIPs }, prefixes("5.1.2.3/32", "2a06::1/128", "5.1.2.4/32"), ""},
		{AnnotationFloatingIPs, " ", func(s *Settings) any { return s.FloatingIPs }, prefixes(), ""},
		{AnnotationFloatingIPs, "5.1.2.3", nil, nil, "not a JSON list"},
		{AnnotationFloatingIPs, `["x"]`, nil, nil, `"x" is neither a network`},
		{AnnotationPoolAlgorithm, "least_connections", func(s *Settings) any { return s.Ports[0].Algorithm }, "least_connections", ""},
		{AnnotationPoolAlgorithm, "random", nil, nil, `"random" is not one of round_robin, least_connections, source_ip`},
		{AnnotationPoolAlgorithm, "", nil, nil, `"" is not one of`},
		{AnnotationPoolProtocol, "proxyv2", func(s *Settings) any { return s.Ports[0].PoolProtocol }, "proxyv2", ""},
		{AnnotationPoolProtocol, "udp", nil, nil, `"udp" is not one of tcp, proxy, proxyv2`},
		{AnnotationForceHostname, "example.org", func(s *Settings) any { return s.Hostname }, "example.org", ""},
		{AnnotationIPMode, "VIP", func(s *Settings) any { return s.IPMode }, lb.IPModeVIP, ""},
		{AnnotationIPMode, "vip", nil, nil, `"vip" is not one of Proxy, VIP`},
		{AnnotationMonitorDelay, "5", func(s *Settings) any { return s.Ports[0].Monitor.DelayS }, 5, ""},
		{AnnotationMonitorDelay, "", nil, nil, `"" is not a whole number`},
		{AnnotationMonitorTimeout, "5", func(s *Settings) any { return s.Ports[0].Monitor.TimeoutS }, 5, ""},
		{AnnotationMonitorTimeout, "1s", nil, nil, `"1s" is not a whole number`},
		{AnnotationMonitorUpThreshold, "5", func(s *Settings) any { return s.Ports[0].Monitor.UpThreshold }, 5, ""},
		{AnnotationMonitorUpThreshold, "0", nil, nil, `"0" is not a whole number of 1 or more`},
		{AnnotationMonitorDownThreshold, "5", func(s *Settings) any { return s.Ports[0].Monitor.DownThreshold }, 5, ""},
		{AnnotationMonitorDownThreshold, "-1", nil, nil, `"-1" is not a whole number of 1 or more`},
		{AnnotationMonitorType, "https", func(s *Settings) any { return s.Ports[0].Monitor.HTTP }, &HTTP{[]string{"200"}, "GET", "/", "1.1", nil}, ""},
		{AnnotationMonitorType, "smtp", nil, nil, `"smtp" is not one of ping, tcp,`},
		{AnnotationMonitorHTTP, `{"expected_codes": ["200-204"], "host": "example.org"}`, func(s *Settings) any { return s.Ports[0].Monitor.HTTP }, (*HTTP)(nil), ""},
		{AnnotationMonitorHTTP, "", nil, nil, "not a JSON object"},
		{AnnotationListenerProtocol, "tcp", func(s *Settings) any { return s.Ports[0].Protocol }, "tcp", ""},
		{AnnotationListenerProtocol, "udp", nil, nil, `"udp" is not one of tcp`},
		{AnnotationAllowedCIDRs, `["1.2.3.0/24", "1.2.3.4", "2001:db8::1", "1.2.3.9/24"]`, func(s *Settings) any { return s.Ports[0].AllowedCIDRs },
			prefixes("1.2.3.0/24", "1.2.3.4/32", "2001:db8::1/128"), ""},
		{AnnotationAllowedCIDRs, "", func(s *Settings) any { return s.Ports[0].AllowedCIDRs }, prefixes(), ""},
		{AnnotationAllowedCIDRs, `["1.2.3.0/33"]`, nil, nil, `"1.2.3.0/33" is neither a network`},
		{AnnotationAllowedCIDRs, `[1]`, nil, nil, "not a JSON list of strings"},
		{AnnotationTimeoutClientData, "7", func(s *Settings) any { return s.Ports[0].ClientDataMS }, 7, ""},
		{AnnotationTimeoutClientData, "x", nil, nil, `"x" is not a whole number`},
		{AnnotationTimeoutMemberConnect, "7", func(s *Settings) any { return s.Ports[0].MemberConnectMS }, 7, ""},
		{AnnotationTimeoutMemberConnect, "x", nil, nil, `"x" is not a whole number`},
		{AnnotationTimeoutMemberData, "7", func(s *Settings) any { return s.Ports[0].MemberDataMS }, 7, ""},
		{AnnotationTimeoutMemberData, "x", nil, nil, `"x" is not a whole number`},
		{AnnotationAllowedSubnets, `["a", "b"]`, func(s *Settings) any { return s.AllowedSubnets }, []string{"a", "b"}, ""},
		{AnnotationAllowedSubnets, "a", nil, nil, "not a JSON list"},
		{AnnotationNodeSelector, "tier in (edge, front)", func(s *Settings) any { return s.NodeSelector.String() }, "tier in (edge,front)", ""},
		{AnnotationNodeSelector, "invalid===syntax", nil, nil, "unable to parse selector"},
		{AnnotationUUID, "x", func(s *Settings) any { return UUID(kubeapi.Service(service(map[string]string{AnnotationUUID: "x"}))) }, "x", ""},
		{AnnotationConfigVersion, "7", func(*Settings) any {
			return ConfigVersion(kubeapi.Service(service(map[string]string{AnnotationConfigVersion: "7"})))
		}, Version(0), ""},
	} {
		t.Run(strings.TrimPrefix(test.key, prefix)+"="+test.value, func(t *testing.T) {
			s, problems := read(service(map[string]string{test.key: test.value}), VersionUpstream)
			if test.wrong != "" {
				if len(problems) != 1 || problems[0].Key != test.key || !strings.Contains(problems[0].Text, test.wrong) {
					t.Errorf("told %v, want %s: …%s…", problems, test.key, test.wrong)
				}
				return
			}
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			if diff := cmp.Diff(test.want, test.field(&s), compareNets, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
	got, _ := read(service(map[string]string{AnnotationMonitorType: "http", AnnotationMonitorHTTP: `{"expected_codes": ["200-204"], "host": "example.org"}`}), VersionUpstream)
	if diff := cmp.Diff(&HTTP{[]string{"200-204"}, "GET", "/", "1.1", &host}, got.Ports[0].Monitor.HTTP); diff != "" {
		t.Error(diff)
	}
}

// What is wrong is told all at once, the mode of addresses first.
func TestAllProblemsAtOnce(t *testing.T) {
	s := service(map[string]string{AnnotationMonitorDelay: "x", AnnotationIPMode: "y", AnnotationNodeSelector: "===", AnnotationMonitorType: "http", AnnotationMonitorHTTP: `{"method": "EAT", "version": "2", "url_path": "x"}`},
		port(corev1.ProtocolSCTP, "a", 1, 30001), port(corev1.ProtocolTCP, "b", 2, 0))
	_, problems := read(s, VersionUpstream)
	var keys []string
	for _, p := range problems {
		keys = append(keys, p.Key)
	}
	want := []string{AnnotationIPMode, AnnotationNodeSelector, AnnotationMonitorDelay, AnnotationMonitorHTTP, AnnotationMonitorHTTP, AnnotationMonitorHTTP, "port 1", "port 2"}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("%s\n%v", diff, problems)
	}
	for i, text := range map[int]string{6: "cannot use SCTP, only TCP and UDP are supported", 7: "it has no node port"} {
		if !strings.Contains(problems[i].Text, text) {
			t.Errorf("%s, want %s", problems[i], text)
		}
	}
	if _, problems := read(service(map[string]string{AnnotationMonitorType: "http", AnnotationMonitorHTTP: `{"version": "1.0", "host": "a"}`}), VersionUpstream); len(problems) != 1 {
		t.Errorf("a host with version 1.0: %v", problems)
	}
}

func TestTrafficPolicyLocal(t *testing.T) {
	s := service(map[string]string{AnnotationMonitorType: "tcp", AnnotationMonitorDelay: "4"}, port(corev1.ProtocolTCP, "a", 1, 30001), port(corev1.ProtocolUDP, "b", 2, 30002))
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	s.Spec.HealthCheckNodePort = 32000
	for _, v := range []Version{VersionUpstream, VersionCurrent} {
		got, _ := read(s, v)
		for _, p := range got.Ports {
			want := Monitor{Type: "http", DelayS: 4, TimeoutS: 1, UpThreshold: 2, DownThreshold: 3, HTTP: &HTTP{[]string{"200"}, "GET", "/livez", "1.0", nil}}
			if diff := cmp.Diff(want, p.Monitor); diff != "" || p.MonitorPort != 32000 {
				t.Errorf("%d: %s", p.MonitorPort, diff)
			}
		}
	}
	s.Annotations[AnnotationMonitorHTTP] = `{"url_path": "/ready"}`
	got, _ := read(s, VersionUpstream)
	if diff := cmp.Diff(&HTTP{[]string{"200"}, "GET", "/ready", "1.1", nil}, got.Ports[0].Monitor.HTTP); diff != "" {
		t.Error(diff)
	}
}

// Version 2 hears what upstream does not.
func TestVersions(t *testing.T) {
	s := service(nil, port(corev1.ProtocolTCP, "a", 1, 30001))
	s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	s.Spec.LoadBalancerSourceRanges = []string{" 10.0.0.0/8", "192.0.2.1/32"}
	s.Spec.LoadBalancerIP = "192.0.2.9"
	for v, want := range map[Version]Settings{
		VersionUpstream: {Ports: []Port{{Algorithm: "round_robin"}}},
		VersionCurrent:  {Ports: []Port{{Algorithm: "source_ip", AllowedCIDRs: prefixes("10.0.0.0/8", "192.0.2.1/32")}}, FloatingIPs: prefixes("192.0.2.9/32"), PublishFloatingIPs: true},
	} {
		got, problems := read(s, v)
		got = Settings{Ports: []Port{{Algorithm: got.Ports[0].Algorithm, AllowedCIDRs: got.Ports[0].AllowedCIDRs}}, FloatingIPs: got.FloatingIPs, PublishFloatingIPs: got.PublishFloatingIPs}
		if diff := cmp.Diff(want, got, compareNets, cmpopts.IgnoreFields(Settings{}, "NodeSelector")); diff != "" || len(problems) > 0 {
			t.Errorf("version %d: %v %s", v, problems, diff)
		}
	}
	// Annotations win.
	s.Annotations = map[string]string{AnnotationPoolAlgorithm: "least_connections", AnnotationAllowedCIDRs: "[]", AnnotationFloatingIPs: ""}
	got, _ := read(s, VersionCurrent)
	if got.Ports[0].Algorithm != "least_connections" || got.Ports[0].AllowedCIDRs != nil || got.FloatingIPs != nil {
		t.Errorf("%+v", got)
	}
}

// A monitor that cannot check a port's protocol is another one there, unless the
// other protocol has the same node port.
func TestMonitorsOfUDP(t *testing.T) {
	tcp, udp := port(corev1.ProtocolTCP, "a", 53, 30053), port(corev1.ProtocolUDP, "b", 53, 30053)
	alone := port(corev1.ProtocolUDP, "c", 54, 30054)
	for _, test := range []struct {
		name        string
		version     Version
		annotations map[string]string
		ports       []corev1.ServicePort
		want        []string
		delay       int
	}{
		{"one node port, upstream", VersionUpstream, nil, []corev1.ServicePort{udp, tcp}, []string{"tcp", "tcp"}, 2},
		{"one node port", VersionCurrent, nil, []corev1.ServicePort{udp, tcp}, []string{"tcp", "tcp"}, 2},
		{"one node port, by UDP", VersionCurrent, map[string]string{AnnotationMonitorType: "udp-connect"}, []corev1.ServicePort{udp, tcp}, []string{"udp-connect", "udp-connect"}, 3},
		{"UDP alone, upstream", VersionUpstream, nil, []corev1.ServicePort{alone, tcp}, []string{"tcp", "tcp"}, 2},
		{"UDP alone", VersionCurrent, nil, []corev1.ServicePort{alone, tcp}, []string{"udp-connect", "tcp"}, 3},
		{"UDP alone, delay given", VersionCurrent, map[string]string{AnnotationMonitorDelay: "9"}, []corev1.ServicePort{alone}, []string{"udp-connect"}, 9},
		{"TCP by UDP", VersionCurrent, map[string]string{AnnotationMonitorType: "udp-connect"}, []corev1.ServicePort{alone, tcp}, []string{"udp-connect", "tcp"}, 3},
		{"UDP by HTTP", VersionCurrent, map[string]string{AnnotationMonitorType: "http"}, []corev1.ServicePort{alone}, []string{"udp-connect"}, 3},
		{"by ping", VersionCurrent, map[string]string{AnnotationMonitorType: "ping"}, []corev1.ServicePort{alone, tcp}, []string{"ping", "ping"}, 2},
	} {
		got, problems := read(service(test.annotations, test.ports...), test.version)
		var types []string
		for _, p := range got.Ports {
			types = append(types, p.Monitor.Type)
			if p.Monitor.Type == "udp-connect" && p.Monitor.HTTP != nil {
				t.Errorf("%s: asks for something", test.name)
			}
			if p.Protocol == "udp" != (p.PoolProtocol == "udp") {
				t.Errorf("%s: listener %s, pool %s", test.name, p.Protocol, p.PoolProtocol)
			}
		}
		if !slices.Equal(types, test.want) || got.Ports[0].Monitor.DelayS != test.delay || len(problems) > 0 {
			t.Errorf("%s: %v, delay %d, %v", test.name, types, got.Ports[0].Monitor.DelayS, problems)
		}
	}
}

func TestUnknownAnnotations(t *testing.T) {
	s := service(map[string]string{AnnotationName: "a", prefix + "loadbalancer-nam": "b", prefix + "other": "c", "example.org/loadbalancer": "d"})
	if got := Unknown(kubeapi.Service(s)); !slices.Equal(got, []string{prefix + "loadbalancer-nam"}) {
		t.Error(got)
	}
}

// The floating IPs of others are read as far as they can be.
func TestFloatingIPsOfOthers(t *testing.T) {
	if got := FloatingIPs(kubeapi.Service(service(map[string]string{AnnotationFloatingIPs: `["5.1.2.3/32"]`}))); len(got) != 1 {
		t.Error(got)
	}
	for _, broken := range []string{"x", `["x"]`, `{}`} {
		if got := FloatingIPs(kubeapi.Service(service(map[string]string{AnnotationFloatingIPs: broken}))); got != nil {
			t.Error(got)
		}
	}
}

// All constants are in the table, with all that the reference says of them.
func TestAnnotationsAreDescribed(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "annotation.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Annotation") && len(spec.Values) == 1 {
			if _, ok := spec.Values[0].(*ast.BinaryExpr); ok {
				declared++
			}
		}
		return true
	})
	if declared != 24 || len(Annotations) != 24 {
		t.Errorf("%d constants, %d described, want 24", declared, len(Annotations))
	}
	seen := map[string]bool{}
	for _, a := range Annotations {
		if seen[a.Key] || !strings.HasPrefix(a.Key, prefix) || a.Type == "" || !strings.HasSuffix(a.Means, ".") {
			t.Errorf("%s: %+v", a.Key, a)
		}
		seen[a.Key] = true
	}
}

// The manual of cloudscale's controller says what a change costs. With us none
// costs more.
func TestNothingCostsMoreThanInTheManual(t *testing.T) {
	manual := map[Manual][]string{
		ManualNone:    {"timeout-client-data-ms", "timeout-member-connect-ms", "timeout-member-data-ms", "name"},
		ManualMinimal: {"listener-allowed-cidrs", "floating-ips", "health-monitor-delay-s", "health-monitor-timeout-s", "health-monitor-up-threshold", "health-monitor-down-threshold", "health-monitor-type", "health-monitor-http"},
		// Pools are made anew.
		ManualConsiderable: {"pool-algorithm", "pool-protocol", "listener-allowed-subnets"},
		ManualMajor:        {"flavor", "zone", "vip-addresses"},
	}
	described := 0
	for class, keys := range manual {
		for _, key := range keys {
			at := slices.IndexFunc(Annotations, func(a Annotation) bool { return a.Key == prefix+"loadbalancer-"+key })
			if at < 0 {
				t.Errorf("%s is missing", key)
				continue
			}
			a := Annotations[at]
			described++
			if a.Manual != class {
				t.Errorf("%s: the manual says %q, not %q", key, class, a.Manual)
			}
			if a.Impact > class.Impact() {
				t.Errorf("%s: %s, in the manual %s", key, a.Impact, class)
			}
			if a.Impact < class.Impact() && a.How == "" {
				t.Errorf("%s: it is not said how it costs less", key)
			}
		}
	}
	for _, a := range Annotations {
		if a.Manual != ManualSilent {
			described--
		}
	}
	if described != 0 {
		t.Errorf("%d annotations more or less than in the manual", described)
	}
	for change, class := range map[string]Manual{
		PortNumber.What: Manual15Seconds, PortRenamed.What: ManualConsiderable, PortReplaced.What: ManualConsiderable,
		PortAdded.What: ManualNone, TrafficPolicy.What: ManualConsiderable,
	} {
		at := slices.IndexFunc(SpecChanges, func(c SpecChange) bool { return c.What == change })
		if c := SpecChanges[at]; c.Manual != class || c.Impact > class.Impact() {
			t.Errorf("%s: %s, in the manual %s", c.What, c.Impact, class)
		}
	}
	for _, c := range SpecChanges {
		if c.Manual != ManualSilent && c.Impact > c.Manual.Impact() {
			t.Errorf("%s: %s, in the manual %s", c.What, c.Impact, c.Manual)
		}
	}
	if Manual("x").Impact() != lb.ImpactNone {
		t.Error("an unknown class allows something")
	}
}

// FuzzRead holds: whatever is written, what is understood can be asked of the
// cloud, and what is not is told.
func FuzzRead(f *testing.F) {
	f.Add("[]", `[{"subnet": "a"}]`, `["5.1.2.3/32"]`, `{"version": "1.0"}`, "2", "http", "a=b", "10.0.0.0/8", "TCP", int32(30000), true)
	f.Add("x", "[{}]", "", "", "-1", "udp-connect", "!", "::/0", "UDP", int32(0), false)
	f.Fuzz(func(t *testing.T, cidrs, vips, floating, http, number, kind, selector, source, protocol string, nodePort int32, current bool) {
		s := service(map[string]string{
			AnnotationAllowedCIDRs: cidrs, AnnotationVIPAddresses: vips, AnnotationFloatingIPs: floating, AnnotationMonitorHTTP: http,
			AnnotationMonitorDelay: number, AnnotationMonitorType: kind, AnnotationNodeSelector: selector,
		}, port(corev1.Protocol(protocol), "a", 80, nodePort), port(corev1.ProtocolUDP, "b", 80, nodePort))
		s.Spec.LoadBalancerSourceRanges = []string{source}
		v := VersionUpstream
		if current {
			v = VersionCurrent
		}
		got, problems := read(s, v)
		if got.NodeSelector == nil {
			t.Error("no selector")
		}
		for _, p := range problems {
			if p.Key == "" || p.Text == "" {
				t.Errorf("told %q", p)
			}
		}
		if len(problems) > 0 {
			return
		}
		if len(got.Ports) != 2 {
			t.Errorf("%d ports", len(got.Ports))
		}
		for _, p := range got.Ports {
			m := p.Monitor
			if m.DelayS < 1 || !slices.Contains(monitorTypes, m.Type) || usesHTTP(m.Type) != (m.HTTP != nil) || p.NodePort == 0 {
				t.Errorf("port %+v", p)
			}
			for _, c := range p.AllowedCIDRs {
				if !c.IsValid() || c != c.Masked() {
					t.Errorf("network %s", c)
				}
			}
		}
		for _, f := range got.FloatingIPs {
			if !f.IsValid() {
				t.Error("invalid floating IP")
			}
		}
	})
}
