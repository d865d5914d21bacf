package cloudscale

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"
)

// frontState is what a front works by; it changes while it runs.
type frontState struct {
	config  frontConfig
	backend *backend
}

func (f *Forwarder) listenTCP(ctx context.Context, at netip.AddrPort, c frontConfig, b *backend) (*front, error) {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return nil, err
	}
	var state atomic.Pointer[frontState]
	state.Store(&frontState{c, b})
	f.work.Go(func() {
		for {
			client, err := listener.AcceptTCP()
			if err != nil {
				return // closed
			}
			now := state.Load()
			f.work.Go(func() { now.serve(ctx, client) })
		}
	})
	return &front{
		lb: c.lb, close: func() { listener.Close() },
		set: func(c frontConfig, b *backend) { state.Store(&frontState{c, b}) },
	}, nil
}

// serve passes one connection on.
func (s *frontState) serve(ctx context.Context, client *net.TCPConn) {
	defer client.Close()
	from, at := addrPort(client.RemoteAddr()), addrPort(client.LocalAddr())
	if !mayUse(from.Addr(), s.config.allowed) {
		_ = client.SetLinger(0) // refuses
		return
	}
	var member *net.TCPConn
	var tried []string
	for member == nil {
		m, done, ok := s.backend.pick(from.Addr(), tried)
		if !ok {
			_ = client.SetLinger(0)
			return
		}
		dialer := net.Dialer{Timeout: s.config.memberConnect}
		conn, err := dialer.DialContext(ctx, "tcp", m.address.String())
		if err != nil {
			done()
			tried = append(tried, m.uuid)
			continue
		}
		defer done()
		member = conn.(*net.TCPConn)
	}
	defer member.Close()
	defer context.AfterFunc(ctx, func() { client.Close(); member.Close() })()
	if header := proxyHeader(s.backend.protocol(), from, at); header != nil {
		if _, err := member.Write(header); err != nil {
			return
		}
	}
	c, m := newSide(client, s.config.clientData), newSide(member, s.config.memberData)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		c.copyFrom(m)
	}()
	m.copyFrom(c)
	<-answered
}

func addrPort(a net.Addr) netip.AddrPort {
	p := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// side is one end of a connection that is passed on. If nothing was read from
// it or written to it for its timeout, the connection ends.
type side struct {
	*net.TCPConn
	timeout time.Duration
	active  atomic.Int64 // Unix nanoseconds
}

func newSide(conn *net.TCPConn, timeout time.Duration) *side {
	s := &side{TCPConn: conn, timeout: timeout}
	s.active.Store(time.Now().UnixNano())
	return s
}

// copyFrom passes on what comes from the other side, and its end.
func (s *side) copyFrom(from *side) {
	buffer := make([]byte, 32<<10)
	for {
		until := time.Unix(0, from.active.Load()).Add(from.timeout)
		if err := from.SetReadDeadline(until); err != nil {
			break
		}
		n, err := from.Read(buffer)
		if n > 0 {
			from.active.Store(time.Now().UnixNano())
			if _, err := s.Write(buffer[:n]); err != nil {
				break
			}
			s.active.Store(time.Now().UnixNano())
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			if s.CloseWrite() == nil {
				return // the other direction may go on
			}
		case errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(time.Unix(0, from.active.Load()).Add(from.timeout)):
			continue // something was written to it meanwhile
		}
		break
	}
	s.Close()
	from.Close()
}
