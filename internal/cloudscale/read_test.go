package cloudscale

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"fairlead.io/internal/cloud"
)

var compareNets = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func TestReads(t *testing.T) {
	answers := map[string]string{
		"/v1/load-balancers/lb": `{"href": "https://api.cloudscale.ch/v1/load-balancers/lb", "uuid": "lb", "name": "web-lb", "created_at": "2023-02-07T15:32:02.308041Z",
			"status": "changing", "zone": {"slug": "lpg1"}, "flavor": {"slug": "lb-standard", "name": "LB-Standard"}, "tags": {},
			"vip_addresses": [
				{"version": 4, "address": "192.0.2.110", "subnet": {"href": "…", "uuid": "s4", "cidr": "192.0.2.0/24"}},
				{"version": 6, "address": "2001:db8::110", "subnet": {"href": "…", "uuid": "s6", "cidr": "2001:db8::/64"}}]}`,
		"/v1/load-balancers/listeners":                           `[{"uuid": "l", "name": "tcp/80", "pool": null, "load_balancer": {"uuid": "lb", "name": "web-lb"}, "protocol": "tcp", "protocol_port": 80, "allowed_cidrs": ["7.0.0.0/8"]}]`,
		"/v1/load-balancers/pools/p/members":                     `[{"uuid": "m", "name": "x", "enabled": true, "protocol_port": 30080, "monitor_port": null, "address": "10.0.0.1", "subnet": {"uuid": "s", "cidr": "10.0.0.0/24"}, "monitor_status": "up"}]`,
		"/v1/load-balancers/health-monitors?tag%3Aa=b&tag%3Ac=d": `[]`,
		"/v1/floating-ips":                                       `[{"network": "5.102.150.123/32", "server": null, "load_balancer": {"uuid": "lb"}, "region": {"slug": "lpg"}}, {"network": "2a06:c01::/56", "server": {"uuid": "s"}, "load_balancer": null, "region": null, "type": "global"}]`,
		"/v1/servers": `[{"uuid": "s", "name": "worker-1", "status": "running", "zone": {"slug": "rma1"}, "flavor": {"slug": "flex-4-2", "vcpu_count": 2}, "interfaces": [
			{"type": "public", "addresses": [{"version": 4, "address": "5.1.2.3", "subnet": {"uuid": "p", "cidr": "5.1.2.0/24"}}]},
			{"type": "private", "addresses": [{"version": 4, "address": "10.0.0.1", "subnet": {}}]},
			{"type": "private", "addresses": []}]}]`,
		"/v1/subnets/s": `{"uuid": "s", "cidr": "10.0.0.0/24", "gateway_address": null}`,
	}
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.RequestURI()]
		if !ok {
			t.Errorf("asked for %s", r.URL.RequestURI())
		}
		_, _ = w.Write([]byte(answer))
	})
	check := func(want, got any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, compareNets); diff != "" {
			t.Error(diff)
		}
	}
	addr, cidr := netip.MustParseAddr, netip.MustParsePrefix

	lb, err := c.LoadBalancers.Get(t.Context(), "lb")
	check(&LoadBalancer{UUID: "lb", Name: "web-lb", Status: Changing, Zone: Slug{"lpg1"}, Flavor: Slug{"lb-standard"}, CreatedAt: time.Date(2023, 2, 7, 15, 32, 2, 308041000, time.UTC), Tags: Tags{}, VIPAddresses: []VIPAddress{
		{4, addr("192.0.2.110"), SubnetRef{"s4", cidr("192.0.2.0/24")}}, {6, addr("2001:db8::110"), SubnetRef{"s6", cidr("2001:db8::/64")}},
	}}, lb, err)
	listeners, err := c.Listeners.List(t.Context(), nil)
	check([]Listener{{UUID: "l", Name: "tcp/80", LoadBalancer: Ref{"lb", "web-lb"}, Protocol: "tcp", ProtocolPort: 80, AllowedCIDRs: []netip.Prefix{cidr("7.0.0.0/8")}}}, listeners, err)
	members, err := c.Members("p").List(t.Context(), nil)
	check([]Member{{UUID: "m", Name: "x", Enabled: true, ProtocolPort: 30080, Address: addr("10.0.0.1"), Subnet: SubnetRef{"s", cidr("10.0.0.0/24")}, MonitorStatus: "up"}}, members, err)
	monitors, err := c.HealthMonitors.List(t.Context(), Tags{"c": "d", "a": "b"})
	check([]HealthMonitor{}, monitors, err)
	floating, err := c.FloatingIPs.List(t.Context(), nil)
	check([]FloatingIP{
		{Network: cidr("5.102.150.123/32"), LoadBalancer: &Ref{UUID: "lb"}, Region: &Slug{"lpg"}},
		{Network: cidr("2a06:c01::/56"), Server: &Ref{UUID: "s"}},
	}, floating, err)
	servers, err := c.Servers.List(t.Context(), nil)
	check([]Server{{UUID: "s", Name: "worker-1", Status: Running, Zone: Slug{"rma1"}, Flavor: Slug{"flex-4-2"}, Interfaces: []Interface{
		{Public, []InterfaceAddress{{addr("5.1.2.3"), SubnetRef{"p", cidr("5.1.2.0/24")}}}},
		{"private", []InterfaceAddress{{Address: addr("10.0.0.1")}}},
		{"private", []InterfaceAddress{}},
	}}}, servers, err)
	subnet, err := c.Subnets.Get(t.Context(), "s")
	check(&Subnet{"s", cidr("10.0.0.0/24")}, subnet, err)
}

// Without an id, a DELETE would be one of the whole collection.
func TestNoIDIsNoCall(t *testing.T) {
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s", r.Method, r.URL) })
	if err := c.LoadBalancers.Delete(t.Context(), ""); err == nil {
		t.Error("deleted")
	}
	if err := c.LoadBalancers.Patch(t.Context(), "", LoadBalancerPatch{}); err == nil {
		t.Error("patched")
	}
	if _, err := c.Servers.Get(t.Context(), ""); err == nil || cloud.IsNotFound(err) {
		t.Errorf("get: %v", err)
	}
}

// An id is one part of a path, whatever is in it.
func TestIDIsEscaped(t *testing.T) {
	var got []request
	c := serve(t, recorded(t, &got, 204, ""))
	if err := c.Pools.Delete(t.Context(), "../../servers/x?y"); err != nil {
		t.Fatal(err)
	}
	if want := "/v1/load-balancers/pools/..%2F..%2Fservers%2Fx%3Fy"; got[0].URI != want {
		t.Errorf("asked for %s, want %s", got[0].URI, want)
	}
}
