package cloudscale

import (
	"net/netip"
	"slices"
	"testing"

	"fairlead.io/internal/lb"
)

// Which floating IPs another Service asks for: those of its annotation, else, by the current
// rules, that of spec.loadBalancerIP.
func TestFloatingIPsByVersion(t *testing.T) {
	const list = `["192.0.2.7/32"]`
	annotated, field := netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("192.0.2.8/32")
	for _, test := range []struct {
		name        string
		annotations map[string]string
		ip          string
		want        []netip.Prefix
	}{
		{"nothing", nil, "", nil},
		{"nothing, by the current rules", map[string]string{AnnotationConfigVersion: "2"}, "", nil},
		{"the annotation", map[string]string{AnnotationFloatingIPs: list}, "", []netip.Prefix{annotated}},
		{"both", map[string]string{AnnotationFloatingIPs: list, AnnotationConfigVersion: "2"}, "192.0.2.8", []netip.Prefix{annotated}},
		{"the field", map[string]string{AnnotationConfigVersion: "2"}, "192.0.2.8", []netip.Prefix{field}},
		{"the field, by the rules of old", map[string]string{AnnotationConfigVersion: "1"}, "192.0.2.8", nil},
		{"the field, and no rules are named", nil, "192.0.2.8", nil},
		{"what cannot be read", map[string]string{AnnotationFloatingIPs: `["x"]`, AnnotationConfigVersion: "2"}, "192.0.2.8", nil},
	} {
		s := &lb.Service{Annotations: test.annotations, LoadBalancerIP: test.ip}
		if got := FloatingIPs(s); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestName(t *testing.T) {
	s := &lb.Service{UID: "u"}
	if got := Name(s); got != "k8s-service-u" {
		t.Errorf("%q", got)
	}
	if s.Annotations = map[string]string{AnnotationName: "own"}; Name(s) != "own" {
		t.Errorf("%q", Name(s))
	}
	if (Dialect{}).Voice().Alone() {
		t.Error("nobody else may speak")
	}
}

// With traffic policy Local kube-proxy says at a port of its own which nodes have pods. It is
// asked in its own way, unless somebody says how.
func TestHealthCheckPort(t *testing.T) {
	for _, test := range []struct {
		local bool
		port  uint16
		want  int
	}{{true, 31000, 31000}, {true, 0, 30080}, {false, 31000, 30080}, {false, 0, 30080}} {
		s := &lb.Service{}
		s.Local, s.HealthCheckNodePort = test.local, test.port
		s.Ports = []lb.FrontendPort{{Port: lb.Port{Protocol: "TCP", Number: 80}, NodePort: 30080}}
		if got, problems := Read(s, VersionCurrent); len(problems) > 0 || got.Ports[0].MonitorPort != test.want {
			t.Errorf("local %t, %d: %+v, %v", test.local, test.port, got.Ports, problems)
		}
	}
	for text, path := range map[string]string{`{}`: "/livez", `{"method": "HEAD"}`: "/", `{"expected_codes": ["204"]}`: "/"} {
		s := &lb.Service{Annotations: map[string]string{AnnotationMonitorHTTP: text}}
		s.Local, s.Ports = true, []lb.FrontendPort{{Port: lb.Port{Protocol: "TCP", Number: 80}, NodePort: 30080}}
		if got, problems := Read(s, VersionCurrent); len(problems) > 0 || got.Ports[0].Monitor.HTTP.URLPath != path {
			t.Errorf("%s: %+v, %v", text, got.Ports[0].Monitor.HTTP, problems)
		}
	}
}
