package cloud

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// DefaultTimeout of one attempt of a call.
	DefaultTimeout = 20 * time.Second

	// maxBody is more than the servers of any project need.
	maxBody      = 64 << 20
	maxErrorBody = 64 << 10
)

// Options of a client.
type Options struct {
	// URL of the API, as ParseURL returns it: paths of calls are added to it.
	URL  string
	Auth Auth
	// Timeout of one attempt of a call; 0 is DefaultTimeout.
	Timeout time.Duration
	// Explain reads the body of an unsuccessful answer: it sets Messages,
	// and Busy if the cloud has its own way to say that. Nil: the first words of
	// the body are the message.
	Explain func(e *Error, body []byte)
	// Metrics of the calls; nil: none.
	Metrics *Metrics
	// HTTP does the calls; nil is a transport of its own.
	HTTP http.RoundTripper
}

// Client calls the API of one cloud. It is safe for concurrent use.
type Client struct {
	url     string
	auth    Auth
	timeout time.Duration
	explain func(*Error, []byte)
	metrics *Metrics
	http    *http.Client
}

// New makes a client.
func New(o Options) *Client {
	next := o.HTTP
	if next == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = own.MaxIdleConns // there is only one
		next = own
	}
	explain := o.Explain
	if explain == nil {
		explain = func(e *Error, body []byte) { e.Messages = Plain(body) }
	}
	return &Client{
		url: o.URL, auth: o.Auth, timeout: cmp.Or(o.Timeout, DefaultTimeout), explain: explain, metrics: o.Metrics,
		http: &http.Client{
			Transport: next,
			// A redirect would turn a POST into a GET. There are none.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// URL is where the API is.
func (c *Client) URL() string { return c.url }

// Call is one call of the API.
type Call struct {
	Method string
	Kind   string // of the object, in metrics
	Path   string // below the URL, without a slash at its beginning
	Query  string
	In     any // is sent as JSON; nil: no body
	Out    any // is read from the answer; nil: its body does not matter
	// Secrets in the call that no error may quote, beside the proof of who we are.
	Secrets []string
}

func (c Call) writes() bool { return c.Method != http.MethodGet }

// Do does a call. It repeats a failed one where that may help and does no harm.
func (c *Client) Do(ctx context.Context, call Call) error {
	var body []byte
	if call.In != nil {
		var err error
		if body, err = json.Marshal(call.In); err != nil {
			return fmt.Errorf("write body of %s %s: %w", call.Method, call.Path, err)
		}
	}
	renewed := false
	for n := 1; ; n++ {
		err := c.attempt(ctx, call, body)
		if err == nil {
			return nil
		}
		if err.renewed && !renewed {
			renewed = true
			continue
		}
		pause, again := pauseAfter(err, n)
		if !again || !wait(ctx, pause) {
			return err
		}
	}
}

// attempt does a call once.
func (c *Client) attempt(ctx context.Context, call Call, body []byte) *Error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	began := time.Now()
	failed := &Error{Method: call.Method, Path: "/" + call.Path}

	req, secrets, err := c.request(ctx, call, body)
	if err != nil {
		return failed.unsent(err)
	}
	// Once it is sent, the cloud may do it. A transport that reports nothing may
	// have sent it at any time.
	var reported, sent atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { reported.Store(true) },
		WroteHeaders: func() { sent.Store(true) },
	}))
	resp, err := c.http.Do(req)
	if err != nil {
		c.metrics.observe(call, "none", began)
		failed.cause = err
		dial, _ := errors.AsType[*net.OpError](err)
		unsent := reported.Load() || dial != nil && dial.Op == "dial"
		failed.OutcomeUnknown = call.writes() && (sent.Load() || !unsent)
		return failed
	}
	defer func() { _ = resp.Body.Close() }()
	c.metrics.observe(call, strconv.Itoa(resp.StatusCode), began)

	failed.Status = resp.StatusCode
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		// A body that cannot be read must not hide the status.
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
		c.explain(failed, []byte(Hide(string(text), append(secrets, call.Secrets...)...)))
		if renewer, can := c.auth.(Renewer); can && resp.StatusCode == http.StatusUnauthorized {
			failed.renewed = renewer.Rejected(req)
		}
		failed.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
		failed.OutcomeUnknown = call.writes() && outcomeUnknown(resp.StatusCode)
		return failed
	}
	if call.Out == nil {
		return nil
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(answer, call.Out)
	}
	if err != nil {
		failed.cause = fmt.Errorf("read answer: %w", err)
		failed.OutcomeUnknown = call.writes() // done; but what it is called is lost
		return failed
	}
	return nil
}

// request makes one that is ready to be sent.
func (c *Client) request(ctx context.Context, call Call, body []byte) (*http.Request, []string, error) {
	address := c.url + call.Path
	if call.Query != "" {
		address += "?" + call.Query
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, address, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "fairlead")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	secrets, err := c.auth.Authorize(ctx, req)
	return req, secrets, err
}

// ParseURL returns the URL of an API in the form in which paths are added to it.
// env is the variable that it comes from, and example what it should be like.
func ParseURL(env, value, example string) (string, error) {
	u, err := url.Parse(value)
	if err != nil {
		// The error would quote all of it, and there may be a password in it.
		return "", fmt.Errorf("%s is not a URL", env)
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return "", fmt.Errorf("%s must be like %s", env, example)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New(env + " must have neither a user nor a query")
	}
	return strings.TrimRight(u.String(), "/") + "/", nil
}
