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

// seat belongs to the one active agent of a node: an abstract unix socket,
// which belongs to the node's network namespace and so is seen by the old and
// the new pod of an upgrade, and which the kernel frees when its holder dies.
//
// An agent that finds the seat taken is the successor: it connects and waits
// until the holder is gone. A holder that has to end and has a successor
// leaves everything in the kernel as it is; the successor takes it over before
// the fences expire.
type seat struct {
	listener net.Listener

	mu      sync.Mutex
	waiting map[net.Conn]bool
}

const seatRetry = 50 * time.Millisecond

// takeSeat waits until the seat is free and takes it. waits is called once if it
// has to wait.
func takeSeat(ctx context.Context, node string, waits func()) (*seat, error) {
	address := &net.UnixAddr{Net: "unix", Name: "@fairlead-agent-" + node}
	for waited := false; ; {
		l, err := net.ListenUnix("unix", address)
		if err == nil {
			s := &seat{listener: l, waiting: map[net.Conn]bool{}}
			go s.accept()
			return s, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("listen on %s: %w", address.Name, err)
		}
		if !waited {
			waits()
			waited = true
		}
		if err := awaitHolder(ctx, address); err != nil {
			return nil, err
		}
	}
}

// awaitHolder returns when the holder of the seat is gone, as far as that can be
// known.
func awaitHolder(ctx context.Context, address *net.UnixAddr) error {
	conn, err := net.DialUnix("unix", nil, address)
	if err != nil { // it is gone, or does not accept
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(seatRetry):
			return nil
		}
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_, _ = conn.Read(make([]byte, 1)) // the holder never writes
	return ctx.Err()
}

func (s *seat) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.waiting[conn] = true
		s.mu.Unlock()
		go func() {
			_, _ = conn.Read(make([]byte, 1)) // the successor never writes
			s.mu.Lock()
			delete(s.waiting, conn)
			s.mu.Unlock()
			_ = conn.Close()
		}()
	}
}

// hasSuccessor says whether another agent waits for the seat.
func (s *seat) hasSuccessor() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) > 0
}

// leave frees the seat.
func (s *seat) leave() {
	_ = s.listener.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for conn := range s.waiting {
		_ = conn.Close()
	}
}
