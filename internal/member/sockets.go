package member

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// sockets is the transport on a node: UDP and TCP on one address and port.
//
// memberlist's own would do, but it hides why a port cannot be had (its errors
// cannot be unwrapped, and who waits for its predecessor's port must know), takes
// 64 KiB for each packet, resolves names, and serves any number of connections,
// each with any number of bytes before it knows whose they are (see gate). Packets
// need no gate: memberlist decrypts each before it looks at anything in it.
type sockets struct {
	addr    netip.AddrPort
	udp     *net.UDPConn
	tcp     *net.TCPListener
	packets chan *memberlist.Packet
	streams chan net.Conn
	gate    *gate
	warn    func(text string, args ...any)
	done    chan struct{}
	once    sync.Once
	loops   sync.WaitGroup
}

var _ memberlist.Transport = (*sockets)(nil)

// listen binds both sockets. With port 0 the kernel chooses.
func listen(bind netip.AddrPort, g *gate, warn func(string, ...any)) (*sockets, error) {
	var err error
	for range 10 { // a port that is free for TCP may be taken for UDP
		var s *sockets
		if s, err = listenOnce(bind, g, warn); err == nil || bind.Port() != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return s, err
		}
	}
	return nil, err
}

func listenOnce(bind netip.AddrPort, g *gate, warn func(string, ...any)) (*sockets, error) {
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(bind))
	if err != nil {
		return nil, err
	}
	addr := netip.AddrPortFrom(bind.Addr(), uint16(tcp.Addr().(*net.TCPAddr).Port))
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		return nil, errors.Join(err, tcp.Close())
	}
	// For bursts while we have no CPU. As much as the kernel allows will do.
	_ = udp.SetReadBuffer(2 << 20)
	s := &sockets{
		addr: addr, udp: udp, tcp: tcp,
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		gate: g, warn: warn, done: make(chan struct{}),
	}
	s.loops.Go(s.receive)
	s.loops.Go(s.accept)
	return s, nil
}

func (s *sockets) receive() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := s.udp.ReadFromUDPAddrPort(buf)
		now := time.Now()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n == 0 { // an ICMP error, or nothing
			continue
		}
		packet := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: net.UDPAddrFromAddrPort(from), Timestamp: now}
		select {
		case s.packets <- packet:
		case <-s.done:
			return
		}
	}
}

func (s *sockets) accept() {
	for {
		conn, err := s.tcp.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select { // out of files: they will not come back at once
			case <-time.After(100 * time.Millisecond):
				continue
			case <-s.done:
				return
			}
		}
		stream := s.gate.accepted(conn)
		s.loops.Go(func() { s.admit(stream) })
	}
}

// admit hands a stream over once it has proved that it is a member's.
func (s *sockets) admit(stream *stream) {
	if err := stream.prove(); err != nil {
		_ = stream.Close()
		if text := suspicious(err); text != "" {
			s.warn(text, "from", stream.RemoteAddr().String(), "error", err)
		}
		return
	}
	select {
	case s.streams <- stream:
	case <-s.done:
		_ = stream.Close()
	}
}

func (s *sockets) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return s.addr.Addr().AsSlice(), int(s.addr.Port()), nil
}

func (s *sockets) WriteTo(b []byte, to string) (time.Time, error) {
	addr, err := netip.ParseAddrPort(to)
	if err != nil {
		return time.Time{}, fmt.Errorf("send to %q: %w", to, err)
	}
	_, err = s.udp.WriteToUDPAddrPort(b, addr)
	return time.Now(), err // as it is: memberlist looks at its type
}

func (s *sockets) PacketCh() <-chan *memberlist.Packet { return s.packets }

func (s *sockets) DialTimeout(to string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout, LocalAddr: &net.TCPAddr{IP: s.addr.Addr().AsSlice(), Zone: s.addr.Addr().Zone()}}
	conn, err := d.Dial("tcp", to)
	if err != nil {
		return nil, err
	}
	return s.gate.dialled(conn), nil
}

func (s *sockets) StreamCh() <-chan net.Conn { return s.streams }

// Shutdown frees the port before it returns.
func (s *sockets) Shutdown() (err error) {
	s.once.Do(func() {
		close(s.done)
		err = errors.Join(s.tcp.Close(), s.udp.Close())
		s.gate.close()
		s.loops.Wait()
	})
	return err
}
