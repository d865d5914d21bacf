//go:build linux

package bfd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Frozen is what a successor needs to continue the sessions of a Speaker. It can be written
// as JSON; the descriptors go beside it (SCM_RIGHTS), in their order. Without them the
// successor opens sockets of its own, once the predecessor's are closed.
type Frozen struct {
	Sessions    []FrozenSession
	Descriptors []int `json:"-"`
}

// FrozenSession is one session. Receive and Send are places in Frozen.Descriptors, or -1.
type FrozenSession struct {
	Peer           Peer
	Profile        Profile
	Memory         Memory
	Sent, Received uint64
	Receive, Send  int
}

// Close closes the descriptors, in a process that has handed them over, or that could not.
func (f *Frozen) Close() {
	for _, fd := range f.Descriptors {
		_ = unix.Close(fd)
	}
	f.Descriptors = nil
}

// patience is how long a predecessor may need to close its sockets.
const patience = 2 * time.Second

// keeper is a Wire whose sockets can go to another process.
type keeper interface {
	// pause stops hearing.
	pause()
	// descriptors returns duplicates of a line's sockets.
	descriptors(Line) (receive, send int, err error)
	// adopt opens a line on the sockets of a predecessor.
	adopt(p Peer, receive, send int, hear func(b []byte, ttl uint8)) (Line, error)
}

// Freeze ends the Speaker without a word to the peers. A successor has until the detection
// time ends: packets that arrive meanwhile wait in the sockets for it. If nobody takes over,
// Continue goes on in this process.
func (s *Speaker) Freeze() Frozen {
	keep, _ := s.wire.(keeper)
	if keep != nil {
		keep.pause()
	}
	s.mu.Lock()
	sessions := s.sessions
	s.sessions = map[Peer]*runner{}
	s.mu.Unlock()
	var out Frozen
	receives := map[portKey]int{}
	for _, peer := range slices.SortedFunc(maps.Keys(sessions), comparePeers) {
		frozen, line := sessions[peer].freeze()
		if line == nil {
			continue // it never spoke
		}
		if keep != nil {
			out.add(&frozen, keep, line, receives)
		}
		out.Sessions = append(out.Sessions, frozen)
	}
	s.end()
	s.running.Wait()
	return out
}

// add duplicates the sockets of a session.
func (f *Frozen) add(s *FrozenSession, keep keeper, l Line, receives map[portKey]int) {
	receive, send, err := keep.descriptors(l)
	if err != nil {
		return // the successor opens its own
	}
	s.Send = len(f.Descriptors)
	f.Descriptors = append(f.Descriptors, send)
	if at, shared := receives[keyOf(s.Peer)]; shared {
		s.Receive = at
		_ = unix.Close(receive)
		return
	}
	s.Receive = len(f.Descriptors)
	receives[keyOf(s.Peer)] = s.Receive
	f.Descriptors = append(f.Descriptors, receive)
}

func comparePeers(a, b Peer) int {
	if c := a.Remote.Compare(b.Remote); c != 0 {
		return c
	}
	return a.Local.Compare(b.Local)
}

// freeze makes the session deaf and dumb, and returns what it knows.
func (r *runner) freeze() (FrozenSession, Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
	return FrozenSession{Peer: r.peer, Profile: r.profile, Memory: r.session.Memory, Sent: r.sent, Received: r.received, Receive: -1, Send: -1}, r.line
}

// Continue returns a Speaker that continues the sessions of a predecessor, and owns its
// descriptors. Set then says which of them stay; until it is called all of them do.
func Continue(ctx context.Context, o Options, f Frozen) *Speaker {
	s := New(ctx, o)
	keep, _ := s.wire.(keeper)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, was := range f.Sessions {
		if was.Memory.Mine == 0 || was.Memory.State > Up || was.Memory.Remote > Up {
			continue // not a session: Set starts it anew
		}
		r := &runner{peer: was.Peer, inherits: time.Now().Add(patience), profile: was.Profile, sent: was.Sent, received: was.Received,
			session: ContinueSession(time.Now(), was.Profile, was.Memory, rand.Float64)}
		r.prepare(s)
		receive, hasReceive := at(f.Descriptors, was.Receive)
		send, hasSend := at(f.Descriptors, was.Send)
		if keep != nil && hasReceive && hasSend {
			if l, err := keep.adopt(was.Peer, receive, send, r.hear); err == nil {
				r.mu.Lock()
				r.line = l
				r.mu.Unlock()
			}
		}
		s.start(r)
	}
	f.Close()
	return s
}

func at(fds []int, i int) (int, bool) {
	if i < 0 || i >= len(fds) {
		return -1, false
	}
	return fds[i], true
}

func (s *sockets) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
		p.pause()
	}
}

func (s *sockets) descriptors(l Line) (receive, send int, err error) {
	own, ok := l.(*line)
	if !ok {
		return -1, -1, errors.New("not a line of these sockets")
	}
	if receive, err = duplicate(own.port.conn); err != nil {
		return -1, -1, err
	}
	if send, err = duplicate(own.out); err != nil {
		return -1, -1, errors.Join(err, unix.Close(receive))
	}
	return receive, send, nil
}

// duplicate returns another descriptor of a socket. (File would make it a blocking one, for
// both processes.)
func duplicate(conn *net.UDPConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	called := raw.Control(func(from uintptr) { fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(called, err)
}

func (s *sockets) adopt(p Peer, receive, send int, hear func(b []byte, ttl uint8)) (Line, error) {
	out, err := connOf(send, netip.AddrPort{})
	if err != nil {
		return nil, err
	}
	l, err := s.attach(p, hear, out, func() (*net.UDPConn, error) {
		return connOf(receive, netip.AddrPortFrom(p.Local, portOf(p.Multihop)))
	})
	if err != nil {
		return nil, errors.Join(err, out.Close())
	}
	return l, nil
}

// connOf makes a socket of a descriptor, which stays open. It must be bound to an address, if
// one is given.
func connOf(fd int, bound netip.AddrPort) (*net.UDPConn, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("take socket over: %w", err)
	}
	file := os.NewFile(uintptr(own), "bfd")
	defer func() { _ = file.Close() }()
	conn, err := net.FilePacketConn(file)
	if err != nil {
		return nil, fmt.Errorf("take socket over: %w", err)
	}
	udp, ok := conn.(*net.UDPConn)
	if ok && bound.IsValid() {
		local, isUDP := udp.LocalAddr().(*net.UDPAddr)
		ok = isUDP && local.AddrPort().Port() == bound.Port() && local.AddrPort().Addr().Unmap().WithZone("") == bound.Addr().WithZone("")
	}
	if !ok {
		return nil, errors.Join(errors.New("take socket over: it is not one of ours"), conn.Close())
	}
	return udp, nil
}
