package ovsdb

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.io/test/kit/netns"
	"fairlead.io/test/kit/northbound"
)

// deafened is a server whose answers can be held back, while it goes on to hear what
// clients say.
type deafened struct {
	endpoint string
	holding  atomic.Bool
}

func behind(t *testing.T, s *northbound.Server) *deafened {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxy")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	d := &deafened{endpoint: "unix:" + path}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", s.Socket())
			if err != nil {
				_ = client.Close()
				continue
			}
			serving.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			serving.Go(func() { d.answer(client, server); _ = client.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); serving.Wait() })
	return d
}

// answer passes on what the server says, unless it is held back.
func (d *deafened) answer(client io.Writer, server io.Reader) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		if d.holding.Load() {
			continue
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// A transaction whose answer does not come may have been committed. When that is
// reported, what was known of the database is void already, and is read again.
func TestOutcomeIsUnknown(t *testing.T) {
	s := northbound.Start(t)
	d := behind(t, s)
	c, h := start(t, TLSFiles{}, d.endpoint)
	netns.Eventually(t, time.Minute, "connected", func() bool { return h.times() == 1 })
	d.holding.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := c.Transact(ctx, Insert("Logical_Switch", "", Row{"name": "x"}))
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a transaction without an answer: %v", err)
	}
	h.mu.Lock()
	if len(h.ended) != 1 {
		t.Error("the caller may go on with what was known before the transaction")
	}
	h.mu.Unlock()
	d.holding.Store(false)
	netns.Eventually(t, time.Minute, "connected again", func() bool { return h.times() == 2 })
	if got := s.Ctl("--bare", "--columns=name", "list", "Logical_Switch"); got != "x\n" {
		t.Errorf("switches %q", got)
	}
}

// The same when the connection is lost before the answer comes.
func TestConnectionIsLostInATransaction(t *testing.T) {
	s := northbound.Start(t)
	d := behind(t, s)
	c, h := start(t, TLSFiles{}, d.endpoint)
	netns.Eventually(t, time.Minute, "connected", func() bool { return h.times() == 1 })
	d.holding.Store(true)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Transact(t.Context(), Insert("Logical_Switch", "", Row{"name": "x"}))
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.ended) != 1 {
			err = errors.New("the caller may go on with what was known before the transaction")
		}
		failed <- err
	}()
	netns.Eventually(t, time.Minute, "committed", func() bool { return s.Ctl("--bare", "--columns=name", "list", "Logical_Switch") == "x\n" })
	s.Kill()
	if err := <-failed; !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrClosed) {
		t.Errorf("a transaction without an answer: %v", err)
	}
}
