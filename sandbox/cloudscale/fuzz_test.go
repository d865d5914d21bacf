package cloudscale_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"fairlead.io/sandbox/cloudscale"
)

// Whatever is sent, the answer is one that the API may give, and what is there
// can still be listed.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"name":"web","flavor":"lb-standard","vip_addresses":[{"subnet":"S","address":"10.0.0.9"}],"tags":{"a":"b"}}`,
		`{"name":"p","load_balancer":"L","algorithm":"round_robin","protocol":"udp"}`,
		`{"name":"m","protocol_port":"80","monitor_port":null,"address":"10.0.0.2","subnet":"S","enabled":false}`,
		`{"name":"l","pool":"P","protocol":"tcp","protocol_port":443,"allowed_cidrs":["10.0.0.0/8"],"timeout_client_data_ms":1}`,
		`{"pool":"P","type":"http","http":{"expected_codes":["200-204"],"method":"GET","url_path":"/","version":"1.0","host":null},"delay_s":3}`,
		`{"ip_version":6,"prefix_length":56,"type":"global","load_balancer":"L","reverse_ptr":"x"}`,
		`{"name":"s","flavor":"flex-4-2","image":"x","interfaces":[{"network":"N","addresses":[{"subnet":"S"}]}]}`,
		`{"network":"N","cidr":"fd00::/64","gateway_address":"fd00::1","dns_servers":null}`,
		`{"enabled":true}`, `{"http":{"host":"x"}}`, `{"server":"V"}`, `{"interfaces":[]}`, `null`, `[]`, `{"name":{}}`,
	} {
		for _, path := range []string{
			"load-balancers", "load-balancers/L", "load-balancers/pools", "load-balancers/pools/P", "load-balancers/pools/P/members",
			"load-balancers/pools/P/members/M", "load-balancers/listeners", "load-balancers/listeners/I", "load-balancers/health-monitors",
			"load-balancers/health-monitors/H", "floating-ips", "floating-ips/192.0.2.1", "servers", "servers/V", "servers/V/stop",
			"networks", "networks/N", "subnets", "subnets/S",
		} {
			method := "POST"
			if strings.HasSuffix(path, "1") || path[len(path)-1] < 'Z' {
				method = "PATCH"
			}
			f.Add(method, path, body)
		}
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		c := newCloud(t, quick)
		lb := c.newLB()
		pool := c.newPool(lb, "tcp")
		m, l, h := c.newMember(pool, "10.0.0.11"), c.newListener(pool, "tcp", 80), c.newMonitor(pool, "http")
		c.must("POST", "floating-ips", object{"ip_version": 4})
		names := strings.NewReplacer(`"S"`, `"`+c.subnet.UUID+`"`, `"N"`, `"`+c.network.UUID+`"`, `"L"`, `"`+id(lb)+`"`, `"P"`, `"`+id(pool)+`"`, `"V"`, `"`+c.node.UUID+`"`)
		paths := strings.NewReplacer("/S", "/"+c.subnet.UUID, "/N", "/"+c.network.UUID, "/L", "/"+id(lb), "/P", "/"+id(pool), "/V", "/"+c.node.UUID,
			"/M", "/"+id(m), "/I", "/"+id(l), "/H", "/"+id(h))
		r := c.newRequest("POST", "x", c.Token(), names.Replace(body))
		r.Method, r.URL.Path = method, "/v1/"+paths.Replace(path)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
		}
		if w.Code >= 400 {
			var texts map[string]string
			if err := json.Unmarshal(w.Body.Bytes(), &texts); err != nil || len(texts) == 0 {
				t.Errorf("%s %s %s: error is no object of strings: %s", method, path, body, w.Body)
			}
		}
		for _, kind := range []string{"servers", "networks", "subnets", "load-balancers", "load-balancers/pools", "load-balancers/listeners", "load-balancers/health-monitors", "floating-ips"} {
			c.list(kind)
		}
		c.Members("")
	})
}

func FuzzSeed(f *testing.F) {
	f.Add([]byte(`{"networks":[{"name":"x"}],"subnets":[{"cidr":"10.0.0.0/8"}],"servers":[{"interfaces":[{}]}],"floating-ips":[{"network":"1.2.3.4/32"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := &cloud{Simulator: cloudscale.New(quick), t: t}
		defer c.Close()
		_ = c.Seed(raw)
		for _, kind := range []string{"servers", "networks", "subnets", "floating-ips"} {
			c.list(kind)
		}
	})
}
