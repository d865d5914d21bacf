package cloudsigma_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fairlead.io/sandbox/cloudsigma"
)

// Whatever is sent, the answer is one that the API may give, and what is there
// can still be listed.
func FuzzRequests(f *testing.F) {
	for _, body := range []string{
		`{"name":"n","cpu":1,"mem":1,"vnc_password":"x","nics":[{"mac":"22:00:00:00:00:00","ip_v4_conf":{"conf":"static","ip":"192.0.2.7"}}]}`,
		`{"name":"n","cpu":1,"mem":1,"vnc_password":"x","nics":[{"vlan":{"uuid":"x"}},{"ip_v6_conf":{"conf":"dhcp"}}]}`,
		`{"objects":[{"name":"t","resources":["192.0.2.7",{"uuid":"V"}]}]}`, `{"name":"t","resources":[{"uuid":"192.0.2.8"}],"meta":{"a":"b"}}`,
		`{"objects":[{"resource":"ip","amount":1}]}`, `{"meta":{"a":1}}`, `{"running":"ignore"}`, `{"address":"192.0.2.7"}`, `null`, `[]`, `{"objects":null}`, `{"nics":null}`,
		`grant_type=client_credentials&client_id=fairlead&client_secret=sandbox`,
	} {
		for _, path := range []string{
			"/api/2.0/servers/", "/api/2.0/servers/V/", "/api/2.0/servers/V/action/", "/api/2.0/tags/", "/api/2.0/tags/T/", "/api/2.0/tags/T/ips/", "/api/2.0/ips/192.0.2.7/",
			"/api/2.0/subscriptions/", "/sandbox/knobs", "/sandbox/subscribe", "/sandbox/servers", "/sandbox/tags", "/sandbox/interfere",
			"/realms/cloudsigma/protocol/openid-connect/token", "/service_provider/api/v1/user/impersonate",
		} {
			for _, method := range []string{http.MethodPost, "PUT", "PATCH"} {
				f.Add(method, path, body)
			}
		}
	}
	f.Fuzz(func(t *testing.T, method, path, body string) {
		c := newCloud(t, cloudsigma.Knobs{})
		tag := c.AddTag("t", first.String())
		names := strings.NewReplacer("V", c.node.UUID, "T", tag.UUID)
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/x", strings.NewReader(names.Replace(body)))
		r.Header.Set("Authorization", "Bearer "+c.Token())
		r.Method, r.URL.Path = method, strings.NewReplacer("/V/", "/"+c.node.UUID+"/", "/T/", "/"+tag.UUID+"/").Replace(path)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Fatalf("%s %s %s: %d %s", method, path, body, w.Code, w.Body)
		}
		for _, kind := range []string{"servers/detail/", "ips/detail/", "tags/", "subscriptions/", "vlans/detail/"} {
			c.want(200, "GET", kind+"?limit=0", nil)
		}
		c.Ports()
	})
}

func FuzzSeed(f *testing.F) {
	f.Add([]byte(`{"subscribed":["192.0.2.7","::1"],"servers":[{"name":"a","nics":[{"mode":"dhcp","ip_v4":"*"},{"vlan":"x"},{"mode":"static","ip_v4":"192.0.2.7"}]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := &cloud{Simulator: cloudsigma.New(cloudsigma.Options{}), t: t}
		defer c.Close()
		_ = c.Seed(raw)
		for _, kind := range []string{"servers/detail/", "ips/detail/", "vlans/detail/"} {
			c.want(200, "GET", kind+"?limit=0", nil)
		}
	})
}
