package cloudscale_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/sandbox/cloudscale"
)

func TestServer(t *testing.T) {
	c := newCloud(t, quick)
	got := c.must("GET", "servers/"+c.node.UUID, nil)
	nics := got["interfaces"].([]any)
	private := nics[1].(object)
	delete(private, "mac_address")
	subnet := object{"href": "http://api.example/v1/subnets/" + c.subnet.UUID, "uuid": c.subnet.UUID, "cidr": "10.0.0.0/24"}
	if diff := cmp.Diff(object{
		"type": "private", "network": object{"href": "http://api.example/v1/networks/" + c.network.UUID, "uuid": c.network.UUID, "name": "lan"},
		"addresses": []any{object{"version": float64(4), "address": "10.0.0.11", "prefix_length": float64(24), "gateway": "10.0.0.1", "reverse_ptr": "", "subnet": subnet}},
	}, private); diff != "" {
		t.Error(diff)
	}
	public := nics[0].(object)
	if public["type"] != "public" || len(public["addresses"].([]any)) != 2 {
		t.Errorf("public interface: %v", public)
	}
	if diff := cmp.Diff(object{"slug": "flex-4-2", "name": "Flex-4-2", "vcpu_count": float64(2), "memory_gb": float64(4)}, got["flavor"].(object)); diff != "" {
		t.Error(diff)
	}
	if got["status"] != "running" || got["name"] != "node1" || got["zone"].(object)["slug"] != "lpg1" {
		t.Errorf("server: %v", got)
	}
	for _, list := range []string{"volumes", "server_groups", "ssh_fingerprints", "ssh_host_keys"} {
		if _, is := got[list].([]any); !is {
			t.Errorf("%s: %v", list, got[list])
		}
	}
	c.must("PATCH", "servers/"+c.node.UUID, object{"name": "renamed"})
	c.must("DELETE", "servers/"+c.node.UUID, nil)
	c.refused("GET", "servers/"+c.node.UUID, nil, 404, "detail", "Not found")
}

func TestServerActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(t, cloudscale.Options{})
		path := "servers/" + c.node.UUID
		status := func(want string) {
			t.Helper()
			if got := c.must("GET", path, nil)["status"]; got != want || c.Servers()[0].Status != want {
				t.Errorf("status %v, want %s", got, want)
			}
		}
		for _, step := range [][2]string{{"stop", "stopped"}, {"start", "running"}, {"reboot", "running"}} {
			c.must("POST", path+"/"+step[0], nil)
			status("changing")
			c.refused("POST", path+"/stop", nil, 400, "detail", "being changed")
			<-time.After(time.Second)
			status(step[1])
		}
		c.must("POST", path+"/start", nil) // it runs
		status("running")
	})
}

func TestNewServer(t *testing.T) {
	c := newCloud(t, quick)
	good := func() object { return object{"name": "n", "flavor": "flex-4-2", "image": "debian-12"} }
	server := c.must("POST", "servers", good())
	if n := len(server["interfaces"].([]any)); n != 1 {
		t.Errorf("interfaces: %v", server["interfaces"])
	}
	layer2 := good()
	layer2["interfaces"] = []object{{"network": "public"}, {"network": c.network.UUID, "addresses": []object{}}, {"addresses": []object{{"subnet": c.subnet.UUID, "address": "10.0.0.55"}}}}
	nics := c.must("POST", "servers", layer2)["interfaces"].([]any)
	if len(nics) != 3 || len(nics[1].(object)["addresses"].([]any)) != 0 || nics[2].(object)["addresses"].([]any)[0].(object)["address"] != "10.0.0.55" {
		t.Errorf("interfaces: %v", nics)
	}
	for _, test := range []struct {
		field string
		value any
		words string
	}{
		{"flavor", "flex-1", "not a valid choice"}, {"zone", "x", "Choose one of"}, {"interfaces", []object{{}}, "required"},
		{"interfaces", []object{{"network": unknown}}, "does not exist"}, {"interfaces", []object{{"addresses": []object{{"subnet": unknown}}}}, "does not exist"},
	} {
		bad := good()
		bad[test.field] = test.value
		c.refused("POST", "servers", bad, 400, test.field, test.words)
	}
}

func TestNetworksAndPlaces(t *testing.T) {
	c := newCloud(t, quick)
	n := c.must("POST", "networks", object{"name": "n"})
	if len(n["subnets"].([]any)) != 1 {
		t.Errorf("network: %v", n)
	}
	bare := c.must("POST", "networks", object{"name": "n", "zone": "rma1", "auto_create_ipv4_subnet": false})
	subnet := c.must("POST", "subnets", object{"network": id(bare), "cidr": "fd00::/64"})
	if subnet["gateway_address"] != "fd00::1" || len(subnet["dns_servers"].([]any)) != 2 {
		t.Errorf("subnet: %v", subnet)
	}
	c.refused("POST", "subnets", object{"network": id(bare), "cidr": "fd00::1/64"}, 400, "cidr", "CIDR notation")
	c.refused("POST", "subnets", object{"network": unknown, "cidr": "10.0.0.0/8"}, 400, "network", "does not exist")
	c.refused("PATCH", "subnets/"+id(subnet), object{"dns_servers": []string{"0.0.0.0"}}, 400, "dns_servers", "valid IPv4")
	c.must("PATCH", "subnets/"+id(subnet), object{"dns_servers": []string{}})
	c.must("PATCH", "networks/"+id(bare), object{"name": "renamed"})
	if got := c.must("GET", "subnets/"+id(subnet), nil); got["network"].(object)["name"] != "renamed" || len(got["dns_servers"].([]any)) != 0 {
		t.Errorf("subnet: %v", got)
	}
	c.refused("DELETE", "networks/"+c.network.UUID, nil, 400, "detail", "in use by server")
	c.refused("DELETE", "subnets/"+c.subnet.UUID, nil, 400, "detail", "in use by server")
	c.must("DELETE", "subnets/"+id(subnet), nil)
	c.must("DELETE", "networks/"+id(bare), nil)
	if got := len(c.list("networks")); got != 2 {
		t.Errorf("%d networks", got)
	}
	if diff := cmp.Diff([]object{
		{"slug": "lpg", "zones": []any{object{"slug": "lpg1"}}}, {"slug": "rma", "zones": []any{object{"slug": "rma1"}}},
	}, c.list("regions")); diff != "" {
		t.Error(diff)
	}
	if got := c.list("flavors"); len(got) == 0 || got[0]["slug"] == "" {
		t.Errorf("flavors: %v", got)
	}
}

func TestAddressesRunOut(t *testing.T) {
	o := quick
	o.Public = map[string][]netip.Prefix{"lpg1": {netip.MustParsePrefix("203.0.113.0/29")}}
	c := newCloud(t, o) // the node has one of five
	for range 4 {
		c.newLB()
	}
	c.refused("POST", "load-balancers", object{"name": "x", "flavor": "lb-standard"}, 400, "detail", "no free addresses")
	c.must("DELETE", "load-balancers/"+c.LoadBalancers()[1].UUID, nil)
	c.newLB()
}
