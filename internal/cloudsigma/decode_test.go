package cloudsigma

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"fairlead.io/internal/cloud"
)

func TestErrorBodies(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		text   string
		is     func(error) bool
	}{
		{404, `[{"error_type":"notexist","error_message":"Object with uuid x does not exist","error_point":null}]`, "GET /servers/x/: 404: Object with uuid x does not exist", cloud.IsNotFound},
		{404, `{"error_type":"notexist","error_message":"gone"}`, "GET /servers/x/: 404: gone", cloud.IsNotFound},
		{404, `<html><head><title>404</title></head><body>Not <b>Found</b></body></html>`, "GET /servers/x/: 404: 404 Not Found", cloud.IsNotFound},
		{403, `[{"error_type":"permission","error_message":"User u does not have all of the permissions [LIST]"}]`, "GET /servers/x/: 403: User u does not have all of the permissions [LIST]", cloud.IsForbidden},
		{402, `[{"error_type":"billing","error_message":"no money"}]`, "GET /servers/x/: 402: no money", IsBilling},
		{400, `[{"error_type":"payment","error_message":"no money"}]`, "GET /servers/x/: 400: no money", IsBilling},
		{400, `[{"error_type":"validation","error_message":"bad","error_point":"nics"},{"error_message":"worse","error_point":"nics"},{"error_message":"and"}]`, "GET /servers/x/: 400: and; nics: bad worse", cloud.IsInvalid},
		{409, `[{"error_type":"concurrency","error_message":"busy"}]`, "GET /servers/x/: 409: busy", IsConcurrency},
		{401, ``, "GET /servers/x/: 401 Unauthorized", cloud.IsUnauthorized},
		{400, `[]`, "GET /servers/x/: 400: []", cloud.IsInvalid},
		{400, `["text"]`, `GET /servers/x/: 400: ["text"]`, cloud.IsInvalid},
		{400, `[{"error_type":"validation"}]`, `GET /servers/x/: 400: validation`, cloud.IsInvalid},
		{400, `{"error":"invalid_grant","error_description":"Token is not active"}`, `GET /servers/x/: 400: Token is not active`, cloud.IsInvalid},
	} {
		c := scripted(t, func(*http.Request) (*http.Response, error) { return answer(test.status, test.body), nil })
		_, err := c.Servers.Get(t.Context(), "x")
		if err == nil || err.Error() != test.text || !test.is(err) {
			t.Errorf("%s: %v", test.body, err)
		}
	}
	busy := &cloud.Error{Status: 503}
	explain(busy, []byte(`[{"error_type":"concurrency","error_message":"try again"}]`))
	if !cloud.IsBusy(busy) || !IsConcurrency(busy) || cloud.IsInvalid(busy) {
		t.Error(busy)
	}
}

// Whatever a proxy answers, it is told as a short line, and does not hurt.
func FuzzExplain(f *testing.F) {
	for _, s := range []string{`[{"error_type":"x","error_message":"y","error_point":"z"}]`, `{"error_message":1}`, `<html>a<b`, ``, "\xff\x00", `[1,null,"a"]`, `null`, `{"error":"e"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		e := &cloud.Error{Method: http.MethodGet, Path: "/x/", Status: 400}
		explain(e, body)
		if !utf8.ValidString(e.Error()) || strings.Contains(e.Error(), "\n") {
			t.Errorf("%q", e.Error())
		}
	})
}

const exampleServer = `{"uuid":"a","name":"n","status":"running","cpu":1000,"smp":1,"mem":536870912,"vnc_password":"x","unknown":{"a":[1,2]},"owner":{"uuid":"o"},
"nics":[{"boot_order":null,"mac":"22:B8:8C:17:FE:19","model":"virtio","vlan":null,"ip_v4_conf":{"conf":"dhcp","ip":null},"ip_v6_conf":null,"firewall_policy":null,
"runtime":{"interface_type":"public","ip_v4":{"uuid":"94.26.101.149","resource_uri":"x"},"ip_v6":null}},
{"mac":"22:00:00:00:00:01","ip_v4_conf":{"conf":"static","ip":"185.12.6.183"}},{"mac":"22:00:00:00:00:02","vlan":"v"},{"mac":null,"vlan":{"uuid":"w"}}]}`

// A server that was read is written with all that it had.
func FuzzServer(f *testing.F) {
	for _, s := range []string{exampleServer, `{}`, `{"nics":null}`, `{"nics":[{"ip_v4_conf":{"conf":"static","ip":{"uuid":"::1"}}}]}`, `{"cpu":1e400}`, `{"nics":[null]}`, `{"UUID":"a","Nics":[]}`} {
		f.Add([]byte(s))
	}
	addr := netip.MustParseAddr("192.0.2.7")
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s Server
		if json.Unmarshal(raw, &s) != nil {
			return
		}
		n := len(s.NICs)
		s.Attach(addr)
		if !s.Attached(addr) {
			t.Error("not attached")
		}
		written, err := json.Marshal(&s)
		if err != nil {
			t.Fatal(err)
		}
		var again Server
		if err := json.Unmarshal(written, &again); err != nil || !again.Attached(addr) || len(again.NICs) != len(s.NICs) {
			t.Fatalf("%v: %s", err, written)
		}
		again.Detach(addr)
		if first := again.NICs[0].Static(addr); again.Attached(addr) != first || len(again.NICs) > max(n, 1) {
			t.Errorf("%+v", again.NICs)
		}
		s.PublicNIC()
	})
}

func TestServerDefinition(t *testing.T) {
	var s Server
	if err := json.Unmarshal([]byte(exampleServer), &s); err != nil {
		t.Fatal(err)
	}
	s.Attach(netip.MustParseAddr("192.0.2.7"))
	raw, err := json.Marshal(s.definition())
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Password string                       `json:"vnc_password"`
		Unknown  json.RawMessage              `json:"unknown"`
		UUID     *string                      `json:"uuid"`
		NICs     []map[string]json.RawMessage `json:"nics"`
	}
	if err := json.Unmarshal(raw, &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Password != "x" || string(sent.Unknown) != `{"a":[1,2]}` || sent.UUID != nil || len(sent.NICs) != 5 {
		t.Errorf("%s", raw)
	}
	if string(sent.NICs[0]["mac"]) != `"22:B8:8C:17:FE:19"` || string(sent.NICs[4]["ip_v4_conf"]) != `{"conf":"static","ip":{"uuid":"192.0.2.7"}}` || len(sent.NICs[4]) != 1 {
		t.Errorf("%s", raw)
	}
	if s.NICs[0].MAC != "22:b8:8c:17:fe:19" || s.NICs[1].V4.Addr.String() != "185.12.6.183" || s.NICs[2].VLAN != "v" || s.NICs[3].VLAN != "w" {
		t.Errorf("%+v", s.NICs)
	}
}

// Tags, addresses, subscriptions and pages of any form do not hurt.
func FuzzObjects(f *testing.F) {
	for _, s := range []string{
		`{"uuid":"x","name":"a","resources":[{"uuid":"192.0.2.7"},"b"],"meta":{}}`, `{"resources":null}`, `{"resources":[null]}`,
		`{"uuid":"192.0.2.7","server":{"uuid":"s"},"subscription":{"id":7273},"tags":[{"uuid":"t"}],"meta":{"a":"b"}}`,
		`{"id":"13","subscribed_object":"192.0.2.7","end_time":"2014-02-20T10:46:28.000000+00:00","auto_renew":true}`, `{"id":1e3,"end_time":7}`,
		`{"meta":{"total_count":1},"objects":[{"uuid":"a"}]}`, `{"access_token":"a","expires_in":1e300}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var tag Tag
		if json.Unmarshal(raw, &tag) == nil {
			for _, asTexts := range []bool{true, false} {
				written, err := json.Marshal(tag.definition(asTexts))
				if err != nil {
					t.Fatal(err)
				}
				var again Tag
				if err := json.Unmarshal(written, &again); err != nil || len(again.Resources) != len(tag.Resources) || again.Name != tag.Name {
					t.Errorf("%v: %s", err, written)
				}
			}
		}
		var ip IP
		if json.Unmarshal(raw, &ip) == nil {
			if a, is := ip.Addr(); is && (!a.IsValid() || a.Zone() != "") {
				t.Error(a)
			}
		}
		_ = json.Unmarshal(raw, new(Subscription))
		_ = json.Unmarshal(raw, new(page))
		_ = json.Unmarshal(raw, new(grant))
	})
}
