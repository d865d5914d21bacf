package agent

import (
	"net"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"fairlead.io/api/v1alpha1"
	"fairlead.io/internal/compat/kubevip"
	"fairlead.io/internal/compat/native"
	"fairlead.io/internal/dhcp"
	"fairlead.io/internal/lb"
	"fairlead.io/internal/link"
)

// leasingDirectory has the pools of a ConfigMap.
func leasingDirectory(data map[string]string) *directory {
	d := newDirectory()
	d.kubevip = kubevip.Parse(&corev1.ConfigMap{Data: data})
	d.setPools(d.kubevip.Pools, noOrphans)
	return d
}

func putKubeVIP(d *directory, s *corev1.Service) []netip.Addr {
	if len(s.Spec.IPFamilies) == 0 {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return d.setService(client.ObjectKeyFromObject(s), s, []lb.Dialect{lb.KubeVIP})
}

func annotated(s *corev1.Service, kv ...string) *corev1.Service {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	for i := 0; i < len(kv); i += 2 {
		s.Annotations[kv[i]] = kv[i+1]
	}
	return s
}

func tokensOf(d *directory) (out []string) {
	for t, members := range d.members {
		text := ""
		for _, o := range members {
			text += familyOf(o, t).String() + " " + o.request.Service.Name + " "
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func TestWhoLeases(t *testing.T) {
	for name, c := range map[string]struct {
		service *corev1.Service
		want    bool
	}{
		"asks for it":         {annotated(serviceOf("web", 1, "", 80), kubevip.AnnotationAddresses, "0.0.0.0"), true},
		"of the other family": {annotated(serviceOf("web", 1, "", 80), kubevip.AnnotationAddresses, "::"), false},
		"is on such a pool":   {annotated(serviceOf("web", 1, "", 80), native.AnnotationDHCP, "IPv4"), true},
		"asks for an address": {annotated(serviceOf("web", 1, "", 80), native.AnnotationDHCP, "IPv4", kubevip.AnnotationAddresses, "192.0.2.9"), false},
		"asks for nothing":    {serviceOf("web", 1, "", 80, "192.0.2.7"), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := leasingDirectory(nil)
			putKubeVIP(d, c.service)
			if got := len(d.members) > 0; got != c.want {
				t.Errorf("leases: %v, want %v", got, c.want)
			}
			d.setService(client.ObjectKeyFromObject(c.service), nil, nil)
			same(t, "left", len(d.members)+len(d.groups)+len(d.addresses)+len(d.services), 0)
		})
	}
}

// What a Service publishes is taken for a lease if it may be one: not if it is from
// a pool, and the Service has just come to want a lease.
func TestWhatMayBeALease(t *testing.T) {
	ready := []metav1.Condition{{Type: native.ConditionReady, Status: metav1.ConditionTrue}}
	for name, c := range map[string]struct {
		marked     string
		conditions []metav1.Condition
		want       string
	}{
		"of kube-vip":                   {want: "192.0.2.7"},
		"of Fairlead":                   {marked: "IPv4", conditions: ready, want: "192.0.2.7"},
		"of a pool":                     {conditions: ready},
		"of a pool, of the other":       {marked: "IPv6", conditions: ready},
		"of both families, one of them": {marked: "IPv4,IPv6", conditions: ready, want: "192.0.2.7"},
	} {
		d := leasingDirectory(nil)
		s := annotated(serviceOf("web", 1, "", 80, "192.0.2.7"), kubevip.AnnotationAddresses, "0.0.0.0", native.AnnotationDHCP, c.marked)
		s.Status.Conditions = c.conditions
		putKubeVIP(d, s)
		for token := range d.members {
			if familyOf(d.members[token][0], token) == lb.IPv4 {
				same(t, name, d.lastLease(token).Address, c.want)
			}
		}
	}
}

// Services that share have one lease; one whose port is taken has its own.
func TestSharersHaveOneLease(t *testing.T) {
	d := leasingDirectory(map[string]string{"cidr-global": "0.0.0.0/32", "allow-share-global": "true"})
	leased := func(name string, age int, port int32) {
		putKubeVIP(d, annotated(serviceOf(name, age, "", port), native.AnnotationDHCP, "IPv4"))
	}
	leased("a", 3, 80)
	leased("b", 2, 443)
	leased("c", 1, 80)
	same(t, "tokens", tokensOf(d), "[IPv4 a IPv4 b  IPv4 c ]")
	var together netip.Addr
	for token, members := range d.members {
		if len(members) == 2 {
			together = token
		}
	}
	affected := d.setLease(together, addrs("192.0.2.7")[0])
	same(t, "affected", affected, addrs("192.0.2.7", "192.0.2.7"))
	same(t, "names", d.names(addrs("192.0.2.7")[0]), "[shop/a shop/b]")
	same(t, "ports", d.ports(addrs("192.0.2.7")[0]), []lb.Port{{Protocol: "TCP", Number: 80}, {Protocol: "TCP", Number: 443}})
	if token, ok := d.tokenFor(addrs("192.0.2.7")[0]); !ok || token != together {
		t.Errorf("token %s, want %s", token, together)
	}
	leased("d", 0, 22)
	same(t, "names with one more", d.names(addrs("192.0.2.7")[0]), "[shop/a shop/b shop/d]")
	d.setLease(together, netip.Addr{})
	same(t, "names without", d.names(addrs("192.0.2.7")[0]), "[]")
}

// All addresses of a Service go by one hash, whatever it leases meanwhile; both
// families are the same client.
func TestLeaseCandidate(t *testing.T) {
	d := leasingDirectory(map[string]string{"cidr-global": "0.0.0.0/32,::/128", "interface-shop": "eth7"})
	s := serviceOf("web", 1, "", 80)
	s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	annotated(s, native.AnnotationDHCP, "IPv4,IPv6", kubevip.AnnotationHostname, "web", kubevip.AnnotationHardwareAddress, "02:00:00:00:00:07", kubevip.AnnotationRequestedIP, "192.0.2.70")
	putKubeVIP(d, s)
	same(t, "tokens", tokensOf(d), "[IPv4 web  IPv6 web ]")
	o := d.services[client.ObjectKeyFromObject(s)]
	for _, f := range lb.Families {
		c := d.leaseCandidate(o.tokens[f])
		if *c.Family != f || c.HashKey != o.tokens[lb.IPv4] || !c.AnyServing || c.NeedsLocal || !isToken(c.Addr) {
			t.Errorf("%s: %+v", f, c)
		}
		same(t, "interfaces", c.InterfacesOn(nil), "[eth7]")
		id := d.identity(o.tokens[f])
		if id.Hostname != "web" || id.MAC.String() != "02:00:00:00:00:07" || id.Requested.IsValid() != (f == lb.IPv4) {
			t.Errorf("%s: %+v", f, id)
		}
	}
	// Whatever serves, somebody leases; where it is if it is on a node.
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	putKubeVIP(d, s)
	for nodes, want := range map[string]bool{"": false, "b": true} {
		slice := sliceOf("web", "web-1", "b")
		slice.Endpoints[0].NodeName = &nodes
		d.setSlice(client.ObjectKeyFromObject(slice), slice)
		if c := d.leaseCandidate(o.tokens[lb.IPv4]); c.NeedsLocal != want || !c.AnyServing {
			t.Errorf("served on %q: %+v", nodes, c)
		}
		d.setSlice(client.ObjectKeyFromObject(slice), nil)
	}
	// What cannot be used goes into no packet, and the Service is who it was without.
	putKubeVIP(d, annotated(s, kubevip.AnnotationHostname, strings.Repeat("x", 300), kubevip.AnnotationHardwareAddress, "01:00:5e:00:00:12", kubevip.AnnotationRequestedIP, "0.0.0.0"))
	if id := d.identity(o.tokens[lb.IPv4]); !reflect.DeepEqual(id, dhcp.IdentityOf(o.self())) {
		t.Errorf("told to servers: %+v", id)
	}
	if d.identity(o.tokens[lb.IPv4]).ID != d.identity(o.tokens[lb.IPv6]).ID {
		t.Error("two clients")
	}
	d.setLease(o.tokens[lb.IPv4], addrs("192.0.2.7")[0])
	if c := d.candidate(addrs("192.0.2.7")[0]); c.HashKey != o.tokens[lb.IPv4] || c.AnyServing {
		t.Errorf("%+v", c)
	}
}

// What was told last is had next; what was lost is not.
func TestLastLease(t *testing.T) {
	d := leasingDirectory(nil)
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	lease := func(addr string, age time.Duration) v1alpha1.Agent {
		return v1alpha1.Agent{Status: v1alpha1.AgentStatus{Leases: []v1alpha1.Lease{{Service: "shop/web", Family: "IPv4", Address: addr, Since: metav1.NewMicroTime(now.Add(-age))}}}}
	}
	s := annotated(serviceOf("web", 1, "", 80, "192.0.2.7"), kubevip.AnnotationAddresses, "0.0.0.0")
	putKubeVIP(d, s)
	token := d.services[client.ObjectKeyFromObject(s)].tokens[lb.IPv4]
	same(t, "nothing told", d.lastLease(token).Address, "192.0.2.7")
	d.told = v1alpha1.LatestLeases([]v1alpha1.Agent{lease("192.0.2.8", time.Hour), lease("192.0.2.7", 2*time.Hour)})
	same(t, "told", d.lastLease(token).Address, "192.0.2.8")
	d.told = v1alpha1.LatestLeases([]v1alpha1.Agent{lease("192.0.2.8", time.Hour), lease("", time.Minute)})
	same(t, "lost", d.lastLease(token).Address, "")
}

func TestLeasePlace(t *testing.T) {
	links := []link.Link{
		{Name: "eth2", Index: 4, Up: true, MAC: make(net.HardwareAddr, 6), Global: [2]bool{true, false}, Prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}},
		{Name: "eth1", Index: 3, Up: true, MAC: make(net.HardwareAddr, 6), Global: [2]bool{true, true}, Prefixes: []netip.Prefix{netip.MustParsePrefix("198.51.100.2/24")}},
		{Name: "eth0", Index: 2, Up: false, MAC: make(net.HardwareAddr, 6), Global: [2]bool{true, true}},
		{Name: "bare", Index: 5, Up: true, MAC: make(net.HardwareAddr, 6)},
		{Name: "cni0", Index: 6, Up: true, MAC: make(net.HardwareAddr, 6), Global: [2]bool{true, true}},
	}
	for _, c := range []struct {
		family lb.Family
		last   netip.Addr
		named  []string
		want   string
	}{
		{lb.IPv4, netip.Addr{}, nil, "eth1"},
		{lb.IPv4, addrs("192.0.2.9")[0], nil, "eth2"},
		{lb.IPv4, addrs("203.0.113.9")[0], nil, "eth1"},
		{lb.IPv6, netip.Addr{}, nil, "eth1"},
		{lb.IPv4, netip.Addr{}, []string{"bare"}, "bare"},
		{lb.IPv6, netip.Addr{}, []string{"bare"}, ""},
		{lb.IPv4, netip.Addr{}, []string{"cni0"}, "cni0"},
		{lb.IPv4, netip.Addr{}, []string{"eth0"}, ""},
	} {
		if got, _ := leasePlace(c.family, c.last, c.named, links, regexp.MustCompile(`^cni`)); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
