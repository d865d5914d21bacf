package cloudscale

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fairlead.io/internal/cloud"
	"fairlead.io/internal/cloudscale"
	"fairlead.io/internal/kubeapi"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudscale"
)

// account is an account at a simulated cloud, with nodes, and a backend that serves one Service
// there. It is used inside of a bubble of synctest.
type account struct {
	t        *testing.T
	sim      *simulated.Simulator
	subnet   string
	backend  *Backend
	service  *corev1.Service
	nodes    []*corev1.Node
	others   []*corev1.Service
	gone     bool
	ingress  []string
	told     []lb.Reason
	restarts bool   // every look is that of a new process
	after    func() // runs after every call
}

func newCloud(t *testing.T, o simulated.Options, nodes int, edits ...edit) *account {
	t.Helper()
	c := &account{t: t, sim: simulated.New(o), service: service(edits...)}
	t.Cleanup(c.sim.Close)
	network := c.sim.AddNetwork(simulated.Network{Name: "lan", Zone: "lpg1"})
	c.subnet = c.sim.AddSubnet(simulated.Subnet{Network: network.UUID, CIDR: netip.MustParsePrefix("10.0.0.0/24")}).UUID
	for range nodes {
		c.addNode()
	}
	c.restart()
	return c
}

func (c *account) addNode() *corev1.Node {
	n := len(c.sim.Servers()) + 1
	server := c.sim.AddNode(fmt.Sprintf("worker-%d", n), "lpg1", c.subnet, netip.AddrFrom4([4]byte{10, 0, 0, byte(10 + n)}))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: server.Name, Labels: map[string]string{}}, Spec: corev1.NodeSpec{ProviderID: cloudscale.ProviderID(server.UUID)}}
	c.nodes = append(c.nodes, node)
	return node
}

// restart is a new process, which remembers nothing.
func (c *account) restart() {
	c.t.Helper()
	token, err := cloud.NewToken(c.sim.Token())
	if err != nil {
		c.t.Fatal(err)
	}
	client, err := cloudscale.New(cloudscale.Options{Token: token, HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
		response, err := c.sim.Client().Transport.RoundTrip(r)
		if c.after != nil {
			c.after()
		}
		return response, err
	})})
	if err != nil {
		c.t.Fatal(err)
	}
	c.backend = New(Options{Client: client, Servers: client.ServerCache(), Cluster: "prod"})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *account) want() lb.Want {
	w := wantOf(c.service, c.nodes, c.others)
	w.Gone = c.gone
	return w
}

// look is one look at the Service, and what the controller does with the outcome.
// A Service whose load balancer is gone stays as it was, to be looked at again.
func (c *account) look() (lb.Outcome, error) {
	if c.restarts {
		c.restart()
	}
	out, err := c.backend.Sync(c.t.Context(), c.want())
	if !out.Gone {
		maps.Copy(c.service.Annotations, out.Marks.Annotations)
		maps.DeleteFunc(c.service.Annotations, func(_, value string) bool { return value == "" })
	}
	if out.Ingress != nil {
		c.ingress = texts(out.Ingress)
		c.service.Status.LoadBalancer.Ingress = kubeapi.Ingress(out.Ingress)
	}
	c.told = append(c.told, out.Tell...)
	if out.Reason.Code == "" {
		c.t.Errorf("no reason: %+v", out)
	}
	return out, err
}

// settle looks until nothing is left to do, and returns how long that took.
func (c *account) settle() time.Duration {
	c.t.Helper()
	began := time.Now()
	for range 500 {
		out, err := c.look()
		switch {
		case out.Again > 0:
			<-time.After(out.Again)
		case err != nil:
			<-time.After(5 * time.Second)
		default:
			return time.Since(began)
		}
	}
	c.t.Fatal("it does not come to an end")
	return 0
}

// calls since the last reset.
func (c *account) calls() (all, writes int) {
	return len(c.sim.Log()), c.sim.Writes()
}

// state is what there is in the cloud, as text, without IDs.
func (c *account) state() []string {
	var out []string
	names := map[string]string{"": "nothing"}
	for _, o := range c.sim.LoadBalancers() {
		names[o.UUID] = o.Name
		out = append(out, "load balancer "+o.Name)
	}
	for _, p := range c.sim.Pools() {
		names[p.UUID] = names[p.LoadBalancer] + " " + p.Name
		out = append(out, fmt.Sprintf("pool %s %s %s", names[p.UUID], p.Algorithm, p.Protocol))
	}
	for _, m := range c.sim.Members("") {
		out = append(out, fmt.Sprintf("member %s %s:%d/%d %v", names[m.Pool], m.Address, m.ProtocolPort, m.MonitorPort, m.Enabled))
	}
	for _, l := range c.sim.Listeners() {
		out = append(out, fmt.Sprintf("listener %s %s %s/%d", names[l.Pool], l.Name, l.Protocol, l.ProtocolPort))
	}
	for _, m := range c.sim.HealthMonitors() {
		out = append(out, fmt.Sprintf("monitor %s %s", names[m.Pool], m.Type))
	}
	for _, f := range c.sim.FloatingIPs() {
		out = append(out, fmt.Sprintf("floating IP %s %s", f.Prefix, names[f.LoadBalancer]))
	}
	slices.Sort(out)
	return out
}

// requests are those of the log, shortened.
func (c *account) requests() string {
	var lines []string
	for _, r := range c.sim.Log() {
		lines = append(lines, fmt.Sprintf("%s %s %s %d %s", r.Time.Format("05.000"), r.Method, r.Path, r.Status, r.Body))
	}
	return strings.Join(lines, "\n")
}
