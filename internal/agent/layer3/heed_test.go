package layer3

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/bfd"
	"fairlead.io/internal/bgp"
	"fairlead.io/internal/lb"
)

// router is one that takes sessions on all ports, and speaks BFD unless it is silent.
type router struct {
	mu      sync.Mutex
	silent  bool
	running sync.WaitGroup
}

func (r *router) be(silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = silent
}

type connection struct {
	net.Conn
	to netip.AddrPort
}

func (c connection) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("192.0.2.11:40000"))
}
func (c connection) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.to) }

func (r *router) Addresses(netip.Addr) ([]netip.Addr, error)     { return nil, nil }
func (r *router) Link(context.Context, string) (bgp.Link, error) { return nil, syscall.ENODEV }

func (r *router) Dial(_ context.Context, _ bgp.Peer, to netip.AddrPort, _ netip.Addr) (net.Conn, error) {
	ours, theirs := net.Pipe()
	r.running.Go(func() { // of AS 65001, without a hold time
		defer func() { _ = theirs.Close() }()
		message := func(kind byte, body ...byte) []byte {
			b := append(bytes.Repeat([]byte{0xff}, 16), 0, 0, kind)
			binary.BigEndian.PutUint16(b[16:], uint16(19+len(body)))
			return append(b, body...)
		}
		_, _ = theirs.Read(make([]byte, 4096))
		_, _ = theirs.Write(message(1, 4, 0xfd, 0xe9, 0, 0, 192, 0, 2, 1, 0))
		r.running.Go(func() { _, _ = theirs.Write(message(4)) })
		_, _ = io.Copy(io.Discard, theirs)
	})
	return connection{ours, to}, nil
}

// line is BFD with it.
type line struct {
	r    *router
	hear func([]byte, uint8)
}

func (r *router) Open(_ context.Context, _ bfd.Peer, hear func([]byte, uint8)) (bfd.Line, error) {
	return line{r, hear}, nil
}

func (line) Drain()       {}
func (line) Close() error { return nil }

func (l line) Send(b []byte) error {
	in, err := bfd.Decode(b)
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if err != nil || l.r.silent {
		return err
	}
	state := bfd.Init
	if in.State != bfd.Down {
		state = bfd.Up
	}
	out := bfd.Packet{State: state, Multiplier: 3, Mine: 7, Yours: in.Mine, Final: in.Poll, DesiredTx: 300 * time.Millisecond, RequiredRx: 300 * time.Millisecond}
	l.r.running.Go(func() { l.hear(out.Append(nil), 255) })
	return nil
}

// A path that has failed before another peer came to use it does not end the session of that peer.
func TestPathsThatFailedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := &router{}
		r := New(t.Context(), Options{Network: far, Wire: far})
		defer far.running.Wait()
		defer r.Close()
		profile := &lb.BFD{Transmit: 300 * time.Millisecond, Receive: 300 * time.Millisecond, Multiplier: 3, MinTTL: 1}
		peer := func(name string, port uint16) lb.Peer {
			return lb.Peer{Name: name, Address: addr("192.0.2.1"), Port: port, LocalAS: 65010, PeerAS: 65001, BFD: profile}
		}
		set := func(peers ...lb.Peer) {
			tables := map[string]bgp.Table{}
			for _, p := range peers {
				tables[p.Name] = bgp.Table{}
			}
			r.Set(addr("192.0.2.11"), peers, tables)
			<-time.After(10 * time.Second)
			synctest.Wait()
		}
		set(peer("one", 179))
		far.be(true)
		<-time.After(10 * time.Second)
		far.be(false)
		<-time.After(20 * time.Second)
		set(peer("one", 179), peer("two", 1179))
		for i, s := range r.Statuses() {
			if want := []uint64{2, 1}[i]; s.State != bgp.Established || s.Established != want || s.BFD == nil || s.BFD.State != bfd.Up || s.BFD.Downs != 1 {
				t.Errorf("%s is %v in its session %d, want %d; BFD is %+v", s.Name, s.State, s.Established, want, s.BFD)
			}
		}
	})
}
