//go:build linux

package bfd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// UDP ports that packets are sent to (RFC 5881 §4, RFC 5883 §5), and those that they are sent
// from.
const (
	singleHopPort = 3784
	multihopPort  = 4784
	firstSource   = 49152
	lastSource    = 65535
)

func portOf(multihop bool) uint16 {
	if multihop {
		return multihopPort
	}
	return singleHopPort
}

// sockets is the Wire of a node.
type sockets struct {
	// enter calls f where the sockets are to be opened; tests have network namespaces.
	enter func(f func())

	mu    sync.Mutex
	ports map[portKey]*port
}

func newSockets() *sockets {
	return &sockets{enter: func(f func()) { f() }, ports: map[portKey]*port{}}
}

// portKey names a socket that hears: all sessions of one of the node's addresses share it.
type portKey struct {
	local    netip.Addr
	multihop bool
	device   string
}

func keyOf(p Peer) portKey { return portKey{p.Local, p.Multihop, p.Device} }

// line is one session's part of a port, with a socket to send with.
type line struct {
	sockets *sockets
	port    *port
	peer    Peer
	hear    func(b []byte, ttl uint8)
	out     *net.UDPConn
	raw     syscall.RawConn // of out
}

// Open implements Wire.
func (s *sockets) Open(ctx context.Context, p Peer, hear func(b []byte, ttl uint8)) (Line, error) {
	if p.Local.Is4() != p.Remote.Is4() {
		return nil, fmt.Errorf("%s and %s are of different families", p.Local, p.Remote)
	}
	out, err := s.dial(ctx, p)
	if err != nil {
		return nil, err
	}
	l, err := s.attach(p, hear, out, func() (*net.UDPConn, error) { return s.listen(ctx, keyOf(p)) })
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return l, nil
}

// attach adds a session to the port of its local address, which is opened if need be.
func (s *sockets) attach(p Peer, hear func(b []byte, ttl uint8), out *net.UDPConn, open func() (*net.UDPConn, error)) (*line, error) {
	raw, err := out.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &line{sockets: s, peer: p, hear: hear, out: out, raw: raw}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := keyOf(p)
	in := s.ports[key]
	if in == nil {
		conn, err := open()
		if err != nil {
			return nil, err
		}
		if in, err = newPort(key, conn); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		s.ports[key] = in
	}
	in.add(l)
	l.port = in
	return l, nil
}

// listen opens a socket that hears. It has no SO_REUSEADDR: with it, the socket could be
// opened beside that of another daemon, and would take its packets.
func (s *sockets) listen(ctx context.Context, key portKey) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: prepare(key.device, func(fd int) error {
		if key.local.Is4() {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
	})}
	var conn net.PacketConn
	var err error
	s.enter(func() {
		conn, err = config.ListenPacket(ctx, "udp", netip.AddrPortFrom(key.local, portOf(key.multihop)).String())
	})
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// dial opens a socket to send with. Its port stays that of the session.
func (s *sockets) dial(ctx context.Context, p Peer) (*net.UDPConn, error) {
	dialer := net.Dialer{Control: prepare(p.Device, func(fd int) error { return sender(fd, p.Local.Is4()) })}
	to := netip.AddrPortFrom(p.Remote, portOf(p.Multihop)).String()
	for try := 0; ; try++ {
		port := firstSource + rand.IntN(lastSource-firstSource+1)
		dialer.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.Local, uint16(port)))
		var conn net.Conn
		var err error
		s.enter(func() { conn, err = dialer.DialContext(ctx, "udp", to) })
		switch {
		case err == nil:
			return conn.(*net.UDPConn), nil
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, err
		case try == 20:
			return nil, fmt.Errorf("no free UDP port from %d to %d", firstSource, lastSource)
		}
	}
}

// internetworkControl is the class of routing protocols (DSCP CS6).
const internetworkControl = 0xc0

// sender sets what packets of ours have: TTL 255, so that the peer knows that they come
// from nearby. Nothing is received on the socket, so nothing may pile up there.
func sender(fd int, v4 bool) error {
	level, hops, class := unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, unix.IPV6_TCLASS
	if v4 {
		level, hops, class = unix.IPPROTO_IP, unix.IP_TTL, unix.IP_TOS
	}
	nothing := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	return errors.Join(
		unix.SetsockoptInt(fd, level, hops, 255),
		unix.SetsockoptInt(fd, level, class, internetworkControl),
		unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &nothing[0]}))
}

// prepare returns what net calls before it binds a socket.
func prepare(device string, set func(fd int) error) func(_, _ string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		called := c.Control(func(fd uintptr) {
			if device != "" {
				err = unix.BindToDevice(int(fd), device)
			}
			err = errors.Join(err, set(int(fd)))
		})
		return errors.Join(called, err)
	}
}

// Send implements Line. The kernel reports that an earlier packet was refused instead of
// sending this one, so it is sent again.
func (l *line) Send(b []byte) error {
	err := l.write(b)
	if errors.Is(err, syscall.ECONNREFUSED) {
		if again := l.write(b); again != nil {
			return again
		}
	}
	return err
}

// write does not wait for a full queue to empty: a late packet is worth nothing.
func (l *line) write(b []byte) error {
	var err error
	if closed := l.raw.Control(func(fd uintptr) { err = unix.Send(int(fd), b, unix.MSG_DONTWAIT) }); closed != nil {
		return closed
	}
	return err
}

// Drain implements Line.
func (l *line) Drain() { l.port.drain() }

// Close implements Line.
func (l *line) Close() error {
	l.sockets.mu.Lock()
	defer l.sockets.mu.Unlock()
	err := l.out.Close()
	if last := l.port.remove(l); last {
		delete(l.sockets.ports, l.port.key)
		err = errors.Join(err, l.port.close())
	}
	return err
}
