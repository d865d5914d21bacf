package cloudscale_test

import (
	"net/http"
	"net/netip"
	"testing"

	"fairlead.io/sandbox/cloudscale"
)

func TestAdministration(t *testing.T) {
	c := newCloud(t, quick)
	lb := c.newLB()
	pool := c.newPool(lb, "tcp")
	m := c.newMember(pool, "10.0.0.11")
	c.newMonitor(pool, "tcp")
	if status, _, _ := c.request("GET", "/sandbox/log", "stranger", nil); status != http.StatusUnauthorized {
		t.Errorf("a stranger: %d", status)
	}
	if got := c.list("/sandbox/log"); len(got) != 4 || got[0]["method"] != "POST" || got[0]["kind"] != "load-balancers" {
		t.Errorf("log: %v", got)
	}
	if got := c.list("/sandbox/counts"); len(got) != 4 || got[0]["n"] != float64(1) {
		t.Errorf("counts: %v", got)
	}
	c.must("DELETE", "/sandbox/log", nil)
	if got := c.list("/sandbox/log"); len(got) != 0 {
		t.Errorf("log: %v", got)
	}
	c.must("POST", "/sandbox/faults", object{"kind": "pools", "status": 429, "retry_after": "7s", "latency": "1ms"})
	if got := c.list("/sandbox/faults"); len(got) != 1 {
		t.Errorf("faults: %v", got)
	}
	status, header, _ := c.request("GET", "load-balancers/pools", c.Token(), nil)
	if status != http.StatusTooManyRequests || header.Get("Retry-After") != "7" {
		t.Errorf("fault: %d %v", status, header)
	}
	for _, bad := range []any{"{", object{"latency": "soon"}, object{"path": "[", "status": 503}, object{"status": 7}, object{"unknown": 1}} {
		c.refused("POST", "/sandbox/faults", bad, 400, "detail", "")
	}
	c.must("POST", "/sandbox/faults", object{"status": 503, "times": -1})
	c.must("DELETE", "/sandbox/faults", nil)

	c.must("POST", "/sandbox/reachable", object{"address": "10.0.0.11", "reachable": false})
	c.must("POST", "/sandbox/settle", nil)
	if got := c.Members("")[0].MonitorStatus; got != "down" {
		t.Errorf("member is %s", got)
	}
	server := c.must("POST", "/sandbox/objects/servers", object{"name": "node2", "zone": "rma1", "interfaces": []object{{}}})
	if got := c.must("GET", "servers/"+id(server), nil); got["name"] != "node2" {
		t.Errorf("server: %v", got)
	}
	c.must("PATCH", "/sandbox/objects/members/"+id(m), object{"protocol_port": 1, "tags": object{"x": "y"}})
	if got := c.Members("")[0]; got.ProtocolPort != 1 || got.Tags["x"] != "y" || got.Name != "10.0.0.11" {
		t.Errorf("after an edit: %+v", got)
	}
	c.refused("PATCH", "/sandbox/objects/members/"+id(m), object{"colour": "red"}, 400, "detail", "colour")
	c.refused("PATCH", "/sandbox/objects/members/"+id(m), object{"uuid": unknown}, 400, "detail", "cannot change")
	c.refused("DELETE", "/sandbox/objects/pools/"+unknown, nil, 400, "detail", "not found")
	c.refused("POST", "/sandbox/objects/pools", object{}, 400, "detail", "only servers")
	c.refused("GET", "/sandbox/nothing", nil, 404, "detail", "There is no")
	c.must("DELETE", "/sandbox/objects/load-balancers/"+id(lb), nil)
	if len(c.Members("")) != 0 {
		t.Error("members are left")
	}
}

// Edits need no load balancer to be free, and respect nothing.
func TestForeignEdits(t *testing.T) {
	c := newCloud(t, cloudscale.Options{})
	lb := c.newLB()
	c.Settle()
	pool := c.newPool(lb, "tcp") // it is changing now
	for _, edit := range []struct {
		kind       cloudscale.Kind
		id, fields string
	}{
		{cloudscale.Pools, id(pool), `{"algorithm": "source_ip", "name": "mine"}`},
		{cloudscale.LoadBalancers, id(lb), `{"name": "mine"}`},
		{cloudscale.Servers, c.node.UUID, `{"status": "stopped", "interfaces": []}`},
		{cloudscale.Subnets, c.subnet.UUID, `{"cidr": "10.0.1.0/24"}`},
	} {
		if err := c.Edit(edit.kind, edit.id, edit.fields); err != nil {
			t.Error(err)
		}
	}
	if got := c.Pools()[0]; got.Algorithm != "source_ip" || got.Name != "mine" || got.Protocol != "tcp" {
		t.Errorf("pool: %+v", got)
	}
	if got := c.Servers()[0]; got.Status != "stopped" || len(got.Interfaces) != 0 {
		t.Errorf("server: %+v", got)
	}
	for _, gone := range []cloudscale.Kind{cloudscale.Pools, cloudscale.LoadBalancers, cloudscale.Servers, cloudscale.Subnets, cloudscale.Networks} {
		ids := map[cloudscale.Kind]string{
			cloudscale.Pools: id(pool), cloudscale.LoadBalancers: id(lb), cloudscale.Servers: c.node.UUID,
			cloudscale.Subnets: c.subnet.UUID, cloudscale.Networks: c.network.UUID,
		}
		if err := c.Delete(gone, ids[gone]); err != nil {
			t.Error(err)
		}
	}
	if n := len(c.list("networks")) + len(c.list("servers")) + len(c.list("subnets")) + len(c.list("load-balancers")); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func TestSeed(t *testing.T) {
	s := cloudscale.New(quick)
	defer s.Close()
	const network, subnet = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	err := s.Seed([]byte(`{
		"floating-ips": [{"network": "5.102.150.1/32", "region": "lpg"}],
		"servers": [{"name": "a", "zone": "lpg1", "interfaces": [{"network": "` + network + `", "addresses": [{"address": "10.0.0.1", "subnet": "` + subnet + `"}]}]}],
		"subnets": [{"uuid": "` + subnet + `", "network": "` + network + `", "cidr": "10.0.0.0/24"}],
		"networks": [{"uuid": "` + network + `", "name": "lan"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Servers(); len(got) != 1 || got[0].Interfaces[0].Addresses[0].Address != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("servers: %+v", got)
	}
	for _, bad := range []string{"", "[]", `{"pools": []}`, `{"servers": [{"colour": "red"}]}`, `{"subnets": [{"cidr": "x"}]}`} {
		if err := s.Seed([]byte(bad)); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
