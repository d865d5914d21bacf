package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead.io/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	seatSecret  = []byte("0123456789abcdef0123456789abcdef")
	otherSecret = []byte("another key of as many bytes....")
)

// candidate looks for a seat, and notes what it met.
type seatCandidate struct {
	*seatTaker
	waited  chan struct{}
	strange atomic.Int32
}

func newSeatCandidate(t *testing.T, secret []byte) *seatCandidate {
	c := &seatCandidate{waited: make(chan struct{})}
	c.seatTaker = &seatTaker{
		key: newSeatKey(secret, strings.ReplaceAll(t.Name(), "/", "-")), waits: func() { close(c.waited) }, patience: unprovenPatience,
		unproven: func(why string) { t.Log(why); c.strange.Add(1) },
	}
	return c
}

func (c *seatCandidate) now(t *testing.T) *seat {
	t.Helper()
	s, err := c.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.leave)
	return s
}

func (c *seatCandidate) later(ctx context.Context, t *testing.T) <-chan *seat {
	t.Helper()
	got := make(chan *seat, 1)
	go func() {
		s, err := c.take(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		got <- s
	}()
	return got
}

// TestSeat: one agent is active; another waits, the first knows of it, and the
// second follows as soon as the first is gone.
func TestSeat(t *testing.T) {
	a := newSeatCandidate(t, seatSecret)
	first := a.now(t)
	if first.hasSuccessor() {
		t.Error("nobody waits yet")
	}
	b := newSeatCandidate(t, seatSecret)
	followed := b.later(t.Context(), t)
	<-b.waited
	until(t, first.hasSuccessor)
	first.leave()
	second := <-followed
	if second == nil {
		t.Fatal("nobody followed")
	}
	defer second.leave()

	// A successor that gives up is not counted.
	ctx, cancel := context.WithCancel(t.Context())
	c := newSeatCandidate(t, seatSecret)
	gaveUp := c.later(ctx, t)
	until(t, second.hasSuccessor)
	cancel()
	if s := <-gaveUp; s != nil {
		t.Error("two have the seat")
	}
	until(t, func() bool { return !second.hasSuccessor() })
	if n := a.strange.Load() + b.strange.Load() + c.strange.Load(); n != 0 {
		t.Errorf("%d strangers among agents", n)
	}
}

// TestSeatTakenByOthers: whoever has the name of the seat without the key, the agent
// takes another one, and its successor finds it there.
func TestSeatTakenByOthers(t *testing.T) {
	for name, squat := range map[string]func(*testing.T, *net.UnixListener){
		"never accepts": func(*testing.T, *net.UnixListener) {},
		"says nothing": func(t *testing.T, l *net.UnixListener) {
			serveSeat(t, l, func(c *net.UnixConn) { _, _ = io.Copy(io.Discard, c) })
		},
		"closes": func(t *testing.T, l *net.UnixListener) { serveSeat(t, l, func(*net.UnixConn) {}) },
		"talks garbage": func(t *testing.T, l *net.UnixListener) {
			serveSeat(t, l, func(c *net.UnixConn) {
				_, _ = c.Write([]byte(strings.Repeat("x", 1000)))
				_, _ = io.Copy(io.Discard, c)
			})
		},
		"has another key": func(t *testing.T, l *net.UnixListener) {
			key := newSeatKey(otherSecret, strings.ReplaceAll(t.Name(), "/", "-"))
			serveSeat(t, l, func(c *net.UnixConn) { _ = key.proveHolder(c, key.name(0).Name); _, _ = io.Copy(io.Discard, c) })
		},
		"passes on": func(t *testing.T, l *net.UnixListener) {
			key := newSeatKey(seatSecret, strings.ReplaceAll(t.Name(), "/", "-"))
			serveSeat(t, l, func(c *net.UnixConn) { relay(c, key.name(1)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for a handshake that does not come
			a := newSeatCandidate(t, seatSecret)
			a.patience = 300 * time.Millisecond
			l, err := net.ListenUnix("unix", a.key.name(0))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			squat(t, l)
			first := a.now(t)
			if a.strange.Load() == 0 {
				t.Error("nothing was said of it")
			}
			b := newSeatCandidate(t, seatSecret)
			followed := b.later(t.Context(), t)
			until(t, first.hasSuccessor)
			_ = l.Close() // the name is free again: the holder of the other one still counts
			c := newSeatCandidate(t, seatSecret)
			last := c.later(t.Context(), t)
			<-c.waited
			first.leave()
			for range 2 { // one after the other
				select {
				case s := <-followed:
					s.leave()
				case s := <-last:
					s.leave()
				}
			}
		})
	}
}

func serveSeat(t *testing.T, l *net.UnixListener, serve func(*net.UnixConn)) {
	t.Helper()
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			go func() {
				serve(conn)
				_ = conn.Close()
			}()
		}
	}()
}

// relay passes on between a successor and the real holder.
func relay(c *net.UnixConn, to *net.UnixAddr) {
	holder, err := net.DialUnix("unix", nil, to)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(holder, c)
		_ = holder.Close()
	}()
	_, _ = io.Copy(c, holder)
}

// TestStrangersAreNoSuccessors: an agent that ends while others than agents are
// connected hands its addresses over to other nodes.
func TestStrangersAreNoSuccessors(t *testing.T) {
	a := newSeatCandidate(t, seatSecret)
	s := a.now(t)
	dial := func() *net.UnixConn {
		c, err := net.DialUnix("unix", nil, s.key.name(0))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for range 3 * maxVisitors {
		dial() // silent
	}
	talker := dial()
	_, _ = talker.Write([]byte(strings.Repeat("x", 200)))
	liar := newSeatKey(otherSecret, s.key.node)
	if err := liar.proveSuccessor(dial(), s.key.name(0).Name); err == nil {
		t.Error("a holder proves itself to one with another key")
	}
	wrongRole := dial()
	hello := make([]byte, len(seatHello)+seatNonce)
	if _, err := io.ReadFull(wrongRole, hello); err != nil {
		t.Fatal(err)
	}
	nonce := newNonce()
	_, _ = wrongRole.Write(append(nonce, s.key.sign("holder", s.key.name(0).Name, string(hello[len(seatHello):]), string(nonce))...))
	until(t, func() bool { return a.strange.Load() >= 2 })
	if s.hasSuccessor() {
		t.Error("a stranger counts as successor")
	}
	s.mu.Lock()
	connected := len(s.visitors)
	s.mu.Unlock()
	if connected > maxVisitors {
		t.Errorf("%d strangers are kept", connected)
	}
	// A real one still gets through.
	b := newSeatCandidate(t, seatSecret)
	followed := b.later(t.Context(), t)
	until(t, s.hasSuccessor)
	s.leave()
	(<-followed).leave()
}

// TestSeatOfEarlierBuilds: a holder and a successor from before the proof. The new
// agent follows the old one as before; an old one that follows a new one does not
// count as its successor, but follows it.
func TestSeatOfEarlierBuilds(t *testing.T) {
	c := newSeatCandidate(t, seatSecret)
	l, err := net.ListenUnix("unix", c.key.name(0))
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan *net.UnixConn, 1)
	go func() {
		conn, err := l.AcceptUnix()
		if err != nil {
			return
		}
		connected <- conn
	}()
	followed := c.later(t.Context(), t)
	<-c.waited // so that it is said to be ready, and the old one is told to end
	old := <-connected
	_ = l.Close()
	_ = old.Close()
	s := <-followed
	defer s.leave()
	if c.strange.Load() != 0 {
		t.Error("an agent of an earlier build counts as a stranger")
	}

	conn, err := net.DialUnix("unix", nil, c.key.name(0))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.ReadFull(conn, make([]byte, len(seatHello)+seatNonce)); err != nil {
		t.Fatal(err)
	}
	if s.hasSuccessor() {
		t.Error("one without proof counts as successor")
	}
	s.leave()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("it does not learn that the seat is free")
	}
}

// TestSeatNames: names fit into the kernel's, and differ.
func TestSeatNames(t *testing.T) {
	seen := map[string]bool{}
	for _, node := range []string{"a", strings.Repeat("a", 253), strings.Repeat("a", 252) + "b"} {
		for i := range seatNames {
			name := newSeatKey(seatSecret, node).name(i).Name
			if len(name) > 107 || seen[name] {
				t.Errorf("%q has %d bytes, or is there twice", name, len(name))
			}
			seen[name] = true
		}
	}
}
func until(t *testing.T, f func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !f() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not within 10 s")
		}
	}
}
