package cloudscale

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/cloud"
)

// Times to come back after, where the cloud does not say.
const (
	busyPause        = 5 * time.Second
	maintenancePause = 15 * time.Second
)

// What a status and a body mean to the caller.
func TestErrors(t *testing.T) {
	create := func(ctx context.Context, c *Client) error {
		_, err := c.LoadBalancers.Create(ctx, NewLoadBalancer{Name: "x"})
		return err
	}
	remove := func(ctx context.Context, c *Client) error { return c.LoadBalancers.Delete(ctx, "lb") }
	list := func(ctx context.Context, c *Client) error { _, err := c.Pools.List(ctx, nil); return err }
	for _, test := range []struct {
		name   string
		call   func(context.Context, *Client) error
		status int
		after  string // Retry-After
		body   string
		is     string // the predicates that hold
		again  time.Duration
		detail string
	}{
		{"not found", remove, 404, "", `{"detail": "Not found."}`, "notFound", 0, "Not found."},
		{"not found without JSON", remove, 404, "", `<html>nothing   here</html>`, "notFound", 0, "<html>nothing here</html>"},
		{"not found without a word", list, 404, "", ``, "notFound", 0, ""},
		{"field", create, 400, "", `{"flavor": "\"x\" is not a valid choice.", "name": "This field is required"}`, "invalid", 0, `flavor: "x" is not a valid choice.; name: This field is required`},
		{"fields with lists", create, 400, "", `{"flavor": ["a", "b"], "zone": {"slug": "?"}}`, "invalid", 0, `flavor: a b; zone: {"slug": "?"}`},
		{"detail", create, 400, "", `{"detail": "The host argument can not be used with HTTP version 1.0"}`, "invalid", 0, "The host argument can not be used with HTTP version 1.0"},
		{"busy", create, 400, "", `{"detail": "The load balancer is currently changing."}`, "busy", busyPause, "The load balancer is currently changing."},
		{"busy for a while", create, 400, "7", `{"detail": "Busy"}`, "busy", 7 * time.Second, "Busy"},
		{"delete while changing", remove, 400, "", `{"detail": "Not now"}`, "busy", busyPause, "Not now"},
		{"conflict", create, 409, "", ``, "busy", busyPause, ""},
		{"token", list, 401, "", `{"detail": "Invalid token."}`, "unauthorized", 0, "Invalid token."},
		{"read-only token", create, 403, "", `{"detail": "Read only."}`, "forbidden", 0, "Read only."},
		{"maintenance", create, 503, "120", `{"detail": "Maintenance"}`, "", 2 * time.Minute, "Maintenance"},
		{"maintenance in HTML", list, 503, "", `<h1>back soon</h1>`, "", maintenancePause, "<h1>back soon</h1>"},
		{"too many", create, 429, "30", `{"detail": "Throttled"}`, "", 30 * time.Second, "Throttled"},
		{"server error of a read", list, 500, "", `oops`, "", maintenancePause, "oops"},
		{"server error of a write", create, 500, "", `oops`, "unknown", maintenancePause, "oops"},
		{"gateway timeout of a write", remove, 504, "", ``, "unknown", maintenancePause, ""},
		{"redirect", create, 302, "", ``, "", 0, ""},
		{"created, but what", create, 201, "", `<html>`, "unknown", busyPause, ""},
		{"created, but cut off", create, 201, "", `{"uuid": "x`, "unknown", busyPause, ""},
		{"list that is none", list, 200, "", `{"count": 3}`, "", 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := scripted(t, func(*http.Request) (*http.Response, error) {
					header := http.Header{"Location": {"/elsewhere"}}
					if test.after != "" {
						header.Set("Retry-After", test.after)
					}
					return answer(test.status, header, test.body), nil
				})
				began := time.Now()
				err := test.call(t.Context(), c)
				e, ok := errors.AsType[*cloud.Error](err)
				if !ok {
					t.Fatalf("error %v", err)
				}
				if e.Status != test.status {
					t.Errorf("status %d, want %d", e.Status, test.status)
				}
				if got := predicates(err); got != test.is {
					t.Errorf("is %q, want %q", got, test.is)
				}
				if e.Detail() != test.detail {
					t.Errorf("detail %q, want %q", e.Detail(), test.detail)
				}
				if again, ok := cloud.RetryAfter(err); again != test.again || ok != (test.again > 0) {
					t.Errorf("retry after %v %v, want %v", again, ok, test.again)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

func predicates(err error) string {
	var out []string
	for _, p := range []struct {
		name string
		is   func(error) bool
	}{{"notFound", cloud.IsNotFound}, {"busy", cloud.IsBusy}, {"invalid", cloud.IsInvalid}, {"forbidden", cloud.IsForbidden}, {"unauthorized", cloud.IsUnauthorized}, {"unknown", cloud.IsOutcomeUnknown}} {
		if p.is(err) {
			out = append(out, p.name)
		}
	}
	return strings.Join(out, ",")
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	return f(r)
}

// scripted is a client without a network, for tests that need a clock.
func scripted(t *testing.T, f roundTripper) *Client {
	t.Helper()
	token, err := cloud.NewToken(testToken)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Token: token, HTTP: f})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func answer(status int, header http.Header, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}
