package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"fairlead.io/sandbox"
)

// What a server says to a client that connects, and what it says instead if the
// kernel had to repeat its answer to the handshake: a packet was lost on the way. Both
// have the same length.
const (
	greeting = "hello"
	again    = "again"
)

// ErrLate is of a connection that was made, but a second late: the acknowledgement of the
// client was lost, so the server repeated its answer.
var ErrLate = errors.New("the server repeated its answer to the handshake")

// lossTime is a little less than the time after which the kernel repeats a first packet
// that was lost.
const lossTime = 950 * time.Millisecond

// Serve greets everybody who connects, and hangs up, until the listener is closed.
func Serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		say := greeting
		if repeated(conn) != nil {
			say = again
		}
		_, _ = io.WriteString(conn, say)
		_ = conn.Close()
	}
}

// Greet connects from the client host and waits for the greeting of a server. It fails
// if a packet of the handshake was lost, also if the kernel made up for that.
func Greet(ctx context.Context, c *sandbox.Cluster, to netip.AddrPort) error {
	return greet(ctx, from(c, to), to)
}

func greet(ctx context.Context, connect connector, to netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := dial(ctx, connect, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	said := make([]byte, len(greeting))
	if _, err = io.ReadFull(conn, said); err != nil {
		return err
	}
	if string(said) != greeting {
		return fmt.Errorf("%w: %s says %q", ErrLate, to, said)
	}
	return nil
}

// connector makes a connection with the options of a dialer.
type connector func(context.Context, *net.Dialer) (net.Conn, error)

// from connects from the client host.
func from(c *sandbox.Cluster, to netip.AddrPort) connector {
	return func(ctx context.Context, d *net.Dialer) (net.Conn, error) {
		return c.DialWith(ctx, d, sandbox.ClientHost, "tcp", to.String())
	}
}

// dial connects. A packet that was lost is an error, however late this program notices
// that the connection was made.
func dial(ctx context.Context, connect connector, to netip.AddrPort) (net.Conn, error) {
	dialer := &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		// The first packet is repeated once, after a second; two seconds later the kernel
		// gives up.
		return onSocket(raw, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_SYNCNT, 1) })
	}}
	began := time.Now()
	conn, err := connect(ctx, dialer)
	if err != nil {
		return nil, err
	}
	// A first packet that meets an old connection of the same port is repeated within
	// milliseconds: it was not lost.
	if took := time.Since(began); took > lossTime {
		if err := repeated(conn); err != nil {
			defer conn.Close()
			return nil, fmt.Errorf("dial tcp %s from %s: %w, and it took %v", to, conn.LocalAddr(), err, took.Round(time.Millisecond))
		}
	}
	return conn, nil
}

// repeated fails if the kernel has sent packets of the connection more than once.
func repeated(conn net.Conn) error {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	return onSocket(raw, func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil && info.Total_retrans > 0 {
			err = fmt.Errorf("%d packets were lost", info.Total_retrans)
		}
		return err
	})
}

func onSocket(raw syscall.RawConn, do func(fd int) error) (err error) {
	if failed := raw.Control(func(fd uintptr) { err = do(int(fd)) }); failed != nil {
		return failed
	}
	return err
}
