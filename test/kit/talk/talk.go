// Package talk keeps connections open through a Service and notices what becomes of them: every
// byte comes back in its order, or the connection is broken.
package talk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fairlead.io/sandbox"
)

// Serve says to everybody who connects from which address, and then sends back what it gets,
// until the listener is closed.
func Serve(l net.Listener) { serve(l, net.Conn.RemoteAddr) }

// ServeHere is Serve, but says at which address it was reached: on a node whose proxy does not
// change the client's address.
func ServeHere(l net.Listener) { serve(l, net.Conn.LocalAddr) }

func serve(l net.Listener, says func(net.Conn) net.Addr) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if _, err := io.WriteString(conn, peerOf(says(conn))); err == nil {
				_, _ = io.Copy(conn, conn)
			}
		}()
	}
}

// ServePackets answers each datagram with the address it comes from, and what is in it.
func ServePackets(c net.PacketConn) {
	servePackets(c, func(from net.Addr) net.Addr { return from })
}

// ServePacketsHere is ServePackets as ServeHere is Serve.
func ServePacketsHere(c net.PacketConn) {
	servePackets(c, func(net.Addr) net.Addr { return c.LocalAddr() })
}

func servePackets(c net.PacketConn, says func(from net.Addr) net.Addr) {
	b := make([]byte, 9000)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = c.WriteTo(append([]byte(peerOf(says(from))), b[:n]...), from)
	}
}

// peerLen is the length of what a server says first.
const peerLen = 40

// peerOf is an address without its port, in peerLen bytes.
func peerOf(a net.Addr) string {
	p, _ := netip.ParseAddrPort(a.String())
	return fmt.Sprintf("%-*s", peerLen, p.Addr().Unmap())
}

func parsePeer(b []byte) (netip.Addr, error) { return netip.ParseAddr(string(bytes.TrimSpace(b))) }

// Conn is a connection that is kept open. Errors stay.
type Conn struct {
	conn net.Conn
	// Peer is the address that the server sees: of the node that translates.
	Peer  netip.Addr
	UDP   bool
	stop  chan struct{}
	ended sync.WaitGroup

	mu   sync.Mutex
	err  error
	at   time.Time // of err
	sent int64     // and come back
	lost int       // datagrams
	seq  uint64

	talks bool
}

// wait is how long an answer may take; a datagram may be lost.
const (
	wait       = 15 * time.Second
	waitPacket = 500 * time.Millisecond
)

// Every connection has a port of its own, which no kernel gives to others: a node that was cut off
// may remember an earlier connection of the same port, and would get this one.
const firstPort, lastPort = 10_000, 32_000

var ports atomic.Uint32

// Open connects from the client host of a cluster.
func Open(ctx context.Context, c *sandbox.Cluster, network string, to netip.AddrPort) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	port := int(firstPort + ports.Add(1)%(lastPort-firstPort))
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
	if network == "udp" {
		dialer.LocalAddr = &net.UDPAddr{Port: port}
	}
	conn, err := c.DialWith(ctx, dialer, sandbox.ClientHost, network, to.String())
	if err != nil {
		return nil, err
	}
	t := &Conn{conn: conn, UDP: network == "udp", stop: make(chan struct{})}
	if t.UDP {
		if err = t.Say(8); err == nil && !t.Peer.IsValid() {
			err = errors.New("no answer")
		}
	} else {
		first := make([]byte, peerLen)
		_ = conn.SetDeadline(time.Now().Add(wait))
		if _, err = io.ReadFull(conn, first); err == nil {
			t.Peer, err = parsePeer(first)
		}
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("talk to %s: %w", to, err)
	}
	return t, nil
}

// Err is why the connection is broken.
func (t *Conn) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Broken is since when it is.
func (t *Conn) Broken() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at
}

// Talks says whether it says something of its own accord.
func (t *Conn) Talks() bool { return t.talks }

// Reset says whether the other end has reset it.
func (t *Conn) Reset() bool {
	err := t.Err()
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Bytes have come back so far, and Lost datagrams have not.
func (t *Conn) Bytes() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent
}

// Lost datagrams have not come back.
func (t *Conn) Lost() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

func (t *Conn) fail(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil && err != nil {
		t.err, t.at = err, time.Now()
	}
	return t.err
}

// Say sends so many bytes and waits until they have come back.
func (t *Conn) Say(n int) error {
	if err := t.Err(); err != nil {
		return err
	}
	t.seq++
	out := binary.BigEndian.AppendUint64(nil, t.seq)
	for len(out) < n {
		out = append(out, byte(t.seq+uint64(len(out))))
	}
	if t.UDP {
		return t.fail(t.sayPacket(out))
	}
	_ = t.conn.SetDeadline(time.Now().Add(wait))
	if _, err := t.conn.Write(out); err != nil {
		return t.fail(err)
	}
	in := make([]byte, len(out))
	if _, err := io.ReadFull(t.conn, in); err != nil {
		return t.fail(err)
	}
	if !bytes.Equal(in, out) {
		return t.fail(errors.New("other bytes came back"))
	}
	t.mu.Lock()
	t.sent += int64(len(out))
	t.mu.Unlock()
	return nil
}

// sayPacket: a datagram may be lost, but those that come back come from one and the same node.
func (t *Conn) sayPacket(out []byte) error {
	if _, err := t.conn.Write(out); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	_ = t.conn.SetReadDeadline(time.Now().Add(waitPacket))
	in := make([]byte, 9000)
	for {
		n, err := t.conn.Read(in)
		if err != nil {
			t.mu.Lock()
			t.lost++
			t.mu.Unlock()
			return nil //nolint:nilerr // it is counted
		}
		if n < peerLen || !bytes.Equal(in[peerLen:n], out) {
			continue // a late one
		}
		peer, err := parsePeer(in[:peerLen])
		switch {
		case err != nil:
			return err
		case !t.Peer.IsValid():
			t.Peer = peer
		case peer != t.Peer:
			return fmt.Errorf("it came through %s, and now through %s", t.Peer, peer)
		}
		t.mu.Lock()
		t.sent += int64(len(out))
		t.mu.Unlock()
		return nil
	}
}

// Chat says something again and again, until Close.
func (t *Conn) Chat(every time.Duration) {
	t.talks = true
	t.ended.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for t.Say(64) == nil {
			select {
			case <-t.stop:
				return
			case <-tick.C:
			}
		}
	})
}

// Stream sends as many bytes as it can, until Close or until there were limit of them, and
// compares what comes back. Rate, if not 0, is the most of them in a second.
func (t *Conn) Stream(limit, rate int64) {
	t.talks = true
	const block = 64 << 10
	seed := [32]byte{1, 2, 3}
	began := time.Now()
	_ = t.conn.SetDeadline(time.Time{})
	t.ended.Go(func() {
		source := rand.NewChaCha8(seed)
		b := make([]byte, block)
		for sent := int64(0); sent < limit; sent += block {
			_, _ = source.Read(b)
			if _, err := t.conn.Write(b); err != nil {
				_ = t.fail(err)
				return
			}
			ahead := time.Duration(0)
			if rate > 0 {
				ahead = time.Duration(float64(sent)/float64(rate)*float64(time.Second)) - time.Since(began)
			}
			select {
			case <-t.stop:
				return
			case <-time.After(max(0, ahead)):
			}
		}
	})
	t.ended.Go(func() {
		source := rand.NewChaCha8(seed)
		want, got := make([]byte, block), make([]byte, block)
		for t.Bytes() < limit {
			_, _ = source.Read(want)
			_ = t.conn.SetReadDeadline(time.Now().Add(wait))
			if _, err := io.ReadFull(t.conn, got); err != nil {
				select {
				case <-t.stop:
				default:
					_ = t.fail(err)
				}
				return
			}
			if !bytes.Equal(want, got) {
				_ = t.fail(errors.New("other bytes came back"))
				return
			}
			t.mu.Lock()
			t.sent += block
			t.mu.Unlock()
		}
	})
}

// Wait waits until Stream has ended, by its limit or because the connection broke.
func (t *Conn) Wait() { t.ended.Wait() }

// Close ends the connection.
func (t *Conn) Close() {
	close(t.stop)
	_ = t.conn.SetDeadline(time.Now())
	t.ended.Wait()
	_ = t.conn.Close()
}
