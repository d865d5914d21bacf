package cloud

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
					err = create(t.Context(), c)
				} else {
					err = list(t.Context(), c)
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
	c.timeout = time.Second // in which the request arrives, on a busy machine, too
	err := create(t.Context(), c)
	if !IsOutcomeUnknown(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if n := done.Load(); n != 1 {
		t.Errorf("%d creations", n)
	}
	if _, again := RetryAfter(err); !again {
		t.Error("not to be tried again")
	}
	if err = list(t.Context(), c); IsOutcomeUnknown(err) || !errors.Is(err, context.DeadlineExceeded) {
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
	if err := create(t.Context(), c); !IsOutcomeUnknown(err) || calls.Load() != 1 {
		t.Errorf("%d writes: %v", calls.Load(), err)
	}
}

func TestNobodyListens(t *testing.T) {
	// A port that no program gets by chance.
	c := New(Options{Auth: bearer(t), URL: "http://127.0.0.1:1/", HTTP: &http.Transport{}})
	err := create(t.Context(), c)
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
		err := list(ctx, c)
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
		if err = list(soon, c); err == nil || time.Since(began) != 0 {
			t.Errorf("took %v: %v", time.Since(began), err)
		}
	})
}
