package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead.io/test/kit/leak"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMain(m *testing.M) { leak.Main(m) }

const testToken = "abcdefghijklmnopqrstuvwxyz012345"

func bearer(t *testing.T) Bearer {
	t.Helper()
	token, err := NewToken(testToken)
	if err != nil {
		t.Fatal(err)
	}
	return Bearer{token}
}

// serve is a client of an API that answers as handler does.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return New(Options{Auth: bearer(t), URL: server.URL + "/", HTTP: transport})
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
	return New(Options{Auth: bearer(t), URL: "http://cloud/", HTTP: f})
}

func answer(status int, header http.Header, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

func create(ctx context.Context, c *Client) error {
	var made map[string]string
	return c.Do(ctx, Call{Method: http.MethodPost, Kind: "thing", Path: "things/", In: map[string]string{"name": "x"}, Out: &made})
}

func list(ctx context.Context, c *Client) error {
	var all []string
	return c.Do(ctx, Call{Method: http.MethodGet, Kind: "thing", Path: "things/", Query: "limit=0", Out: &all})
}

func TestRequest(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Authorization"), " ", r.Header.Get("Content-Type"), " ", string(body)))
		_, _ = io.WriteString(w, map[string]string{http.MethodGet: `["a"]`, http.MethodPost: `{"name": "x"}`}[r.Method])
	})
	if err := errors.Join(list(t.Context(), c), create(t.Context(), c)); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GET /things/?limit=0 Bearer " + testToken + "  ",
		"POST /things/ Bearer " + testToken + ` application/json {"name":"x"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is said of an error by its status, and by the cloud's own way to say it.
func TestErrors(t *testing.T) {
	explain := func(e *Error, body []byte) {
		e.Messages = Plain(body)
		e.Busy = strings.Contains(string(body), "busy")
	}
	for _, test := range []struct {
		status  int
		explain func(*Error, []byte)
		body    string
		is      func(error) bool
		again   bool
		text    string
	}{
		{404, nil, "not   here", IsNotFound, false, "POST /things/: 404: not here"},
		{401, nil, "", IsUnauthorized, false, "POST /things/: 401 Unauthorized"},
		{403, nil, "", IsForbidden, false, "POST /things/: 403 Forbidden"},
		{400, nil, "busy", IsInvalid, false, "POST /things/: 400: busy"},
		{400, explain, "busy", IsBusy, true, "POST /things/: 400: busy"},
		{409, explain, "", IsBusy, true, "POST /things/: 409 Conflict"},
		{500, explain, "", IsOutcomeUnknown, true, "POST /things/: 500 Internal Server Error"},
	} {
		c := scripted(t, func(*http.Request) (*http.Response, error) { return answer(test.status, nil, test.body), nil })
		if test.explain != nil {
			c.explain = test.explain
		}
		err := create(t.Context(), c)
		if !test.is(err) || err.Error() != test.text {
			t.Errorf("%d %s: %v", test.status, test.body, err)
		}
		if _, again := RetryAfter(err); again != test.again {
			t.Errorf("%d %s: to be tried again: %v", test.status, test.body, again)
		}
	}
	if _, again := RetryAfter(errors.New("other")); again {
		t.Error("an error of somebody else is to be tried again")
	}
}

// passwords is another way to authenticate.
type passwords struct{ user, password string }

func (p passwords) Authorize(_ context.Context, r *http.Request) ([]string, error) {
	if p.password == "" {
		return nil, &Error{Method: http.MethodPost, Path: "/token", Status: http.StatusUnauthorized}
	}
	r.SetBasicAuth(p.user, p.password)
	return []string{p.password}, nil
}

// Authentication is a value: the client does not know which way it is.
func TestOtherAuth(t *testing.T) {
	calls := 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		user, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "%s may not do this with %s", user, password)
	})
	c.auth = passwords{"me", "correct horse"}
	if err := create(t.Context(), c); !IsForbidden(err) || !strings.Contains(err.Error(), "me may not do this with corr*********") {
		t.Errorf("error %v", err)
	}
	// A call that cannot be authorized is not sent, and fails as the server that
	// gives the tokens has answered.
	c.auth = passwords{"me", ""}
	if err := create(t.Context(), c); !IsUnauthorized(err) || IsOutcomeUnknown(err) || calls != 1 {
		t.Errorf("%d calls, error %v", calls, err)
	}
}

func TestMask(t *testing.T) {
	for token, want := range map[string]string{
		testToken: "abcd" + strings.Repeat("*", 28),
		"abcd":    "abcd",
		"abc":     "",
		"":        "",
	} {
		if got := mask(token); got != want {
			t.Errorf("%q is %q, want %q", token, got, want)
		}
	}
}

// A token in a file may be replaced; while there is none, the last one is used.
func TestTokenFileIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	token, err := TokenFromEnv(func(name string) string { return map[string]string{"TOKEN_FILE": file}[name] }, "TOKEN")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		_, _ = io.WriteString(w, "[]")
	})
	c.auth = Bearer{token}
	for _, change := range []func(){func() {}, func() { write("second\n") }, func() { write("") }, func() { _ = os.Remove(file) }, func() { write("third") }} {
		change()
		if err := list(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if want := "first second second second third"; strings.Join(got, " ") != want {
		t.Errorf("tokens %v, want %v", got, want)
	}
}

// Not even an answer that quotes the token brings it into an error.
func TestTokenIsNeverShown(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "who is %s?", r.Header.Get("Authorization"))
	})
	err := list(t.Context(), c)
	for _, shown := range []string{err.Error(), fmt.Sprintf("%+v %#v", err, err), fmt.Sprintf("%v %+v %#v", c.auth, c.auth, c.auth), fmt.Sprintf("%v", Options{Auth: c.auth})} {
		if strings.Contains(shown, testToken[5:]) {
			t.Errorf("shown: %s", shown)
		}
	}
	if !strings.Contains(err.Error(), "abcd****") {
		t.Errorf("error %v", err)
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "[]")
	})
	var err error
	if c.metrics, err = NewMetrics(registry, prometheus.CounterOpts{Name: "requests"}, prometheus.HistogramOpts{Name: "seconds"}); err != nil {
		t.Fatal(err)
	}
	_, _, _ = list(t.Context(), c), list(t.Context(), c), create(t.Context(), c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += " " + l.GetValue()
			}
			n := m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			got = append(got, fmt.Sprint(family.GetName(), labels, " ", n))
		}
	}
	want := []string{"requests 200 thing get 2", "requests 404 thing post 1", "seconds thing get 2", "seconds thing post 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "99999999999999999999", "9223372036854775807", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2999 07:28:00 GMT", "soon"} {
		f.Add(s)
	}
	now := time.Date(2015, 10, 21, 7, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if d := retryAfter(header, now); d < 0 || d > maxRetryAfter {
			t.Errorf("%q is %v", header, d)
		}
	})
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2015, 10, 21, 7, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"120": 2 * time.Minute, "Wed, 21 Oct 2015 07:01:30 GMT": 90 * time.Second,
		"Wed, 21 Oct 2015 06:00:00 GMT": 0, "100000": maxRetryAfter, "soon": 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q is %v, want %v", header, got, want)
		}
	}
}
