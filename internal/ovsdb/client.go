package ovsdb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

const (
	// A round of attempts at all endpoints that fails is repeated after firstBackoff,
	// doubling to maxBackoff. A cluster elects a new leader in one to two seconds.
	firstBackoff = 50 * time.Millisecond
	maxBackoff   = 5 * time.Second
	// setupTimeout is how long a server may take until all monitored rows are here.
	setupTimeout = 30 * time.Second
	// A server that is silent for probeInterval is asked, and is dead if it does not
	// answer within probeTimeout.
	probeInterval = 5 * time.Second
	probeTimeout  = 5 * time.Second
)

// ErrUnavailable says that no server is connected. The text says why.
var ErrUnavailable = errors.New("database unavailable")

// Handler keeps what a monitor reports. Its methods are called one at a time, in the
// order in which the server reports, and must not wait: nothing is received meanwhile.
type Handler interface {
	// Tables chooses what is monitored, by table. An error ends the connection.
	Tables(Schema) (map[string]Monitored, error)
	// Begin gets all rows: what was known of the database before is void.
	Begin(Updates) error
	// Update gets changes. Those of a transaction of ours come before Transact returns.
	Update(Updates) error
	// End says that the connection was lost, after a Begin.
	End(error)
}

// Monitored is what is monitored of a table.
type Monitored struct {
	Columns []string
	// Where limits the rows: one that meets none of the conditions does not exist for the
	// handler. No conditions: all rows.
	Where Where
}

// Options of a client.
type Options struct {
	Database  string
	Endpoints []Endpoint
	TLS       TLSFiles // for endpoints that use TLS
	Handler   Handler
	Log       *slog.Logger
}

// Client keeps one connection to a server: to the leader if they are a cluster. It is
// safe for concurrent use.
type Client struct {
	options Options

	mu      sync.Mutex
	session *session // nil while there is none
	why     error    // why there is none
}

// NewClient makes a client. It connects when it runs.
func NewClient(o Options) *Client {
	return &Client{options: o, why: errors.New("not connected yet")}
}

// Run connects, and connects again whenever the connection is lost, until ctx ends.
func (c *Client) Run(ctx context.Context) {
	var backoff time.Duration
	next := 0
	for ctx.Err() == nil {
		var failures []string
		for range c.options.Endpoints {
			e := c.options.Endpoints[next]
			began, err := c.serve(ctx, e)
			if ctx.Err() != nil {
				return
			}
			if !began.IsZero() {
				c.options.Log.Warn("connection to the database lost", "endpoint", e.String(), "error", err)
				if failures = nil; time.Since(began) > maxBackoff {
					backoff = 0
				}
			}
			failures = append(failures, fmt.Sprintf("%s: %v", e, err))
			next = (next + 1) % len(c.options.Endpoints)
			c.set(nil, errors.New(strings.Join(failures, "; ")))
		}
		backoff = min(max(2*backoff, firstBackoff), maxBackoff)
		pause(ctx, backoff/2+rand.N(backoff/2))
	}
}

// serve is one connection. began is when it was ready for use; zero if it never was.
func (c *Client) serve(ctx context.Context, e Endpoint) (began time.Time, err error) {
	// A handler that has all rows may use them at once.
	s, err := connect(ctx, e, &c.options, func(s *session) { c.set(s, nil) })
	if err != nil {
		return time.Time{}, err
	}
	began = time.Now()
	c.options.Log.Info("connected to the database", "endpoint", e.String(), "schema", s.schema.Version)
	err = s.keep(ctx)
	c.set(nil, err)
	s.end(err)
	return began, err
}

func (c *Client) set(s *session, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.why = s, why
}

// Err is why there is no connection; nil if there is one.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// Transact commits operations, or nothing of them. A TransactionError says that the
// server refused. After any other error they may have been committed, or may be later:
// the connection is closed, and Transact returns when the handler has been told, so that
// nobody takes what it knew for what there is.
func (c *Client) Transact(ctx context.Context, operations ...Operation) ([]Result, error) {
	c.mu.Lock()
	s, why := c.session, c.why
	c.mu.Unlock()
	if s == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, why)
	}
	params := make([]any, 0, len(operations)+1)
	params = append(params, c.options.Database)
	for _, o := range operations {
		params = append(params, o)
	}
	raw, err := s.conn.call(ctx, "transact", params, nil)
	if err == nil {
		var results []Result
		if results, err = parseResults(raw, len(operations)); err == nil || refused(err) {
			return results, err
		}
	}
	s.conn.close(err)
	<-s.over
	return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, s.endpoint, err)
}

func refused(err error) bool {
	_, is := errors.AsType[*TransactionError](err)
	return is
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
