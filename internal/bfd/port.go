//go:build linux

package bfd

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// port hears what is sent to one address and UDP port of the node.
type port struct {
	key    portKey
	conn   *net.UDPConn
	raw    syscall.RawConn
	reader sync.WaitGroup
	done   chan struct{} // closed when nothing more is to be heard
	finish func()

	mu    sync.Mutex
	lines map[netip.Addr]*line // by the peer's address
	users int                  // lines that are open, those that were replaced included
}

func newPort(key portKey, conn *net.UDPConn) (*port, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &port{key: key, conn: conn, raw: raw, lines: map[netip.Addr]*line{}, done: make(chan struct{})}
	p.finish = sync.OnceFunc(func() { close(p.done) })
	p.reader.Go(p.read)
	return p, nil
}

func (p *port) add(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines[l.peer.Remote] = l
	p.users++
}

// remove says whether no session is left.
func (p *port) remove(l *line) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lines[l.peer.Remote] == l {
		delete(p.lines, l.peer.Remote)
	}
	p.users--
	return p.users == 0
}

func (p *port) close() error {
	p.finish()
	err := p.conn.Close()
	p.reader.Wait()
	return err
}

// pause ends the reader; what arrives then waits in the kernel.
func (p *port) pause() {
	p.finish()
	_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	p.reader.Wait()
}

func (p *port) read() {
	for {
		var err error
		waited := p.raw.Read(func(fd uintptr) bool {
			err = p.receive(int(fd))
			return !errors.Is(err, unix.EAGAIN)
		})
		switch {
		case errors.Is(waited, net.ErrClosed), errors.Is(waited, os.ErrDeadlineExceeded):
			return
		case waited != nil || err != nil && !errors.Is(err, unix.EINTR):
			select {
			case <-p.done:
				return
			case <-time.After(50 * time.Millisecond): // never seen, but must not spin
			}
		}
	}
}

// drain hears what waits in the kernel.
func (p *port) drain() {
	_ = p.raw.Control(func(fd uintptr) {
		for range 1000 { // a flood must not keep us here
			if p.receive(int(fd)) != nil {
				return
			}
		}
	})
}

// receive takes one packet, if there is one, and gives it to the session of its sender.
func (p *port) receive(fd int) error {
	var b [128]byte
	var control [64]byte
	n, m, _, from, err := unix.Recvmsg(fd, b[:], control[:], unix.MSG_DONTWAIT)
	if err != nil {
		return err
	}
	p.mu.Lock()
	l := p.lines[p.addrOf(from)]
	p.mu.Unlock()
	if l != nil {
		l.hear(b[:n], ttlOf(control[:m]))
	}
	return nil
}

// addrOf is the sender's address, link-local ones with their zone.
func (p *port) addrOf(from unix.Sockaddr) netip.Addr {
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(from.Addr)
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(from.Addr)
		if from.ZoneId != 0 {
			// The port itself is bound to this zone.
			return a.WithZone(p.key.local.Zone())
		}
		return a
	}
	return netip.Addr{}
}

// ttlOf finds the TTL or hop limit in control messages; it is 0 if there is none.
func ttlOf(control []byte) uint8 {
	for len(control) > 0 {
		header, data, rest, err := unix.ParseOneSocketControlMessage(control)
		if err != nil {
			return 0
		}
		ttl := header.Level == unix.IPPROTO_IP && header.Type == unix.IP_TTL || header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_HOPLIMIT
		if ttl && len(data) >= 4 {
			return data[0] | data[3] // an int of either byte order
		}
		control = rest
	}
	return 0
}
