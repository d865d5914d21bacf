package ovsdb

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// dialTimeout is for one endpoint, with the TLS handshake.
	dialTimeout = 3 * time.Second
	// writeTimeout is how long the server may not read.
	writeTimeout = 10 * time.Second
	// callTimeout is for calls whose context has no deadline.
	callTimeout = 10 * time.Second
	// maxMessage is the longest message, in bytes: 100,000 load balancers with hundreds
	// of backends.
	maxMessage = 512 << 20
)

// ErrClosed says that the connection ended before an answer came.
var ErrClosed = errors.New("connection closed")

// message is any of JSON-RPC 1.0.
type message struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// answer is called by the reader with the reply to a call, before it reads on.
type answer func(result json.RawMessage, err error)

// conn is one JSON-RPC connection. Messages are handled in their order.
type conn struct {
	net net.Conn
	// notified gets update2 notifications: the monitor's name and what changed.
	notified func(monitor string, updates json.RawMessage) error
	heard    atomic.Int64 // when the last message came, in nanoseconds since 1970

	writing sync.Mutex

	mu      sync.Mutex
	last    uint64
	pending map[uint64]answer
	err     error // why it ended
	ended   chan struct{}
}

func newConn(c net.Conn, notified func(string, json.RawMessage) error) *conn {
	out := &conn{net: c, notified: notified, pending: map[uint64]answer{}, ended: make(chan struct{})}
	out.heard.Store(time.Now().UnixNano())
	return out
}

// close ends the connection; the first reason counts.
func (c *conn) close(why error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = why
	pending := c.pending
	c.pending = nil
	close(c.ended)
	c.mu.Unlock()
	_ = c.net.Close()
	for _, a := range pending {
		a(nil, fmt.Errorf("%w: %w", ErrClosed, why))
	}
}

// why the connection ended; nil if it has not.
func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// read handles messages until the connection ends.
func (c *conn) read() {
	limited := &io.LimitedReader{R: bufio.NewReaderSize(c.net, 64<<10)}
	d := json.NewDecoder(limited)
	for {
		limited.N = maxMessage
		var m message
		err := d.Decode(&m)
		if err == nil {
			c.heard.Store(time.Now().UnixNano())
			err = c.handle(&m)
		}
		if err != nil {
			if limited.N <= 0 {
				err = fmt.Errorf("the server sends a message of more than %d bytes", maxMessage)
			}
			c.close(err)
			return
		}
	}
}

func (c *conn) handle(m *message) error {
	switch m.Method {
	case "":
		id, err := strconv.ParseUint(string(m.ID), 10, 64)
		if err != nil {
			return fmt.Errorf("reply to unknown call %s", m.ID)
		}
		c.mu.Lock()
		a := c.pending[id]
		delete(c.pending, id)
		c.mu.Unlock()
		if a == nil {
			return nil // nobody waits for it any more
		}
		if len(m.Error) > 0 && !bytes.Equal(m.Error, []byte("null")) {
			a(nil, fmt.Errorf("the server answers: %s", m.Error))
			return nil
		}
		a(m.Result, nil)
		return nil
	case "echo":
		return c.send(map[string]any{"id": m.ID, "result": m.Params, "error": nil})
	case "update2":
		var params []json.RawMessage
		var monitor string
		if err := json.Unmarshal(m.Params, &params); err != nil || len(params) != 2 {
			return fmt.Errorf("notification with parameters %.100s", m.Params)
		}
		if err := json.Unmarshal(params[0], &monitor); err != nil {
			return fmt.Errorf("notification of monitor %.100s", params[0])
		}
		return c.notified(monitor, params[1])
	default:
		return nil // locks and the like, which were not asked for
	}
}

func (c *conn) send(m any) error {
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.net.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err = c.net.Write(data)
	return err
}

// start sends a call. a is called once, unless start fails or forget is called first.
func (c *conn) start(method string, params any, a answer) (forget func(), err error) {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return nil, fmt.Errorf("%w: %w", ErrClosed, c.err)
	}
	c.last++
	id := c.last
	c.pending[id] = a
	c.mu.Unlock()
	forget = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pending, id)
	}
	if err := c.send(map[string]any{"method": method, "params": params, "id": id}); err != nil {
		forget()
		c.close(err) // what was sent in part cannot be taken back
		return nil, fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return forget, nil
}

// call sends a call and waits for its result. in, if not nil, is called by the reader
// with the result before it reads on.
func (c *conn) call(ctx context.Context, method string, params any, in func(json.RawMessage) error) (json.RawMessage, error) {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	type reply struct {
		result json.RawMessage
		err    error
	}
	replies := make(chan reply, 1)
	forget, err := c.start(method, params, func(result json.RawMessage, err error) {
		if err == nil && in != nil {
			err = in(result)
		}
		replies <- reply{result, err}
	})
	if err != nil {
		return nil, err
	}
	select {
	case r := <-replies:
		if r.err != nil {
			return nil, fmt.Errorf("%s: %w", method, r.err)
		}
		return r.result, nil
	case <-ctx.Done():
		forget()
		return nil, fmt.Errorf("%s: no answer: %w", method, context.Cause(ctx))
	}
}
