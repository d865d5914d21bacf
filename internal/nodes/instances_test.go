package nodes

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/lb"
)

const (
	uuid1 = "4b8f1e6e-6a86-4f0e-9e0e-1d2f3a4b5c61"
	uuid2 = "4b8f1e6e-6a86-4f0e-9e0e-1d2f3a4b5c62"
	uuid3 = "4b8f1e6e-6a86-4f0e-9e0e-1d2f3a4b5c63"
	uuid4 = "4b8f1e6e-6a86-4f0e-9e0e-1d2f3a4b5c64"
	gone  = "4b8f1e6e-6a86-4f0e-9e0e-1d2f3a4b5cff"
)

// project has some servers, and answers as the cloud would.
type project struct {
	servers     []cloudscale.Server
	fresh       []cloudscale.Server // not yet in the list, but can be asked for
	getErr      error
	listErr     error
	lists, gets int
}

func (p *project) Get(_ context.Context, uuid string) (*cloudscale.Server, error) {
	p.gets++
	if p.getErr != nil {
		return nil, p.getErr
	}
	for _, s := range slices.Concat(p.servers, p.fresh) {
		if s.UUID == uuid {
			return &s, nil
		}
	}
	return nil, &cloud.Error{Method: http.MethodGet, Status: http.StatusNotFound}
}

func (p *project) instances() instances {
	return instances{&Cloudscale{servers: p, cache: cloud.NewListCache(func(context.Context) ([]cloudscale.Server, error) {
		p.lists++
		return p.servers, p.listErr
	}, func(s *cloudscale.Server) string { return s.UUID })}}
}

func address(s string) cloudscale.InterfaceAddress {
	return cloudscale.InterfaceAddress{Address: netip.MustParseAddr(s)}
}

func someServers() []cloudscale.Server {
	slug := func(s string) cloudscale.Slug { return cloudscale.Slug{Slug: s} }
	return []cloudscale.Server{
		{UUID: uuid1, Name: "worker-1", Status: "running", Zone: slug("rma1"), Flavor: slug("flex-4-2"), Interfaces: []cloudscale.Interface{
			{Type: "public", Addresses: []cloudscale.InterfaceAddress{address("5.102.148.123"), address("2a06:c01:1000:1165::123")}},
			{Type: "private", Addresses: []cloudscale.InterfaceAddress{address("10.1.1.123")}},
		}},
		{UUID: uuid2, Name: "worker-2", Status: "stopped", Zone: slug("lpg1"), Flavor: slug("plus-32-16"), Interfaces: []cloudscale.Interface{
			{Type: "private", Addresses: []cloudscale.InterfaceAddress{address("10.1.1.124"), address("fd00::124")}},
			{Type: "public", Addresses: []cloudscale.InterfaceAddress{address("5.102.148.124")}},
		}},
		{UUID: uuid3, Name: "twin", Status: "changing", Zone: slug("rma1")},
		{UUID: uuid4, Name: "twin", Status: "running", Zone: slug("rma1")},
	}
}

func newNode(name, providerID string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

func TestInstances(t *testing.T) {
	const invalid = "names no server by a UUID"
	for _, test := range []struct {
		name, node, providerID     string
		exists, shutdown, metadata string // "true", "false", "ok" or a part of the error
		lists, gets                int    // of all three questions together
	}{
		{"by name", "worker-1", "", "no providerID", "no providerID", "ok", 1, 0},
		{"by providerID", "worker-1", "cloudscale://" + uuid1, "true", "false", "ok", 1, 0},
		{"the name does not matter then", "renamed", "cloudscale://" + uuid1, "true", "false", "ok", 1, 0},
		{"upper case and spaces", "worker-1", "  cloudscale://" + strings.ToUpper(uuid1) + " ", "true", "false", "ok", 1, 0},
		{"without dashes", "worker-1", "cloudscale://" + strings.ReplaceAll(uuid1, "-", ""), "true", "false", "ok", 1, 0},
		{"stopped", "worker-2", "cloudscale://" + uuid2, "true", "true", "ok", 1, 0},
		{"changing", "twin", "cloudscale://" + uuid3, "true", "false", "ok", 1, 0},
		{"gone", "worker-1", "cloudscale://" + gone, "false", "instance not found", "instance not found", 1, 3},
		{"unknown name", "nobody", "", "no providerID", "no providerID", "instance not found", 1, 0},
		{"two of a name", "twin", "", "no providerID", "no providerID", "found more than one", 1, 0},
		{"the name of another is no help", "worker-1", "cloudscale://" + gone, "false", "instance not found", "instance not found", 1, 3},
		{"no UUID", "worker-1", "cloudscale://invalid", invalid, invalid, invalid, 0, 0},
		{"no id", "worker-1", "cloudscale://", "names no server", "names no server", "names no server", 0, 0},
		{"another cloud", "worker-1", "aws:///eu/i-0abc", "does not begin with", "does not begin with", "does not begin with", 0, 0},
		{"no cloud", "worker-1", "://" + uuid1, "does not begin with", "does not begin with", "does not begin with", 0, 0},
		{"no scheme", "worker-1", uuid1, `has no "://"`, `has no "://"`, `has no "://"`, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &project{servers: someServers()}
			instances, node := p.instances(), newNode(test.node, test.providerID)
			exists, err := instances.InstanceExists(t.Context(), node)
			check(t, "exists", test.exists, exists, err)
			shutdown, err := instances.InstanceShutdown(t.Context(), node)
			check(t, "shutdown", test.shutdown, shutdown, err)
			m, err := instances.InstanceMetadata(t.Context(), node)
			if (m == nil) == (err == nil) {
				t.Errorf("metadata %v and error %v", m, err) // the framework's controllers would crash on neither
			}
			check(t, "metadata", strings.Replace(test.metadata, "ok", "true", 1), m != nil, err)
			if p.lists != test.lists || p.gets != test.gets {
				t.Errorf("%d lists and %d gets, want %d and %d", p.lists, p.gets, test.lists, test.gets)
			}
		})
	}
}

func check(t *testing.T, what, want string, got bool, err error) {
	t.Helper()
	switch want {
	case "true", "false":
		if err != nil || got != (want == "true") {
			t.Errorf("%s: %v, %v, want %s", what, got, err, want)
		}
	default:
		if err == nil || got || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want error %q", what, got, err, want)
		}
	}
}

func TestMetadata(t *testing.T) {
	instances := (&project{servers: someServers()}).instances()
	for name, want := range map[string]*cloudprovider.InstanceMetadata{
		"worker-1": {ProviderID: "cloudscale://" + uuid1, InstanceType: "flex-4-2", Zone: "rma1", Region: "rma", NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "worker-1"},
			{Type: corev1.NodeExternalIP, Address: "5.102.148.123"},
			{Type: corev1.NodeExternalIP, Address: "2a06:c01:1000:1165::123"},
			{Type: corev1.NodeInternalIP, Address: "10.1.1.123"},
		}},
		"worker-2": {ProviderID: "cloudscale://" + uuid2, InstanceType: "plus-32-16", Zone: "lpg1", Region: "lpg", NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "worker-2"},
			{Type: corev1.NodeInternalIP, Address: "10.1.1.124"},
			{Type: corev1.NodeInternalIP, Address: "fd00::124"},
			{Type: corev1.NodeExternalIP, Address: "5.102.148.124"},
		}},
	} {
		got, err := instances.InstanceMetadata(t.Context(), newNode(name, ""))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// The Node is deleted if its server does not exist: whatever else the cloud
// answers, it exists, as far as anybody knows.
func TestOnlyNotFoundIsGone(t *testing.T) {
	node := newNode("worker-9", "cloudscale://"+gone)
	for _, status := range []int{0, 400, 401, 403, 405, 429, 500, 502, 503} {
		p := &project{servers: someServers(), getErr: &cloud.Error{Status: status}}
		if exists, err := p.instances().InstanceExists(t.Context(), node); err == nil {
			t.Errorf("status %d: exists %v", status, exists)
		}
		p = &project{listErr: &cloud.Error{Status: status}}
		if exists, err := p.instances().InstanceExists(t.Context(), node); err == nil || p.gets != 0 {
			t.Errorf("list with status %d: exists %v", status, exists)
		}
	}
	// A list with status 404 is no server that is not found.
	p := &project{listErr: &cloud.Error{Status: 404}}
	if exists, err := p.instances().InstanceExists(t.Context(), node); err == nil {
		t.Errorf("no list: exists %v", exists)
	}
	// A proxy that has lost the way to the API answers 404, too: of the list.
	proxy := httptest.NewServer(http.NotFoundHandler())
	defer proxy.Close()
	token, _ := cloud.NewToken("token")
	c, err := cloudscale.New(cloudscale.Options{URL: proxy.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	if exists, err := (instances{NewCloudscale(c, c.ServerCache())}).InstanceExists(t.Context(), node); err == nil {
		t.Errorf("no API: exists %v", exists)
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A server that was made after the list was read is there.
func TestNewServer(t *testing.T) {
	p := &project{fresh: someServers()}
	if exists, err := p.instances().InstanceExists(t.Context(), newNode("worker-1", "cloudscale://"+uuid1)); !exists || err != nil {
		t.Errorf("exists %v, %v", exists, err)
	}
}

// Nodes of other clouds, and those that nobody knows, cost no call each time
// they are looked at, and do not hinder others.
func TestManyNodesOneList(t *testing.T) {
	p := &project{servers: someServers()}
	instances := p.instances()
	for range 500 {
		for _, n := range []*corev1.Node{newNode("aws", "aws:///i-0"), newNode("nobody", ""), newNode("twin", "")} {
			if _, err := instances.InstanceMetadata(t.Context(), n); err == nil {
				t.Errorf("node %s is known", n.Name)
			}
		}
		if _, err := instances.InstanceMetadata(t.Context(), newNode("worker-1", "")); err != nil {
			t.Error(err)
		}
	}
	if p.lists > 2 || p.gets != 0 {
		t.Errorf("%d lists and %d gets", p.lists, p.gets)
	}
}

// What a user can do something about says so.
func TestRefusals(t *testing.T) {
	p := &project{servers: someServers()}
	for _, test := range []struct {
		node *corev1.Node
		code lb.Code
		says string
	}{
		{newNode("nobody", ""), NodeNotFound, `cloudscale.ch has no server named "nobody"`},
		{newNode("x", "cloudscale://"+gone), NodeNotFound, "no server with the UUID " + gone},
		{newNode("twin", ""), NodeAmbiguous, "2 servers are named \"twin\", so the node stays uninitialized. Set the node's spec.providerID to the right one (cloudscale://" + uuid3 + ", cloudscale://" + uuid4},
		{newNode("x", "aws:///i-0"), NodeForeign, "aws:///i-0 does not have the form cloudscale://UUID"},
	} {
		_, err := p.instances().InstanceMetadata(t.Context(), test.node)
		r, ok := errors.AsType[*refusal](err)
		if !ok || r.reason.Code != test.code || !strings.Contains(r.reason.Text, test.says) {
			t.Errorf("node %s: %v, want %s", test.node.Name, err, test.code)
		}
	}
}

func FuzzServerOf(f *testing.F) {
	for _, s := range []string{"", "cloudscale://" + uuid1, " cloudscale://{" + uuid1 + "}", "cloudscale://urn:uuid:" + uuid1, "a://b", "://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := cloudscale.ServerID(s)
		if err != nil {
			return
		}
		if again, err := cloudscale.ServerID(cloudscale.ProviderID(id)); err != nil || again != id || len(id) != 36 {
			t.Errorf("%q is %q, and that is %q, %v", s, id, again, err)
		}
	})
}
