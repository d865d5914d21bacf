package cloudscale

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	compat "fairlead.io/internal/compat/cloudscale"
	"fairlead.io/internal/lb"
	simulated "fairlead.io/sandbox/cloudscale"
)

// planned serves a Service on a simulated cloud, changes it, and returns what
// would be done.
func planned(t *testing.T, before, after func(*account)) (out lb.Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, simulated.Options{Creating: -1, Changing: -1}, 3)
		if before != nil {
			before(c)
		}
		c.settle()
		<-time.After(5 * time.Minute)
		after(c)
		w := c.want()
		w.DryRun = true
		var err error
		if out, err = c.backend.Sync(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	})
	return out
}

// What the reference says about every annotation is what a plan says.
func TestImpactOfEveryAnnotation(t *testing.T) {
	type change struct {
		before func(*account)
		value  string
		set    func(*account) string // instead of value
	}
	annotate := func(key, value string) func(*account) {
		return func(c *account) { c.service.Annotations[key] = value }
	}
	changes := map[string]change{
		compat.AnnotationConfigVersion: {before: func(c *account) {
			c.service.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			c.service.Annotations[compat.AnnotationConfigVersion] = "1"
		}, value: "2"},
		compat.AnnotationName:         {value: "web"},
		compat.AnnotationFlavor:       {value: "lb-large"},
		compat.AnnotationZone:         {value: "rma1"},
		compat.AnnotationVIPAddresses: {value: `[{"subnet": "` + subnet1 + `"}]`},
		compat.AnnotationFloatingIPs: {set: func(c *account) string {
			return fmt.Sprintf("[%q]", c.sim.AddFloatingIP(simulated.FloatingIP{Prefix: netip.MustParsePrefix("192.0.2.9/32"), Region: "lpg"}).Prefix)
		}},
		compat.AnnotationPoolAlgorithm:        {value: "least_connections"},
		compat.AnnotationPoolProtocol:         {value: "proxy"},
		compat.AnnotationForceHostname:        {value: "example.org"},
		compat.AnnotationIPMode:               {value: "VIP"},
		compat.AnnotationMonitorDelay:         {value: "10"},
		compat.AnnotationMonitorTimeout:       {value: "2"},
		compat.AnnotationMonitorUpThreshold:   {value: "4"},
		compat.AnnotationMonitorDownThreshold: {value: "4"},
		compat.AnnotationMonitorType:          {value: "http"},
		compat.AnnotationMonitorHTTP:          {before: annotate(compat.AnnotationMonitorType, "http"), value: `{"version": "1.0"}`},
		compat.AnnotationListenerProtocol:     {value: "tcp"},
		compat.AnnotationAllowedCIDRs:         {value: `["192.0.2.0/24"]`},
		compat.AnnotationTimeoutClientData:    {value: "1"},
		compat.AnnotationTimeoutMemberConnect: {value: "1"},
		compat.AnnotationTimeoutMemberData:    {value: "1"},
		compat.AnnotationAllowedSubnets: {before: func(c *account) { c.secondSubnet() }, set: func(c *account) string {
			return fmt.Sprintf("[%q]", c.subnets()[1])
		}},
		compat.AnnotationNodeSelector: {before: func(c *account) { c.nodes[0].Labels["tier"] = "edge" }, value: "tier=edge"},
	}
	for _, a := range compat.Annotations {
		if a.Key == compat.AnnotationUUID {
			continue // see TestFind
		}
		t.Run(strings.TrimPrefix(a.Key, "k8s.cloudscale.ch/"), func(t *testing.T) {
			ch, ok := changes[a.Key]
			if !ok {
				t.Fatal("nothing is tried")
			}
			out := planned(t, ch.before, func(c *account) {
				value := ch.value
				if ch.set != nil {
					value = ch.set(c)
				}
				c.service.Annotations[a.Key] = value
			})
			if got := out.Plan.Impact(); got != a.Impact {
				t.Errorf("%s, the reference says %s: %s", got, a.Impact, out.Plan)
			}
			if a.Impact != lb.ImpactNone && out.Plan.Empty() {
				t.Errorf("%s", out.Plan)
			}
		})
	}
}

func TestImpactOfEveryChange(t *testing.T) {
	changes := map[string]func(*account){
		compat.PortAdded.What:   func(c *account) { c.service.Spec.Ports = append(c.service.Spec.Ports, port("admin", 9000, 30900)) },
		compat.PortRemoved.What: func(c *account) { c.service.Spec.Ports = c.service.Spec.Ports[:1] },
		compat.PortNumber.What:  func(c *account) { c.service.Spec.Ports[0].Port = 8080 },
		compat.PortRenamed.What: func(c *account) { c.service.Spec.Ports[0].Name = "web" },
		compat.PortReplaced.What: func(c *account) {
			c.service.Spec.Ports[0].Name, c.service.Spec.Ports[0].Port = "web", 8080
		},
		compat.NodePortChanged.What: func(c *account) { c.service.Spec.Ports[0].NodePort = 30081 },
		compat.TrafficPolicy.What:   func(c *account) { local(c.service) },
		compat.NodeAdded.What:       func(c *account) { c.addNode() },
		compat.NodeRemoved.What:     func(c *account) { c.nodes = c.nodes[1:] },
		compat.NoNodes.What:         func(c *account) { c.nodes = nil },
	}
	for _, change := range compat.SpecChanges {
		t.Run(change.What, func(t *testing.T) {
			do, ok := changes[change.What]
			if !ok {
				t.Fatal("nothing is tried")
			}
			out := planned(t, nil, do)
			if got := out.Plan.Impact(); got != change.Impact || out.Plan.Empty() {
				t.Errorf("%s, the reference says %s: %s", got, change.Impact, out.Plan)
			}
		})
	}
	out := planned(t, func(c *account) { c.nodes = c.nodes[:1] }, func(c *account) { local(c.service) })
	if got := out.Plan.Impact(); got != lb.ImpactSeconds {
		t.Errorf("the traffic policy with one node: %s: %s", got, out.Plan)
	}
}

// A dry run does nothing, and says all.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, simulated.Options{}, 1, ports(port("", 80, 30080)))
		w := c.want()
		w.DryRun = true
		out, err := c.backend.Sync(t.Context(), w)
		if err != nil || c.sim.Writes() != 0 || out.Done != 0 || out.Ingress != nil {
			t.Errorf("%v, %d writes, %+v", err, c.sim.Writes(), out)
		}
		want := "Dry run: create load balancer k8s-service-deadbeef; create pool tcp; create member 10.0.0.11:30080 of tcp; create health monitor of tcp; create listener tcp/80 of tcp; impact: none. Nothing was changed."
		if out.Reason.Code != lb.ChangesPlanned || out.Reason.Text != want {
			t.Errorf("%s, want %s", out.Reason, want)
		}
	})
}

// secondSubnet gives every server an address in another subnet.
func (c *account) secondSubnet() {
	network := c.sim.AddNetwork(simulated.Network{Name: "other", Zone: "lpg1"})
	subnet := c.sim.AddSubnet(simulated.Subnet{Network: network.UUID, CIDR: netip.MustParsePrefix("10.0.1.0/24")})
	c.nodes = nil
	for i := range 2 {
		address := func(third byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, third, byte(50 + i)}) }
		s := c.sim.AddServer(simulated.Server{Name: fmt.Sprintf("double-%d", i), Zone: "lpg1", Interfaces: []simulated.Interface{
			{Network: c.sim.Servers()[0].Interfaces[1].Network, Addresses: []simulated.Address{{Address: address(0), Subnet: c.subnet}}},
			{Network: network.UUID, Addresses: []simulated.Address{{Address: address(1), Subnet: subnet.UUID}}},
		}})
		n := nodeNamed(i)
		n.Name, n.Spec.ProviderID = s.Name, "cloudscale://"+s.UUID
		c.nodes = append(c.nodes, n)
	}
}

// subnets of the last server.
func (c *account) subnets() []string {
	all := c.sim.Servers()
	var out []string
	for _, i := range all[len(all)-1].Interfaces {
		out = append(out, i.Addresses[0].Subnet)
	}
	return out
}
