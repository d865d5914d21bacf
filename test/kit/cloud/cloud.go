// Package cloud has a simulated cloudscale.ch for tests on an API server: its servers
// are the nodes, and controllers in the test's own process use it.
package cloud

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	backend "fairlead.io/internal/backend/cloudscale"
	"fairlead.io/internal/cloud"
	client "fairlead.io/internal/cloudscale"
	format "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/config"
	"fairlead.io/internal/controller"
	"fairlead.io/sandbox/cloudscale"
)

// Token opens the cloud.
const Token = "sandboxtokensandboxtokensandbox1"

// Cloud is a simulated cloud with one private network.
type Cloud struct {
	*cloudscale.Simulator
	URL    string // of its API
	Subnet string // UUID of the private one, 10.1.0.0/16
}

// New starts a cloud for one test. Nothing takes time in it unless options say so.
func New(t testing.TB, change ...func(*cloudscale.Options)) *Cloud {
	t.Helper()
	o := cloudscale.Options{Token: Token, Creating: -1, Changing: -1}
	for _, f := range change {
		f(&o)
	}
	c := &Cloud{Simulator: cloudscale.New(o)}
	t.Cleanup(c.Close)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL
	network := c.AddNetwork(cloudscale.Network{Name: "lan", Zone: "rma1"})
	c.Subnet = c.AddSubnet(cloudscale.Subnet{Network: network.UUID, CIDR: netip.MustParsePrefix("10.1.0.0/16")}).UUID
	return c
}

// AddServer makes a server with a public interface and a private address.
func (c *Cloud) AddServer(name, private string) cloudscale.Server {
	return c.Simulator.AddNode(name, "rma1", c.Subnet, netip.MustParseAddr(private))
}

// AddNode makes a server, whose address 10.1.0.N is by the number at the end of its
// name, and the Node that it is.
func (c *Cloud) AddNode(t testing.TB, kube kubernetes.Interface, name string, change ...func(*corev1.Node)) {
	t.Helper()
	server := c.AddServer(name, "10.1.0."+name[strings.LastIndex(name, "-")+1:])
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "cloudscale://" + server.UUID}}
	for _, f := range change {
		f(node)
	}
	if _, err := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Client returns a client of the cloud, and the list of servers that its users share.
func (c *Cloud) Client(t testing.TB, token string) (*client.Client, *cloud.ListCache[client.Server]) {
	t.Helper()
	secret, err := cloud.NewToken(token)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true} // what ends leaves no connection behind
	api, err := client.New(client.Options{Token: secret, URL: c.URL, HTTP: transport})
	if err != nil {
		t.Fatal(err)
	}
	return api, api.ServerCache()
}

// Serve has a controller serve Services in the cloud. It looks for what others have
// changed once an hour, unless it is told otherwise.
func (c *Cloud) Serve(t testing.TB, token string, change ...func(*controller.Backend)) func(*controller.Options) {
	t.Helper()
	api, servers := c.Client(t, token)
	b := controller.Backend{Backend: backend.New(backend.Options{Client: api, Servers: servers, Cluster: "test", Unclassed: true}), Plans: true, Workers: 100, Resync: time.Hour}
	for _, f := range change {
		f(&b)
	}
	return func(o *controller.Options) {
		if o.Backends == nil {
			o.Backends = map[config.Backend]controller.Backend{}
		}
		o.Backends[config.Cloudscale] = b
		o.Dialects = append(o.Dialects, format.Dialect{})
	}
}
