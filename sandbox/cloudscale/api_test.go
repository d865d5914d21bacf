package cloudscale_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"fairlead.io/sandbox/cloudscale"
)

const unknown = "15264769-ac69-4809-a8e4-4d73f8f92496"

func TestWhoMayAsk(t *testing.T) {
	o := quick
	o.Token, o.ReadOnlyToken = "writer", "reader"
	c := newCloud(t, o)
	for _, test := range []struct {
		method, token string
		want          int
	}{
		{"GET", "", http.StatusUnauthorized},
		{"GET", "stranger", http.StatusUnauthorized},
		{"GET", "reader", http.StatusOK},
		{"POST", "reader", http.StatusForbidden},
		{"GET", "writer", http.StatusOK},
		{"POST", "writer", http.StatusBadRequest}, // it may, but says nothing
	} {
		status, header, raw := c.request(test.method, "load-balancers", test.token, nil)
		if status != test.want {
			t.Errorf("%s as %q: %d %s, want %d", test.method, test.token, status, raw, test.want)
		}
		if got := header.Get("Access-Control-Allow-Origin"); got != "*" {
			t.Errorf("Access-Control-Allow-Origin %q", got)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	c := newCloud(t, quick)
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/", 404}, {"GET", "/v1", 404}, {"GET", "volumes", 404}, {"GET", "servers/", 404}, {"GET", "/v2/servers", 404},
		{"GET", "servers/" + unknown, 404}, {"GET", "load-balancers/" + unknown, 404}, {"GET", "load-balancers/pools/" + unknown, 404},
		{"GET", "load-balancers/pools/" + unknown + "/members", 404}, {"POST", "load-balancers/pools/" + unknown + "/members", 404},
		{"GET", "load-balancers/listeners/" + unknown, 404}, {"DELETE", "load-balancers/health-monitors/" + unknown, 404},
		{"PATCH", "floating-ips/192.0.2.99", 404}, {"GET", "servers/" + c.node.UUID + "/stop", 405}, {"GET", "load-balancers/pools/a/b/c/d", 404},
		{"PUT", "load-balancers", 405}, {"DELETE", "load-balancers", 405}, {"PATCH", "servers", 405}, {"POST", "servers/" + c.node.UUID, 405},
		{"POST", "flavors", 405}, {"POST", "regions", 405}, {"GET", "regions/lpg", 404}, {"POST", "servers/" + c.node.UUID + "/dance", 404},
		{"OPTIONS", "servers", 200},
	} {
		body := any(nil)
		if test.method == "POST" || test.method == "PATCH" {
			body = object{}
		}
		got, answer := c.send(test.method, test.path, body)
		if got != test.want {
			t.Errorf("%s %s: %d %v, want %d", test.method, test.path, got, answer, test.want)
		}
		if test.want == 404 {
			if diff := cmp.Diff(answer, any(object{"detail": "Not found."})); diff != "" {
				t.Error(test.path, diff)
			}
		}
	}
}

func TestBodiesThatAreNone(t *testing.T) {
	c := newCloud(t, quick)
	for _, body := range []string{"{", "[]", "null", `"x"`, "1"} {
		c.refused("POST", "load-balancers", body, 400, "detail", "JSON parse error")
	}
	for _, test := range []struct {
		media, body string
		want        int
	}{
		{"application/x-www-form-urlencoded", "name=web&flavor=lb-standard", http.StatusCreated},
		{"application/xml", "<xml/>", http.StatusUnsupportedMediaType},
	} {
		r := c.newRequest("POST", "load-balancers", c.Token(), test.body)
		r.Header.Set("Content-Type", test.media)
		w := httptest.NewRecorder()
		if c.ServeHTTP(w, r); w.Code != test.want {
			t.Errorf("%s: %d %s, want %d", test.media, w.Code, w.Body, test.want)
		}
	}
}

func TestLoadBalancer(t *testing.T) {
	c := newCloud(t, quick)
	lb := c.must("POST", "load-balancers", object{"name": "web", "flavor": "lb-standard", "tags": object{"a": "1"}})
	created, _ := lb["created_at"].(string)
	delete(lb, "created_at")
	if !strings.HasSuffix(created, "Z") {
		t.Errorf("created_at %q", created)
	}
	vips, _ := lb["vip_addresses"].([]any)
	if len(vips) != 2 {
		t.Fatalf("VIPs: %v", vips)
	}
	for i, want := range []string{"203.0.113.0/24", "2001:db8:1::/64"} {
		vip := vips[i].(object)
		subnet := vip["subnet"].(object)
		if subnet["cidr"] != want || !netip.MustParsePrefix(want).Contains(netip.MustParseAddr(vip["address"].(string))) {
			t.Errorf("VIP %d: %v", i, vip)
		}
		if vip["version"] != float64(4+2*i) || subnet["href"] != "http://api.example/v1/subnets/"+subnet["uuid"].(string) {
			t.Errorf("VIP %d: %v", i, vip)
		}
	}
	delete(lb, "vip_addresses")
	uuid := id(lb)
	if diff := cmp.Diff(object{
		"href": "http://api.example/v1/load-balancers/" + uuid, "uuid": uuid, "name": "web", "status": "running",
		"zone": object{"slug": "lpg1"}, "flavor": object{"slug": "lb-standard", "name": "LB-Standard"}, "tags": object{"a": "1"},
	}, lb); diff != "" {
		t.Error(diff)
	}
	c.must("PATCH", "load-balancers/"+uuid, object{"name": "renamed"})
	c.must("PATCH", "load-balancers/"+uuid, object{"tags": object{}})
	got := c.must("GET", "load-balancers/"+uuid, nil)
	if got["name"] != "renamed" || len(got["tags"].(object)) != 0 {
		t.Errorf("after PATCH: %v", got)
	}
	c.must("DELETE", "load-balancers/"+uuid, nil)
	c.refused("GET", "load-balancers/"+uuid, nil, 404, "detail", "Not found.")
	c.refused("DELETE", "load-balancers/"+uuid, nil, 404, "detail", "Not found.")
	if next := c.newLB(); next["vip_addresses"].([]any)[0].(object)["address"] == vips[0].(object)["address"] {
		t.Error("the address of a deleted load balancer is given away at once")
	}
}

func TestLoadBalancerThatCannotBe(t *testing.T) {
	c := newCloud(t, quick)
	abroad := c.AddNetwork(cloudscale.Network{Name: "abroad", Zone: "rma1"})
	there := c.AddSubnet(cloudscale.Subnet{Network: abroad.UUID, CIDR: netip.MustParsePrefix("10.9.0.0/24")})
	vip := func(subnet, address string) []object {
		o := object{"subnet": subnet}
		if address != "" {
			o["address"] = address
		}
		return []object{o}
	}
	for _, test := range []struct {
		change       object
		field, words string
	}{
		{object{"name": nil}, "name", "may not be null"},
		{object{"name": ""}, "name", "may not be blank"},
		{object{"name": 7}, "name", "Not a valid string"},
		{object{"name": strings.Repeat("x", 256)}, "name", "no more than 255"},
		{object{"flavor": "lb-huge"}, "flavor", "is not a valid choice"},
		{object{"zone": "lpg9"}, "zone", "is not a valid choice. Choose one of"},
		{object{"tags": []string{"a"}}, "tags", "Expected a dictionary"},
		{object{"tags": object{"a": 1}}, "tags", "Expected a dictionary"},
		{object{"vip_addresses": "x"}, "vip_addresses", "Expected a list"},
		{object{"vip_addresses": vip("00000-00000-00000-00000", "")}, "vip_addresses", "Must be a valid UUID."},
		{object{"vip_addresses": vip(unknown, "")}, "vip_addresses", "does not exist"},
		{object{"vip_addresses": vip(c.subnet.UUID, "172.16.0.0")}, "vip_addresses", "is not a valid IP for the specified subnet"},
		{object{"vip_addresses": vip(c.subnet.UUID, "10.0.0.11")}, "vip_addresses", "already in use"},
		{object{"vip_addresses": vip(c.subnet.UUID, "x")}, "vip_addresses", "valid IPv4 or IPv6 address"},
		{object{"vip_addresses": vip(there.UUID, "")}, "vip_addresses", "not in the zone"},
		{object{"vip_addresses": []object{{"address": "10.0.0.40"}}}, "vip_addresses", "This field is required"},
		{object{"vip_addresses": append(vip(c.subnet.UUID, ""), vip(c.subnet.UUID, "")...)}, "vip_addresses", "Only one VIP"},
	} {
		body := object{"name": "web", "flavor": "lb-standard"}
		for k, v := range test.change {
			body[k] = v
		}
		c.refused("POST", "load-balancers", body, 400, test.field, test.words)
	}
	c.refused("POST", "load-balancers", object{}, 400, "name", "This field is required")
	c.refused("POST", "load-balancers", object{}, 400, "flavor", "This field is required")
	if left := c.list("load-balancers"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	lb := c.newLB()
	for _, field := range []string{"flavor", "zone", "vip_addresses"} {
		c.refused("PATCH", "load-balancers/"+id(lb), object{field: "x"}, 400, field, "cannot be changed")
	}
	c.refused("PATCH", "load-balancers/"+id(lb), object{"name": "a", "tags": object{}}, 400, "detail", "Only one attribute")
}

func TestPrivateLoadBalancer(t *testing.T) {
	c := newCloud(t, quick)
	for _, want := range []string{"10.0.0.77", ""} {
		vip := object{"subnet": c.subnet.UUID}
		if want != "" {
			vip["address"] = want
		}
		lb := c.must("POST", "load-balancers", object{"name": "web", "flavor": "lb-standard", "vip_addresses": []object{vip}})
		vips := lb["vip_addresses"].([]any)
		got, _ := vips[0].(object)["address"].(string)
		if len(vips) != 1 || want != "" && got != want || !c.subnet.CIDR.Contains(netip.MustParseAddr(got)) {
			t.Errorf("VIPs: %v", vips)
		}
	}
}

func TestPool(t *testing.T) {
	c := newCloud(t, quick)
	lb := c.newLB()
	good := object{"name": "tcp/http", "load_balancer": id(lb), "algorithm": "source_ip", "protocol": "proxyv2"}
	pool := c.must("POST", "load-balancers/pools", good)
	delete(pool, "created_at")
	if diff := cmp.Diff(object{
		"href": "http://api.example/v1/load-balancers/pools/" + id(pool), "uuid": id(pool), "name": "tcp/http", "tags": object{},
		"load_balancer": object{"href": lb["href"], "uuid": id(lb), "name": "web"}, "algorithm": "source_ip", "protocol": "proxyv2",
	}, pool); diff != "" {
		t.Error(diff)
	}
	for field, test := range map[string]struct {
		value any
		words string
	}{
		"load_balancer": {unknown, "does not exist"}, "algorithm": {"robin_round", "Expect one of"},
		"protocol": {"pct", "Expect one of"}, "name": {"", "blank"},
	} {
		bad := object{}
		for k, v := range good {
			bad[k] = v
		}
		bad[field] = test.value
		c.refused("POST", "load-balancers/pools", bad, 400, field, test.words)
		delete(bad, field)
		c.refused("POST", "load-balancers/pools", bad, 400, field, "This field is required")
	}
	c.refused("PATCH", "load-balancers/pools/"+id(pool), object{"algorithm": "round_robin"}, 400, "algorithm", "cannot be changed")
	c.must("PATCH", "load-balancers/pools/"+id(pool), object{"name": "new"})
	c.must("PATCH", "load-balancers/"+id(lb), object{"name": "renamed"})
	got := c.must("GET", "load-balancers/pools/"+id(pool), nil)
	if got["name"] != "new" || got["load_balancer"].(object)["name"] != "renamed" {
		t.Errorf("after PATCH: %v", got)
	}
	c.must("DELETE", "load-balancers/pools/"+id(pool), nil)
	c.refused("GET", "load-balancers/pools/"+id(pool), nil, 404, "detail", "Not found")
}

func TestMember(t *testing.T) {
	c := newCloud(t, quick)
	pool := c.newPool(c.newLB(), "tcp")
	members := "load-balancers/pools/" + id(pool) + "/members"
	good := object{"name": "10.0.0.11:30080", "protocol_port": 30080, "address": "10.0.0.11", "subnet": c.subnet.UUID}
	m := c.must("POST", members, good)
	delete(m, "created_at")
	lb := pool["load_balancer"]
	if diff := cmp.Diff(object{
		"href": "http://api.example/v1/" + members + "/" + id(m), "uuid": id(m), "name": "10.0.0.11:30080", "enabled": true,
		"pool": object{"href": pool["href"], "uuid": id(pool), "name": "tcp"}, "load_balancer": lb, "protocol_port": float64(30080),
		"monitor_port": nil, "address": "10.0.0.11", "monitor_status": "no_monitor", "tags": object{},
		"subnet": object{"href": "http://api.example/v1/subnets/" + c.subnet.UUID, "uuid": c.subnet.UUID, "cidr": "10.0.0.0/24"},
	}, m); diff != "" {
		t.Error(diff)
	}
	for _, test := range []struct {
		field string
		value any
		words string
	}{
		{"protocol_port", 0, "The protocol_port must be between"}, {"protocol_port", "x", "A valid integer"},
		{"monitor_port", 65536, "The monitor_port must be between"}, {"address", "10.1.0.1", "is not a valid IP for the specified subnet"},
		{"address", "10.0.0.0/24", "valid IPv4 or IPv6"}, {"subnet", unknown, "does not exist"}, {"subnet", "x", "Must be a valid UUID"},
		{"enabled", "enableme", "Must be a valid boolean"},
	} {
		bad := object{"name": "b", "protocol_port": 1, "address": "10.0.0.12", "subnet": c.subnet.UUID}
		bad[test.field] = test.value
		c.refused("POST", members, bad, 400, test.field, test.words)
	}
	c.refused("POST", members, good, 400, "detail", "already uses 10.0.0.11")
	for _, field := range []string{"protocol_port", "monitor_port", "address", "subnet"} {
		c.refused("PATCH", members+"/"+id(m), object{field: nil}, 400, field, "cannot be changed")
	}
	c.must("PATCH", members+"/"+id(m), object{"enabled": false})
	if got := c.must("GET", members+"/"+id(m), nil); got["enabled"] != false {
		t.Errorf("after PATCH: %v", got)
	}
	other := c.newPool(object{"uuid": lb.(object)["uuid"]}, "tcp")
	c.refused("GET", "load-balancers/pools/"+id(other)+"/members/"+id(m), nil, 404, "detail", "Not found")
	monitored := c.must("POST", members, object{"name": "c", "protocol_port": 1, "monitor_port": 2, "address": "10.0.0.13", "subnet": c.subnet.UUID, "tags": object{"a": "b"}})
	if monitored["monitor_port"] != float64(2) {
		t.Errorf("monitor_port: %v", monitored)
	}
	if got := c.list(members + "?tag:a=b"); len(got) != 1 || id(got[0]) != id(monitored) {
		t.Errorf("by tag: %v", got)
	}
	c.must("DELETE", members+"/"+id(m), nil)
	if got := c.list(members); len(got) != 1 {
		t.Errorf("after DELETE: %v", got)
	}
}

func TestListener(t *testing.T) {
	c := newCloud(t, quick)
	lb := c.newLB()
	pool, udp := c.newPool(lb, "tcp"), c.newPool(lb, "udp")
	l := c.newListener(pool, "tcp", 80)
	delete(l, "created_at")
	if diff := cmp.Diff(object{
		"href": "http://api.example/v1/load-balancers/listeners/" + id(l), "uuid": id(l), "name": "tcp",
		"pool": object{"href": pool["href"], "uuid": id(pool), "name": "tcp"}, "load_balancer": pool["load_balancer"],
		"protocol": "tcp", "protocol_port": float64(80), "allowed_cidrs": []any{}, "tags": object{},
		"timeout_client_data_ms": float64(50000), "timeout_member_connect_ms": float64(5000), "timeout_member_data_ms": float64(50000),
	}, l); diff != "" {
		t.Error(diff)
	}
	for _, test := range []struct {
		field string
		value any
		words string
	}{
		{"protocol", "pct", "Expect one of"}, {"protocol", "udp", "cannot use a pool"}, {"protocol_port", 11111111, "The protocol_port must be between"},
		{"protocol_port", 80, "already uses"}, {"allowed_cidrs", []string{"1.1.1.1"}, "Enter a valid network address in CIDR notation"},
		{"allowed_cidrs", []string{"10.0.0.1/8"}, "Enter a valid network address in CIDR notation"}, {"allowed_cidrs", "10.0.0.0/8", "Expected a list"},
		{"timeout_client_data_ms", 0, "greater than or equal"}, {"pool", unknown, "does not exist"}, {"pool", nil, "may not be null"},
	} {
		bad := object{"name": "b", "pool": id(pool), "protocol": "tcp", "protocol_port": 81}
		bad[test.field] = test.value
		c.refused("POST", "load-balancers/listeners", bad, 400, test.field, test.words)
	}
	path := "load-balancers/listeners/" + id(l)
	c.refused("PATCH", path, object{"pool": id(udp)}, 400, "pool", "cannot be changed")
	c.must("PATCH", path, object{"allowed_cidrs": []string{"7.0.0.0/8", "2001:db8::/32"}})
	c.must("PATCH", path, object{"protocol_port": 8080})
	c.must("PATCH", path, object{"timeout_member_data_ms": 7})
	got := c.must("GET", path, nil)
	if diff := cmp.Diff(got["allowed_cidrs"], []any{"7.0.0.0/8", "2001:db8::/32"}); diff != "" || got["protocol_port"] != float64(8080) || got["timeout_member_data_ms"] != float64(7) {
		t.Errorf("after PATCH: %v", got)
	}
	c.must("PATCH", path, object{"allowed_cidrs": []string{}})
	if got := c.must("GET", path, nil); len(got["allowed_cidrs"].([]any)) != 0 {
		t.Errorf("after PATCH: %v", got)
	}
	c.newListener(udp, "udp", 8080) // the same number, but another port
	c.must("DELETE", path, nil)
}

func TestHealthMonitor(t *testing.T) {
	c := newCloud(t, quick)
	lb := c.newLB()
	pool, second, udp := c.newPool(lb, "tcp"), c.newPool(lb, "proxy"), c.newPool(lb, "udp")
	const path = "load-balancers/health-monitors"
	m := c.newMonitor(pool, "tcp")
	delete(m, "created_at")
	if diff := cmp.Diff(object{
		"href": "http://api.example/v1/" + path + "/" + id(m), "uuid": id(m), "type": "tcp", "tags": object{}, "http": nil,
		"pool": object{"href": pool["href"], "uuid": id(pool), "name": "tcp"}, "load_balancer": pool["load_balancer"],
		"delay_s": float64(2), "timeout_s": float64(1), "up_threshold": float64(2), "down_threshold": float64(3),
	}, m); diff != "" {
		t.Error(diff)
	}
	c.refused("POST", path, object{"pool": id(pool), "type": "tcp"}, 400, "pool", "already has")
	c.refused("POST", path, object{}, 400, "pool", "This field is required")
	c.refused("POST", path, object{"pool": unknown}, 400, "type", "This field is required")
	for _, test := range []struct {
		body         object
		field, words string
	}{
		{object{"type": "icmp"}, "type", "Expect one of"}, {object{"type": "udp-connect"}, "type", "needs a pool of protocol udp"},
		{object{"type": "tcp", "pool": unknown}, "pool", "does not exist"}, {object{"type": "tcp", "delay_s": 0}, "delay_s", "greater than"},
		{object{"type": "tcp", "up_threshold": 11}, "up_threshold", "less than"}, {object{"type": "tcp", "http": object{"method": "GET"}}, "http", "only be used"},
		{object{"type": "http", "http": object{"version": "1.0", "host": "h"}}, "http", "The host argument can not be used with HTTP version 1.0"},
		{object{"type": "http", "http": object{"version": "2"}}, "http", "Expect one of"},
		{object{"type": "http", "http": object{"method": "FETCH"}}, "http", "Expect one of"},
		{object{"type": "http", "http": object{"url_path": "x"}}, "http", "begin with a slash"},
		{object{"type": "http", "http": object{"expected_codes": []string{"200-204", "300"}}}, "http", "one range"},
		{object{"type": "http", "http": object{"expected_codes": []string{}}}, "http", "status codes"},
		{object{"type": "http", "http": "x"}, "http", "Expected an object"},
		{object{"type": "ping", "pool": id(udp)}, "type", "for a pool of protocol udp"},
		{object{"type": "udp-connect", "pool": id(udp), "delay_s": 2}, "delay_s", "greater than or equal to 3"},
	} {
		if test.body["pool"] == nil {
			test.body["pool"] = id(second)
		}
		c.refused("POST", path, test.body, 400, test.field, test.words)
	}
	web := c.must("POST", path, object{"pool": id(second), "type": "http", "http": object{"expected_codes": []any{200, "202"}, "host": "h"}})
	want := object{"expected_codes": []any{"200", "202"}, "method": "GET", "url_path": "/", "version": "1.1", "host": "h"}
	if diff := cmp.Diff(want, web["http"].(object)); diff != "" {
		t.Error(diff)
	}
	c.must("PATCH", path+"/"+id(web), object{"http": object{"url_path": "/livez"}}) // merged
	c.must("PATCH", path+"/"+id(web), object{"http": object{"host": nil}})
	c.must("PATCH", path+"/"+id(web), object{"delay_s": 5})
	want["url_path"], want["host"] = "/livez", nil
	got := c.must("GET", path+"/"+id(web), nil)
	if diff := cmp.Diff(want, got["http"].(object)); diff != "" || got["delay_s"] != float64(5) {
		t.Errorf("after PATCH: %v", got)
	}
	c.refused("PATCH", path+"/"+id(web), object{"http": object{"version": "1.0"}}, 400, "http", "cannot be changed")
	c.refused("PATCH", path+"/"+id(web), object{"type": "tcp"}, 400, "type", "cannot be changed")
	c.must("POST", path, object{"pool": id(udp), "type": "udp-connect", "delay_s": 3, "timeout_s": 2})
	c.must("DELETE", path+"/"+id(web), nil)
	if got := c.list(path); len(got) != 2 {
		t.Errorf("after DELETE: %v", got)
	}
}

func TestTagsSelect(t *testing.T) {
	c := newCloud(t, quick)
	for _, tags := range []object{{}, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "2"}} {
		c.must("POST", "load-balancers", object{"name": "x", "flavor": "lb-standard", "tags": tags})
	}
	for query, want := range map[string]int{"": 4, "?tag:a=1": 2, "?tag:a=1&tag:b=2": 1, "?tag:b=1": 0, "?tag:a=1&tag:a=2": 0, "?tag:a=": 3, "?other=x": 4} {
		if got := c.list("load-balancers" + query); len(got) != want {
			t.Errorf("%q: %d, want %d", query, len(got), want)
		}
	}
	if raw := c.list("servers?tag:x=y"); len(raw) != 0 {
		t.Error(raw)
	}
}
