package cloudsigma

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	sim "fairlead.io/sandbox/cloudsigma"
)

// Lists are whole, whatever the cloud likes to return at once.
func TestListsAreWhole(t *testing.T) {
	for _, page := range []int{0, 1, 7, 20, 25, 26} {
		s, c := simulated(t, sim.Knobs{MaxPage: page})
		for i := range 25 {
			node(t, s, fmt.Sprint("node", i), "dhcp")
			s.AddTag(fmt.Sprint("tag", i), addr1.String())
		}
		servers, err := c.Servers.List(t.Context())
		if err != nil || len(servers) != 25 {
			t.Errorf("%d servers, %v", len(servers), err)
		}
		tags, err := c.Tags.List(t.Context())
		if err != nil || len(tags) != 25 || !tags[24].Has(addr1.String()) {
			t.Errorf("%d tags, %v", len(tags), err)
		}
		ips, err := c.IPs.List(t.Context())
		if err != nil || len(ips) != 28 {
			t.Errorf("%d IPs, %v", len(ips), err)
		}
		subs, err := c.Subscriptions.List(t.Context())
		if err != nil || len(subs) != 3 || subs[0].ID == "" || subs[0].EndTime.IsZero() || subs[0].Object != addr1.String() || !subs[0].AutoRenew || subs[0].Status != Active || subs[0].Resource != ResourceIP {
			t.Errorf("subscriptions %+v, %v", subs, err)
		}
		at := slices.IndexFunc(ips, func(ip IP) bool { return ip.UUID == addr1.String() })
		if ip := ips[at]; !ip.Subscribed() || ip.Subscription.ID != subs[0].ID || ip.Server != nil {
			t.Errorf("IP %+v", ip)
		}
	}
}

// A tag that is taken for empty would lose what others have put on it.
func TestTagListsWithoutResources(t *testing.T) {
	s, c := simulated(t, sim.Knobs{TagLists: "detail"})
	s.AddTag("a", addr1.String())
	for range 2 {
		tags, err := c.Tags.List(t.Context())
		if err != nil || len(tags) != 1 || !tags[0].Has(addr1.String()) {
			t.Errorf("%+v, %v", tags, err)
		}
	}
	if log := s.Log(); len(log) != 3 {
		t.Errorf("%d calls: where the resources are was not remembered", len(log))
	}
	c = scripted(t, func(*http.Request) (*http.Response, error) {
		return answer(200, `{"meta":{"total_count":1},"objects":[{"uuid":"x","name":"a"}]}`), nil
	})
	if tags, err := c.Tags.List(t.Context()); err == nil {
		t.Errorf("%+v", tags)
	}
}

func answer(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// What is not the whole list is an error, not a short list.
func TestNoList(t *testing.T) {
	for _, test := range []struct {
		name  string
		pages map[string]string // by offset
		want  int               // -1: an error
	}{
		{"a list", map[string]string{"": `{"meta":{"total_count":2},"objects":[{"uuid":"a"},{"uuid":"b"}]}`}, 2},
		{"no count", map[string]string{"": `{"objects":[{"uuid":"a"}]}`}, 1},
		{"empty", map[string]string{"": `{"meta":{"total_count":0},"objects":[]}`}, 0},
		{"an error array", map[string]string{"": `[{"error_type":"x"}]`}, -1},
		{"an object", map[string]string{"": `{"uuid":"a"}`}, -1},
		{"nothing", map[string]string{"": `null`}, -1},
		{"HTML", map[string]string{"": `<html>`}, -1},
		{"the rest is missing", map[string]string{"": `{"meta":{"total_count":2},"objects":[{"uuid":"a"}]}`, "1": `{"meta":{"total_count":2},"objects":[]}`}, -1},
		{"it changes all the time", map[string]string{"": `{"meta":{"total_count":2},"objects":[{"uuid":"a"}]}`, "1": `{"meta":{"total_count":3},"objects":[{"uuid":"b"}]}`}, -1},
		{"an object twice", map[string]string{"": `{"meta":{"total_count":2},"objects":[{"uuid":"a"}]}`, "1": `{"meta":{"total_count":2},"objects":[{"uuid":"a"}]}`}, -1},
		{"two pages", map[string]string{"": `{"meta":{"total_count":2},"objects":[{"uuid":"a"}]}`, "1": `{"meta":{"total_count":2},"objects":[{"uuid":"b"}]}`}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := scripted(t, func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("limit") != "0" {
					t.Errorf("asked for %s", r.URL)
				}
				return answer(200, test.pages[r.URL.Query().Get("offset")]), nil
			})
			all, err := c.Servers.List(t.Context())
			if (err != nil) != (test.want < 0) || err == nil && len(all) != test.want {
				t.Errorf("%v, %v", all, err)
			}
		})
	}
}

// An answer about another object is not taken for the one that was asked for.
func TestAnotherObject(t *testing.T) {
	for _, body := range []string{`{"uuid":"b"}`, `{}`, `{"error_type":"x"}`, `null`} {
		c := scripted(t, func(*http.Request) (*http.Response, error) { return answer(200, body), nil })
		if server, err := c.Servers.Get(t.Context(), "a"); err == nil {
			t.Errorf("%s: %+v", body, server)
		}
		if server, err := c.Servers.Change(t.Context(), "a", func(s *Server) error { s.Attach(addr1); return nil }); err == nil {
			t.Errorf("%s: %+v", body, server)
		}
	}
	if _, err := new(Collection[IP]).Get(t.Context(), ""); err == nil {
		t.Error("no ID")
	}
}
