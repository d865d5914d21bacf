package cloudscale

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// attempts of one call. What does not pass in this time is better waited for
	// by the caller, who has other things to do.
	attempts = 3
	// firstPause before the second attempt, twice as much before the next; half
	// of each is at random. A call never pauses longer than pauseMost.
	firstPause = 300 * time.Millisecond
	pauseMost  = time.Second

	// bodyMost is more than the servers of any project need.
	bodyMost      = 64 << 20
	errorBodyMost = 64 << 10
)

// call is one call of the API.
type call struct {
	method, kind string
	path, query  string
	in, out      any // nil: no body
}

func (c call) writes() bool { return c.method != http.MethodGet }

// transport does calls.
type transport struct {
	base    string
	token   *Token
	timeout time.Duration
	http    *http.Client
	metrics *metrics
}

func newTransport(o Options) (*transport, error) {
	if o.Token == nil {
		return nil, fmt.Errorf("no %s configured", EnvToken)
	}
	base, err := baseURL(o.URL)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, err
	}
	next := o.HTTP
	if next == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = own.MaxIdleConns // there is only one
		next = own
	}
	return &transport{
		base: base, token: o.Token, timeout: cmp.Or(o.Timeout, defaultTimeout), metrics: m,
		http: &http.Client{
			Transport: next,
			// A redirect would turn a POST into a GET. There are none.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// do does a call, and a failed one again if that is of use and harmless.
func (t *transport) do(ctx context.Context, c call) error {
	var body []byte
	if c.in != nil {
		var err error
		if body, err = json.Marshal(c.in); err != nil {
			return fmt.Errorf("write body of %s %s: %w", c.method, c.path, err)
		}
	}
	for n := 1; ; n++ {
		err := t.attempt(ctx, c, body)
		if err == nil {
			return nil
		}
		pause, again := pauseBefore(err, n)
		if !again || !wait(ctx, pause) {
			return err
		}
	}
}

// pauseBefore says how long to pause after the nth attempt, and whether there is
// to be another one. A busy load balancer is busy for longer than any pause.
func pauseBefore(err *Error, n int) (time.Duration, bool) {
	passing := err.Status == 0 || err.Status == http.StatusTooManyRequests || err.Status >= 500
	if n == attempts || !passing || err.OutcomeUnknown || errors.Is(err.cause, context.DeadlineExceeded) || err.retryAfter > pauseMost {
		return 0, false
	}
	if err.retryAfter > 0 {
		return err.retryAfter, true
	}
	pause := firstPause << (n - 1)
	return pause/2 + rand.N(pause/2), true
}

// wait says whether ctx lasted for so long.
func wait(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// attempt does a call once.
func (t *transport) attempt(ctx context.Context, c call, body []byte) *Error {
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	began := time.Now()
	failed := &Error{Method: c.method, Path: "/v1/" + c.path}

	// From when it is sent on the cloud may do it. A transport that tells nothing
	// may have sent it at any time.
	var told, sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { told.Store(true) },
		WroteHeaders: func() { sent.Store(true) },
	})
	token := t.token.current()
	resp, err := t.send(ctx, c, body, token)
	if err != nil {
		t.metrics.observe(c, "none", began)
		failed.cause = err
		dial, _ := errors.AsType[*net.OpError](err)
		unsent := told.Load() || dial != nil && dial.Op == "dial"
		failed.OutcomeUnknown = c.writes() && (sent.Load() || !unsent)
		return failed
	}
	defer func() { _ = resp.Body.Close() }()
	t.metrics.observe(c, strconv.Itoa(resp.StatusCode), began)

	failed.Status = resp.StatusCode
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// A body that cannot be read must not hide the status.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, errorBodyMost))
		failed.Messages = messages([]byte(strings.ReplaceAll(string(text), token, mask(token))))
		failed.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		failed.OutcomeUnknown = c.writes() && outcomeUnknown(resp.StatusCode)
		return failed
	}
	if c.out == nil {
		return nil
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, bodyMost))
	if err == nil {
		err = json.Unmarshal(answer, c.out)
	}
	if err != nil {
		failed.cause = fmt.Errorf("read answer: %w", err)
		failed.OutcomeUnknown = c.writes() // done; but what it is called is lost
		return failed
	}
	return nil
}

func (t *transport) send(ctx context.Context, c call, body []byte, token string) (*http.Response, error) {
	address := t.base + "v1/" + c.path
	if c.query != "" {
		address += "?" + c.query
	}
	req, err := http.NewRequestWithContext(ctx, c.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "fairlead")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return t.http.Do(req)
}

// outcomeUnknown tells whether a write with this answer may have been done. In
// maintenance (503) it was not; what stands before the API answers 502 and 504
// when it lost it, and 500 is anything.
func outcomeUnknown(status int) bool {
	return status >= 500 && status != http.StatusServiceUnavailable && status != http.StatusNotImplemented
}

// retryAfterMost is believed: whoever asks for a day meant something else.
const retryAfterMost = 10 * time.Minute

// retryAfter reads the header of this name: seconds, or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if s, err := strconv.Atoi(header); err == nil {
		return min(time.Duration(min(max(s, 0), int(retryAfterMost/time.Second)))*time.Second, retryAfterMost)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), retryAfterMost)
	}
	return 0
}
