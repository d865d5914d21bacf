package bgp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// write sends messages in one go.
func (c *conversation) write(ctx context.Context, messages ...[]byte) *Failure {
	if len(messages) == 0 {
		return nil
	}
	wait := c.agreed.Hold
	if wait == 0 {
		wait = writeWait
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(wait))
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errFreeze) { // or the deadline above hides that
		return ended(ctx)
	}
	n, err := c.conn.Write(bytes.Join(messages, nil))
	c.s.transmitted(messages)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		c.broken = n > 0
		return ended(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.broken = true
		return &Failure{Kind: Stuck, Text: fmt.Sprintf("the router has not taken anything for %v", wait)}
	default:
		c.broken = true
		// The router may have said why before it closed the connection.
		if f := c.lastWords(); f != nil {
			return f
		}
		return closed(err)
	}
}

// lastWords waits a moment for a NOTIFICATION of a router that has closed the connection.
func (c *conversation) lastWords() *Failure {
	timer := time.NewTimer(farewellWait)
	defer timer.Stop()
	for {
		select {
		case m, ok := <-c.heard:
			if !ok {
				return nil
			}
			if m.kind == typeNotification {
				return readNotification(m.body)
			}
		case <-timer.C:
			return nil
		}
	}
}

// say sends a last message, whether or not it arrives.
func (c *conversation) say(wait time.Duration, message []byte) {
	_ = c.conn.SetWriteDeadline(time.Now().Add(wait))
	if _, err := c.conn.Write(message); err == nil {
		c.s.transmitted([][]byte{message})
	}
}

// lost says why nothing more can be heard.
func (c *conversation) lost() *Failure {
	var f *Failure
	if errors.As(c.readErr, &f) {
		return f
	}
	return closed(c.readErr)
}

func closed(err error) *Failure {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, net.ErrClosed):
		return &Failure{Kind: Closed, Text: "the router closed the connection without a reason"}
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &Failure{Kind: Closed, Text: "the router reset the connection without a reason"}
	default:
		return &Failure{Kind: Closed, Text: fmt.Sprintf("the connection to the router broke: %v", cause(err))}
	}
}

func (s *session) received(kind byte, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Received.count(kind, size)
}

func (s *session) transmitted(messages [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range messages {
		s.status.Sent.count(m[headerSize-1], len(m))
	}
}
