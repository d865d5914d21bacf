package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	seatRetry = 50 * time.Millisecond
	// seatNames is how many names a seat has. Only the first can be guessed without
	// the key; others are seen when they are used, and may be taken next time.
	seatNames = 8
	// unprovenPatience is how long an agent waits in all for holders without proof:
	// longer than an agent of an earlier build takes to end once this one is ready.
	unprovenPatience = 10 * time.Second
)

// seatTaker looks for the seat.
type seatTaker struct {
	key seatKey
	// waits is called once if another process has the seat.
	waits func()
	// unproven is called for each process without the key that has the seat, or wants
	// it.
	unproven func(why string)
	// patience is how long holders without proof are waited for.
	patience time.Duration
}

// take waits until the seat is free and takes it. For a holder without proof it
// waits no longer than its patience.
func (t *seatTaker) take(ctx context.Context) (*seat, error) {
	t.waits = sync.OnceFunc(t.waits)
	var until time.Time
	var before []*net.UnixConn
	var left legacy
	defer func() { closeAll(before) }()
	for {
		holder, silent := t.find(0)
		closeAll(before) // not earlier: one of an earlier build sees that somebody waits
		before = silent
		if holder != nil {
			until = time.Time{}
			t.waits()
			passed, err := untilClosed(ctx, holder)
			if err != nil {
				passed.close()
				return nil, err
			}
			if len(passed.data) > 0 {
				left.close()
				left = passed
			}
			continue
		}
		if until.IsZero() {
			until = time.Now().Add(t.patience)
		}
		s, err := t.sit(time.Now().Before(until))
		switch {
		case err != nil:
			left.close()
			return nil, err
		case s != nil:
			s.legacy = left
			return s, nil
		}
		select {
		case <-ctx.Done():
			left.close()
			return nil, ctx.Err()
		case <-time.After(seatRetry):
		}
	}
}

// sit takes the first name that is to be had. It returns nothing if somebody has one
// who may be waited for, and patient says so, or if another agent was faster.
func (t *seatTaker) sit(patient bool) (*seat, error) {
	var taken []string
	defer func() {
		for _, why := range taken {
			t.unproven(why)
		}
	}()
	for i := range seatNames {
		name := t.key.name(i)
		l, err := net.ListenUnix("unix", name)
		if err == nil {
			s := &seat{listener: l, key: t.key, unproven: t.unproven}
			go s.accept(i)
			// Two agents that start at the same time may have found different names free.
			holder, silent := t.find(i + 1)
			closeAll(silent)
			if holder == nil {
				return s, nil
			}
			_ = holder.Close()
			s.leave()
			taken = nil
			return nil, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listen on %s: %w", name, err)
		}
		other := otherUser(name)
		if patient && other == nil {
			t.waits()
			taken = nil
			return nil, nil
		}
		taken = append(taken, fmt.Sprintf("the name %s is taken by another process", name))
	}
	taken = append(taken, "all names are taken, so the next agent on this node cannot take over from this one")
	return &seat{key: t.key}, nil
}

// find looks for a holder that proves itself, at all names from one on at the same
// time. It also returns connections to those that say nothing.
func (t *seatTaker) find(from int) (holder *net.UnixConn, silent []*net.UnixConn) {
	type answer struct {
		conn *net.UnixConn
		err  error
	}
	answers := make(chan answer)
	asked := 0
	for i := from; i < seatNames; i++ {
		name := t.key.name(i)
		conn, err := net.DialUnix("unix", nil, name)
		if err != nil { // nobody is there
			continue
		}
		asked++
		go func() { answers <- answer{conn, t.key.proveSuccessor(conn, name.Name)} }()
	}
	for range asked {
		a := <-answers
		switch {
		case a.err == nil && holder == nil:
			holder = a.conn
		case errors.Is(a.err, errSilent):
			silent = append(silent, a.conn)
		default:
			_ = a.conn.Close()
		}
	}
	return holder, silent
}

// otherUser returns an error if a process of another user than this agent's has
// this name. Nothing is known of one that does not listen.
func otherUser(name *net.UnixAddr) error {
	conn, err := net.DialUnix("unix", nil, name)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close() }()
	return sameUser(conn)
}

func untilClosed(ctx context.Context, conn *net.UnixConn) (legacy, error) {
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	passed := receive(conn)
	return passed, ctx.Err()
}

func closeAll(conns []*net.UnixConn) {
	for _, c := range conns {
		_ = c.Close()
	}
}
