package nodes

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudsigma"
	sim "fairlead.io/sandbox/cloudsigma"
)

var servedAddr = netip.MustParseAddr("192.0.2.7")

// sigma is a simulated CloudSigma, and the questions about its servers.
func sigma(t *testing.T) (*sim.Simulator, *cloudsigma.Client, instances) {
	t.Helper()
	s := sim.New(sim.Options{})
	t.Cleanup(s.Close)
	s.Subscribe(servedAddr)
	token, err := cloud.NewToken(s.Token())
	if err != nil {
		t.Fatal(err)
	}
	c, err := cloudsigma.New(cloudsigma.Options{Region: "ZRH", Token: token, HTTP: s.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	return s, c, instances{NewCloudSigma(c, "ZRH")}
}

func addServer(t *testing.T, s *sim.Simulator, name string, cards ...sim.NewNIC) string {
	t.Helper()
	server, err := s.AddServer(sim.NewServer{Name: name, NICs: cards})
	if err != nil {
		t.Fatal(err)
	}
	return server.UUID
}

func show(m *cloudprovider.InstanceMetadata) string {
	var out []string
	for _, a := range m.NodeAddresses {
		out = append(out, string(a.Type)+" "+a.Address)
	}
	return strings.Join(out, ", ")
}

func TestCloudSigma(t *testing.T) {
	s, c, of := sigma(t)
	dhcp := addServer(t, s, "dhcp", sim.NewNIC{Mode: "dhcp", Addr4: "203.0.113.5", Addr6: "2001:db8:1::5"})
	addServer(t, s, "private", sim.NewNIC{VLAN: "v"}, sim.NewNIC{Mode: "dhcp", Addr4: "10.1.1.5"})
	addServer(t, s, "static", sim.NewNIC{Mode: "static", Addr4: "198.51.100.4"})
	addServer(t, s, "manual", sim.NewNIC{Mode: "manual", Addr4: "*"})
	vlan := addServer(t, s, "vlan", sim.NewNIC{VLAN: "v"})
	attach := func(id string) {
		t.Helper()
		if _, err := c.Tags.Change(t.Context(), cloudsigma.TagChange{Name: "service:default-web", Add: []string{servedAddr.String()}}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Servers.Change(t.Context(), id, func(s *cloudsigma.Server) error { s.Attach(servedAddr); return nil }); err != nil {
			t.Fatal(err)
		}
		if err := s.Reboot(id); err != nil { // the guest has the card now
			t.Fatal(err)
		}
		c.Servers.Forget()
	}
	detach := func(id string) {
		t.Helper()
		if _, err := c.Servers.Change(t.Context(), id, func(s *cloudsigma.Server) error { s.Detach(servedAddr); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	check := func(name, want string, change ...func(*corev1.Node)) {
		t.Helper()
		node := newNode(name, "")
		for _, f := range change {
			f(node)
		}
		m, err := of.InstanceMetadata(t.Context(), node)
		if err != nil {
			t.Fatal(err)
		}
		if got := show(m); got != want || m.Region != "zrh" || m.Zone != "zrh" || m.InstanceType != "cpu-2000-mem-2048" || !strings.HasPrefix(m.ProviderID, "cloudsigma://") {
			t.Errorf("%s: %s, want %s; %+v", name, got, want, m)
		}
	}
	has := func(addresses ...corev1.NodeAddress) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Addresses = addresses }
	}
	kubelet := func(addresses string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: addresses}
		}
	}
	const known = "Hostname dhcp, ExternalIP 203.0.113.5, ExternalIP 2001:db8:1::5"
	check("dhcp", known)
	check("dhcp", known, kubelet("10.9.9.9")) // which is not true, and told
	attach(dhcp)
	check("dhcp", known)
	detach(dhcp)
	check("dhcp", known)

	check("private", "Hostname private, InternalIP 10.1.1.5")
	check("private", "Hostname private, InternalIP 10.1.1.5, InternalIP 10.9.9.9", kubelet("10.9.9.9"))
	check("static", "Hostname static, ExternalIP 198.51.100.4")

	check("manual", "Hostname manual")
	check("manual", "Hostname manual, ExternalIP 198.51.100.9, InternalIP 10.0.0.1", kubelet("198.51.100.9, 10.0.0.1"))
	own := has(corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: servedAddr.String()})
	check("manual", "Hostname manual, InternalIP 10.0.0.1", own) // the original has shown the Service's
	attach(vlan)
	check("vlan", "Hostname vlan, InternalIP 10.0.0.1", own)
}

// The address of a Service is not shown while its tag comes or goes in another
// process.
func TestServedByOthers(t *testing.T) {
	s, c, of := sigma(t)
	id := addServer(t, s, "dhcp", sim.NewNIC{Mode: "dhcp", Addr4: "203.0.113.5"}, sim.NewNIC{Mode: "static", Addr4: "192.0.2.8"})
	const want = "Hostname dhcp, ExternalIP 203.0.113.5"
	if _, err := c.Tags.Now(t.Context()); err != nil { // there was no tag at that time
		t.Fatal(err)
	}
	tag := s.AddTag("service:x-y", "192.0.2.8")
	if m, err := of.InstanceMetadata(t.Context(), newNode("dhcp", "")); err != nil || show(m) != want {
		t.Errorf("%+v, %v", m, err)
	}
	// Servers are read, and then it is let go: detached, and its tag removed.
	c.Servers.Forget()
	s.Before(http.MethodGet, sim.Tags, "", func() { _ = s.Delete(sim.Tags, tag.UUID) })
	if m, err := of.InstanceMetadata(t.Context(), newNode("dhcp", "cloudsigma://"+id)); err != nil || show(m) != want {
		t.Errorf("%+v, %v", m, err)
	}
	// No tags, no addresses: a guess might be a Service's.
	c.Servers.Forget()
	s.Fail(sim.Fault{Kind: sim.Tags, Status: 403})
	if m, err := of.InstanceMetadata(t.Context(), newNode("dhcp", "")); err == nil {
		t.Errorf("%+v", m)
	}
}

func TestCloudSigmaLifecycle(t *testing.T) {
	s, c, of := sigma(t)
	id := addServer(t, s, "node1", sim.NewNIC{Mode: "dhcp", Addr4: "*"})
	node := newNode("node1", "cloudsigma://"+id)
	for status, want := range map[string]bool{"running": false, "stopped": true, "paused": true, "stopping": false, "unavailable": false, "starting": false} {
		if err := s.SetStatus(id, status); err != nil {
			t.Fatal(err)
		}
		c.Servers.Forget()
		if got, err := of.InstanceShutdown(t.Context(), node); err != nil || got != want {
			t.Errorf("%s: %v, %v", status, got, err)
		}
	}
	exists := func(id string) string {
		c.Servers.Forget()
		is, err := of.InstanceExists(t.Context(), newNode("node1", "cloudsigma://"+id))
		return fmt.Sprint(is, " ", err != nil)
	}
	other := s.AddUser("other@example.com", "x")
	foreign, err := s.AddServer(sim.NewServer{Name: "foreign", Owner: other.UUID})
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[string]string{id: "true false", foreign.UUID: "false true", "6a4ffbab-1ba6-4a8f-8f5f-2d4e4d6b2f0e": "false false", "node1": "false true"} {
		if got := exists(of); got != want {
			t.Errorf("%s: %s, want %s", of, got, want)
		}
	}
	if err := s.Delete(sim.Servers, id); err != nil {
		t.Fatal(err)
	}
	if got := exists(id); got != "false false" {
		t.Errorf("deleted: %s", got)
	}
	if _, err := of.InstanceMetadata(t.Context(), newNode("node1", "")); !errors.Is(err, cloudprovider.InstanceNotFound) {
		t.Error(err)
	}
}
