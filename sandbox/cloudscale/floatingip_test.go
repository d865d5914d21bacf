package cloudscale_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/sandbox/cloudscale"
)

func TestFloatingIP(t *testing.T) {
	c := newCloud(t, quick)
	lb := c.newLB()
	vip := func(i int) any { return lb["vip_addresses"].([]any)[i].(object)["address"] }
	f := c.must("POST", "floating-ips", object{"ip_version": 4, "load_balancer": id(lb), "tags": object{"a": "b"}})
	delete(f, "created_at")
	if diff := cmp.Diff(object{
		"href": "http://api.example/v1/floating-ips/192.0.2.1", "network": "192.0.2.1/32", "ip_version": float64(4), "next_hop": vip(0),
		"server": nil, "load_balancer": object{"href": lb["href"], "uuid": id(lb), "name": "web"}, "type": "regional",
		"region": object{"slug": "lpg"}, "reverse_ptr": nil, "tags": object{"a": "b"},
	}, f); diff != "" {
		t.Error(diff)
	}
	six := c.must("POST", "floating-ips", object{"ip_version": 6})
	if six["network"] != "2001:db8:f::1/128" || six["next_hop"] != nil || six["load_balancer"] != nil {
		t.Errorf("IPv6: %v", six)
	}
	c.must("PATCH", "floating-ips/2001:db8:f::1", object{"load_balancer": id(lb)})
	if got := c.must("GET", "floating-ips/2001:db8:f::1", nil); got["next_hop"] != vip(1) {
		t.Errorf("next hop of IPv6: %v", got)
	}
	prefix := c.must("POST", "floating-ips", object{"ip_version": 6, "prefix_length": 56})
	if prefix["network"] != "2001:db8:f:100::/56" {
		t.Errorf("prefix: %v", prefix)
	}
	// To a server, and it is no longer the load balancer's.
	c.must("PATCH", "floating-ips/192.0.2.1", object{"server": c.node.UUID})
	got := c.must("GET", "floating-ips/192.0.2.1", nil)
	if got["load_balancer"] != nil || got["server"].(object)["uuid"] != c.node.UUID || got["next_hop"] != c.node.Interfaces[0].Addresses[0].Address.String() {
		t.Errorf("to a server: %v", got)
	}
	for _, field := range []string{"server", "load_balancer"} {
		c.refused("PATCH", "floating-ips/192.0.2.1", object{field: nil}, 400, field, "may not be null")
	}
	c.must("PATCH", "floating-ips/192.0.2.1", object{"load_balancer": id(lb)})
	c.must("DELETE", "load-balancers/"+id(lb), nil)
	if got := c.must("GET", "floating-ips/192.0.2.1", nil); got["load_balancer"] != nil || got["next_hop"] != nil {
		t.Errorf("after its load balancer: %v", got)
	}
	c.must("DELETE", "floating-ips/192.0.2.1", nil)
	if got := len(c.list("floating-ips")); got != 2 {
		t.Errorf("after DELETE: %d", got)
	}
}

func TestFloatingIPThatCannotBe(t *testing.T) {
	c := newCloud(t, quick)
	public := c.newLB()
	private := c.must("POST", "load-balancers", object{"name": "p", "flavor": "lb-standard", "vip_addresses": []object{{"subnet": c.subnet.UUID}}})
	hidden := c.AddServer(cloudscale.Server{Name: "hidden", Interfaces: []cloudscale.Interface{{Network: c.network.UUID}}})
	c.AddFloatingIP(cloudscale.FloatingIP{Prefix: netip.MustParsePrefix("5.102.150.1/32"), Region: "rma"})
	c.AddFloatingIP(cloudscale.FloatingIP{Prefix: netip.MustParsePrefix("5.102.150.2/32")}) // global
	for _, test := range []struct {
		method, path string
		body         object
		field, words string
	}{
		{"POST", "floating-ips", object{}, "ip_version", "required"},
		{"POST", "floating-ips", object{"ip_version": 5}, "ip_version", "not a valid choice"},
		{"POST", "floating-ips", object{"ip_version": 4, "prefix_length": 24}, "prefix_length", "can be used"},
		{"POST", "floating-ips", object{"ip_version": 4, "region": "mars"}, "region", "Choose one of"},
		{"POST", "floating-ips", object{"ip_version": 4, "type": "local"}, "type", "Expect one of"},
		{"POST", "floating-ips", object{"ip_version": 4, "type": "global", "region": "lpg"}, "region", "no region"},
		{"POST", "floating-ips", object{"ip_version": 4, "load_balancer": unknown}, "load_balancer", "does not exist"},
		{"POST", "floating-ips", object{"ip_version": 4, "load_balancer": id(public), "server": c.node.UUID}, "load_balancer", "not both"},
		{"POST", "floating-ips", object{"ip_version": 4, "load_balancer": id(public), "region": "rma"}, "region", "its target in"},
		{"PATCH", "floating-ips/5.102.150.1", object{"load_balancer": id(public)}, "region", "its target in"},
		{"PATCH", "floating-ips/5.102.150.2", object{"load_balancer": id(private)}, "load_balancer", "private VIP"},
		{"PATCH", "floating-ips/5.102.150.2", object{"server": hidden.UUID}, "server", "no public interface"},
		{"PATCH", "floating-ips/5.102.150.2", object{"server": "x"}, "server", "Must be a valid UUID"},
		{"PATCH", "floating-ips/5.102.150.2", object{"region": "lpg"}, "region", "cannot be changed"},
	} {
		c.refused(test.method, test.path, test.body, 400, test.field, test.words)
	}
	c.must("PATCH", "floating-ips/5.102.150.2", object{"load_balancer": id(public)})
	if got := c.must("GET", "floating-ips/5.102.150.2", nil); got["type"] != "global" || got["region"] != nil {
		t.Errorf("global: %v", got)
	}
	if len(c.FloatingIPs()) != 2 {
		t.Errorf("made after all: %v", c.FloatingIPs())
	}
}
