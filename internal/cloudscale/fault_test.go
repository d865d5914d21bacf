package cloudscale

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
		{"read-only token", create, 403, "", `{"detail": "Read only."}`, "readOnly", 0, "Read only."},
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
				e, ok := errors.AsType[*Error](err)
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
				if again, ok := RetryAfter(err); again != test.again || ok != (test.again > 0) {
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
	}{{"notFound", IsNotFound}, {"busy", IsBusy}, {"invalid", IsInvalid}, {"readOnly", IsReadOnly}, {"unauthorized", IsUnauthorized}, {"unknown", IsOutcomeUnknown}} {
		if p.is(err) {
			out = append(out, p.name)
		}
	}
	return strings.Join(out, ",")
}

// How often a call is done until it succeeds or is given up, and how long that
// takes.
func TestAttempts(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, test := range []struct {
		name   string
		writes bool
		script []any // statuses, with "+n" for Retry-After, or errors
		calls  int
		fails  bool
		within [2]time.Duration
	}{
		{"at once", true, []any{"201"}, 1, false, [2]time.Duration{0, 0}},
		{"too many, once", true, []any{"429", "201"}, 2, false, [2]time.Duration{150 * time.Millisecond, 300 * time.Millisecond}},
		{"the cloud says how long", true, []any{"503+1", "201"}, 2, false, [2]time.Duration{time.Second, time.Second}},
		{"longer than a worker should wait", true, []any{"503+2", "201"}, 1, true, [2]time.Duration{0, 0}},
		{"three times", false, []any{"500", "502", "503", "200"}, 3, true, [2]time.Duration{450 * time.Millisecond, 900 * time.Millisecond}},
		{"a write of unknown outcome is not repeated", true, []any{"502", "201"}, 1, true, [2]time.Duration{0, 0}},
		{"nor what is refused", true, []any{"400", "201"}, 1, true, [2]time.Duration{0, 0}},
		{"nor what the token may not do", false, []any{"403", "200"}, 1, true, [2]time.Duration{0, 0}},
		{"a write that was not sent", true, []any{refused, refused, "201"}, 3, false, [2]time.Duration{450 * time.Millisecond, 900 * time.Millisecond}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				c := scripted(t, func(*http.Request) (*http.Response, error) {
					step := test.script[calls]
					calls++
					if err, ok := step.(error); ok {
						return nil, err
					}
					status, after, _ := strings.Cut(step.(string), "+")
					body := `{"detail": "x"}`
					if status == "200" {
						body = "[]"
					}
					code := map[string]int{"200": 200, "201": 201, "400": 400, "403": 403, "429": 429, "500": 500, "502": 502, "503": 503}[status]
					return answer(code, http.Header{"Retry-After": {after}}, body), nil
				})
				began := time.Now()
				var err error
				if test.writes {
					_, err = c.Pools.Create(t.Context(), NewPool{})
				} else {
					_, err = c.Pools.List(t.Context(), nil)
				}
				if (err != nil) != test.fails {
					t.Errorf("error %v, want one: %v", err, test.fails)
				}
				if calls != test.calls {
					t.Errorf("%d calls, want %d", calls, test.calls)
				}
				if took := time.Since(began); took < test.within[0] || took > test.within[1] {
					t.Errorf("took %v, want %v", took, test.within)
				}
			})
		})
	}
}

// The cloud has done what was asked, but its answer does not come.
func TestTimeoutAfterCommit(t *testing.T) {
	var done atomic.Int32
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		done.Add(1)
		<-r.Context().Done()
	})
	c.transport.timeout = 50 * time.Millisecond
	_, err := c.LoadBalancers.Create(t.Context(), NewLoadBalancer{Name: "x"})
	if !IsOutcomeUnknown(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if n := done.Load(); n != 1 {
		t.Errorf("%d creations", n)
	}
	if _, again := RetryAfter(err); !again {
		t.Error("not to be tried again")
	}
	if _, err = c.LoadBalancers.List(t.Context(), nil); IsOutcomeUnknown(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read: %v", err)
	}
}

// The connection breaks before the answer.
func TestConnectionLost(t *testing.T) {
	var calls atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	})
	if err := c.Listeners.Patch(t.Context(), "l", ListenerPatch{}); !IsOutcomeUnknown(err) || calls.Load() != 1 {
		t.Errorf("%d writes: %v", calls.Load(), err)
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	token, _ := NewToken(testToken)
	c, err := New(Options{Token: token, URL: "http://" + address, HTTP: &http.Transport{}})
	if err != nil {
		t.Fatal(err)
	}
	err = c.LoadBalancers.Delete(t.Context(), "lb")
	if e, ok := errors.AsType[*Error](err); !ok || e.Status != 0 || e.OutcomeUnknown {
		t.Errorf("error %v", err)
	}
	if _, again := RetryAfter(err); !again {
		t.Error("not to be tried again")
	}
}

// A context that ends, ends the call, also in a pause.
func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := scripted(t, func(*http.Request) (*http.Response, error) {
			return answer(503, http.Header{"Retry-After": {"1"}}, ""), nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, cancel)
		began := time.Now()
		_, err := c.Pools.List(ctx, nil)
		if e, ok := errors.AsType[*Error](err); !ok || e.Status != 503 {
			t.Errorf("error %v", err)
		}
		if took := time.Since(began); took != 200*time.Millisecond {
			t.Errorf("took %v", took)
		}
		// A pause that would outlast the context is not begun.
		soon, stop := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer stop()
		began = time.Now()
		if _, err = c.Pools.List(soon, nil); err == nil || time.Since(began) != 0 {
			t.Errorf("took %v: %v", time.Since(began), err)
		}
	})
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
	token, err := NewToken(testToken)
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
