package cloudscale

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"fairlead.io/test/kit/leak"
	"github.com/google/go-cmp/cmp"

	"fairlead.io/internal/cloud"
)

func TestMain(m *testing.M) { leak.Main(m) }

const testToken = "abcdefghijklmnopqrstuvwxyz012345"

// serve is a client of an API that answers as handler does.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	return serveWith(t, Options{}, handler)
}

func serveWith(t *testing.T, o Options, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	if o.Token, err = cloud.NewToken(testToken); err != nil {
		t.Fatal(err)
	}
	o.URL, o.HTTP = server.URL, transport
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// request is what arrived.
type request struct {
	Method, URI string
	Body        map[string]any
}

// recorded answers every request with status and body, and records it.
func recorded(t *testing.T, into *[]request, status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if got, want := r.Header.Get("Authorization"), "Bearer "+testToken; got != want {
			t.Errorf("Authorization %q, want %q", got, want)
		}
		one := request{Method: r.Method, URI: r.URL.RequestURI()}
		if data, _ := io.ReadAll(r.Body); len(data) > 0 {
			if err := json.Unmarshal(data, &one.Body); err != nil {
				t.Errorf("body %s: %v", data, err)
			}
		}
		*into = append(*into, one)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestWrites(t *testing.T) {
	const object = `{"uuid": "made", "name": "whatever"}`
	for _, test := range []struct {
		name   string
		status int
		answer string
		call   func(*Client) error
		want   request
	}{
		{"load balancer", 201, object, func(c *Client) error {
			_, err := c.LoadBalancers.Create(t.Context(), NewLoadBalancer{Name: "web", Flavor: "lb-standard", Zone: "lpg1",
				VIPAddresses: []NewVIPAddress{{Subnet: "s1"}, {Subnet: "s2", Address: netip.MustParseAddr("10.0.0.9")}}, Tags: Tags{"a": "b"}})
			return err
		}, request{"POST", "/v1/load-balancers", map[string]any{
			"name": "web", "flavor": "lb-standard", "zone": "lpg1", "tags": map[string]any{"a": "b"},
			"vip_addresses": []any{map[string]any{"subnet": "s1"}, map[string]any{"subnet": "s2", "address": "10.0.0.9"}},
		}}},
		{"public load balancer", 201, object, func(c *Client) error {
			_, err := c.LoadBalancers.Create(t.Context(), NewLoadBalancer{Name: "web", Flavor: "lb-standard"})
			return err
		}, request{"POST", "/v1/load-balancers", map[string]any{"name": "web", "flavor": "lb-standard"}}},
		{"rename", 204, "", func(c *Client) error {
			return c.LoadBalancers.Patch(t.Context(), "lb", LoadBalancerPatch{Name: new("web-2")})
		}, request{"PATCH", "/v1/load-balancers/lb", map[string]any{"name": "web-2"}}},
		{"delete", 204, "", func(c *Client) error {
			return c.LoadBalancers.Delete(t.Context(), "lb")
		}, request{"DELETE", "/v1/load-balancers/lb", nil}},
		{"pool", 201, object, func(c *Client) error {
			_, err := c.Pools.Create(t.Context(), NewPool{Name: "tcp/http", LoadBalancer: "lb", Algorithm: "round_robin", Protocol: "tcp"})
			return err
		}, request{"POST", "/v1/load-balancers/pools", map[string]any{"name": "tcp/http", "load_balancer": "lb", "algorithm": "round_robin", "protocol": "tcp"}}},
		{"member", 201, object, func(c *Client) error {
			_, err := c.Members("p").Create(t.Context(), NewMember{Name: "10.0.0.1:80", ProtocolPort: 30080, MonitorPort: 31000, Address: netip.MustParseAddr("10.0.0.1"), Subnet: "s"})
			return err
		}, request{"POST", "/v1/load-balancers/pools/p/members", map[string]any{"name": "10.0.0.1:80", "protocol_port": 30080.0, "monitor_port": 31000.0, "address": "10.0.0.1", "subnet": "s"}}},
		{"drain member", 204, "", func(c *Client) error {
			return c.Members("p").Patch(t.Context(), "m", MemberPatch{Enabled: new(false)})
		}, request{"PATCH", "/v1/load-balancers/pools/p/members/m", map[string]any{"enabled": false}}},
		{"listener", 201, object, func(c *Client) error {
			_, err := c.Listeners.Create(t.Context(), NewListener{Name: "tcp/80", Pool: "p", Protocol: "tcp", ProtocolPort: 80, AllowedCIDRs: []netip.Prefix{netip.MustParsePrefix("7.0.0.0/8")}, TimeoutClientDataMS: 50000})
			return err
		}, request{"POST", "/v1/load-balancers/listeners", map[string]any{"name": "tcp/80", "pool": "p", "protocol": "tcp", "protocol_port": 80.0, "allowed_cidrs": []any{"7.0.0.0/8"}, "timeout_client_data_ms": 50000.0}}},
		{"everybody is allowed again", 204, "", func(c *Client) error {
			return c.Listeners.Patch(t.Context(), "l", ListenerPatch{AllowedCIDRs: new(CIDRs(nil))})
		}, request{"PATCH", "/v1/load-balancers/listeners/l", map[string]any{"allowed_cidrs": []any{}}}},
		{"monitor", 201, object, func(c *Client) error {
			_, err := c.HealthMonitors.Create(t.Context(), NewHealthMonitor{Pool: "p", Type: "http", DelayS: 2, TimeoutS: 1, UpThreshold: 2, DownThreshold: 3,
				HTTP: &HTTPCheck{ExpectedCodes: []string{"200"}, Method: "GET", URLPath: "/livez", Version: "1.0"}})
			return err
		}, request{"POST", "/v1/load-balancers/health-monitors", map[string]any{"pool": "p", "type": "http", "delay_s": 2.0, "timeout_s": 1.0, "up_threshold": 2.0, "down_threshold": 3.0,
			"http": map[string]any{"expected_codes": []any{"200"}, "method": "GET", "url_path": "/livez", "version": "1.0"}}}},
		{"monitor without a host again", 204, "", func(c *Client) error {
			return c.HealthMonitors.Patch(t.Context(), "h", HealthMonitorPatch{HTTP: &HTTPCheckPatch{ExpectedCodes: []string{"200"}, Method: "GET", URLPath: "/"}})
		}, request{"PATCH", "/v1/load-balancers/health-monitors/h", map[string]any{"http": map[string]any{"expected_codes": []any{"200"}, "method": "GET", "url_path": "/", "host": nil}}}},
		{"floating IP", 204, "", func(c *Client) error {
			return c.FloatingIPs.Assign(t.Context(), netip.MustParsePrefix("100.1.1.1/24"), "lb")
		}, request{"PATCH", "/v1/floating-ips/100.1.1.1", map[string]any{"load_balancer": "lb"}}},
		{"floating network", 204, "", func(c *Client) error {
			return c.FloatingIPs.Assign(t.Context(), netip.MustParsePrefix("2a06:c01::/56"), "lb")
		}, request{"PATCH", "/v1/floating-ips/2a06:c01::", map[string]any{"load_balancer": "lb"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []request
			if err := test.call(serve(t, recorded(t, &got, test.status, test.answer))); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]request{test.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
