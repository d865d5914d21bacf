package bgp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// fakeNet is a network with one router behind pipes.
type fakeNet struct {
	dials chan time.Time
	// accept returns why there is no connection.
	accept func(p Peer, source netip.Addr) error
	conns  chan net.Conn
	// addresses of the interface.
	addresses []netip.Addr
	link      *fakeLink
}

func newFakeNet() *fakeNet {
	return &fakeNet{dials: make(chan time.Time, 100), conns: make(chan net.Conn), accept: func(Peer, netip.Addr) error { return nil }}
}

type pipe struct {
	net.Conn
	local, remote net.Addr
}

func (p pipe) LocalAddr() net.Addr  { return p.local }
func (p pipe) RemoteAddr() net.Addr { return p.remote }

func (n *fakeNet) Dial(ctx context.Context, p Peer, to netip.AddrPort, source netip.Addr) (net.Conn, error) {
	n.dials <- time.Now()
	if err := n.accept(p, source); err != nil {
		return nil, err
	}
	ours, theirs := net.Pipe()
	local := netip.MustParseAddr("192.0.2.11")
	if to.Addr().Is6() {
		local = netip.MustParseAddr("fe80::11%eth0")
	}
	select {
	case n.conns <- theirs:
		return pipe{ours, net.TCPAddrFromAddrPort(netip.AddrPortFrom(local, 40000)), net.TCPAddrFromAddrPort(to)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *fakeNet) Addresses(netip.Addr) ([]netip.Addr, error) { return n.addresses, nil }

func (n *fakeNet) Link(context.Context, string) (Link, error) {
	if n.link == nil {
		return nil, syscall.ENODEV
	}
	return n.link, nil
}

// far is the router's end of a connection.
type far struct {
	t    *testing.T
	conn net.Conn
	in   *reader
}

// world is a speaker with one peer, and its network.
type world struct {
	*Speaker
	t     *testing.T
	net   *fakeNet
	alive atomic.Bool
}

// start runs a speaker in virtual time; what is still there is stopped at the end.
func start(t *testing.T, p Peer) *world { return startOn(t, p, func(*fakeNet) {}) }

func startOn(t *testing.T, p Peer, change func(*fakeNet)) *world {
	w := &world{t: t, net: newFakeNet()}
	change(w.net)
	w.net.addresses = []netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("fe80::11"), netip.MustParseAddr("2001:db8::11")}
	w.alive.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	w.Speaker = Start(ctx, Config{Network: w.net, Alive: w.alive.Load})
	w.SetPeers(map[string]Peer{"r1": p})
	t.Cleanup(func() {
		cancel()
		w.Wait()
	})
	return w
}

func (w *world) accept() *far {
	w.t.Helper()
	conn := <-w.net.conns
	w.t.Cleanup(func() { _ = conn.Close() })
	return &far{w.t, conn, &reader{from: conn}}
}

func (r *far) send(kind byte, body ...byte) {
	b := append(bytes.Clone(marker), 0, 0, kind)
	b = append(b, body...)
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)))
	_, _ = r.conn.Write(b)
}

// next message, with its header.
func (r *far) next() []byte {
	r.t.Helper()
	kind, body, err := r.in.next()
	if err != nil {
		r.t.Fatalf("the router reads: %v", err)
	}
	b := append(bytes.Clone(marker), 0, 0, kind)
	b = append(b, body...)
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)))
	return b
}

func (r *far) expect(kind byte) []byte {
	r.t.Helper()
	b := r.next()
	if b[18] != kind {
		r.t.Fatalf("the router got a message of type %d, want %d: % x", b[18], kind, b)
	}
	return b[headerSize:]
}

// shake does a router's part until the session is established.
func (r *far) shake(p Peer) (open []byte) {
	r.t.Helper()
	open = r.expect(typeOpen)
	b, err := hello(p, lb.IPv4, false, false)
	if err != nil {
		r.t.Fatal(err)
	}
	_, _ = r.conn.Write(b)
	r.expect(typeKeepalive)
	r.send(typeKeepalive)
	return open
}

// fill reads UPDATEs into a table until n End-of-RIBs have come.
func (r *far) fill(to rib, n int) {
	r.t.Helper()
	for n > 0 {
		b := r.next()
		if b[18] == typeUpdate {
			n -= to.apply(r.t, b)
		}
	}
}

// ignore reads until the end.
func (r *far) ignore() { go func() { _, _ = io.Copy(io.Discard, r.conn) }() }

func (w *world) status() Status {
	st, _ := w.Status("r1")
	return st
}

func (w *world) failure(kind Kind) *Failure {
	w.t.Helper()
	synctest.Wait()
	f := w.status().Failure
	if f == nil || f.Kind != kind {
		w.t.Fatalf("the failure is %+v, want %v", f, kind)
	}
	return f
}

func TestSessionAnnouncesAndWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, node())
		synctest.Wait()
		if len(w.net.dials) > 0 {
			t.Fatal("it connects before there is a table")
		}
		w.Set("r1", table("203.0.113.1/32", "2001:db8:9::1/128"))
		r := w.accept()
		open := r.shake(upstream())
		if !bytes.Contains(open, []byte{64, 10, 0x80, 30}) {
			t.Errorf("the first OPEN says not that we restart: % x", open)
		}
		got := rib{}
		r.fill(got, 2)
		if len(got) != 2 || !strings.Contains(got["2001:db8:9::1/128"], "via 2001:db8::11") {
			t.Errorf("the router has %v", got)
		}
		synctest.Wait()
		if st := w.status(); st.State != Established || st.Prefixes != 2 || !st.Synced || st.PeerAS != 65001 || st.Failure != nil || st.Established != 1 || !st.GracefulRestart {
			t.Errorf("status: %+v", st)
		}
		// One route more and one less: two UPDATEs, and no End-of-RIB.
		w.Set("r1", table("203.0.113.2/32", "2001:db8:9::1/128"))
		got.apply(t, r.next(), r.next())
		if len(got) != 2 || got["203.0.113.2/32"] == "" {
			t.Errorf("the router has %v", got)
		}
		// The router asks again, for one family.
		got = rib{}
		go r.send(typeRefresh, 0, 1, 0, 1)
		got.apply(t, r.next())
		if len(got) != 1 || got["203.0.113.2/32"] == "" {
			t.Errorf("after a refresh the router has %v", got)
		}
		// The connection breaks after a while; the next one is there at once.
		r.ignore()
		pass(20 * time.Second)
		_ = r.conn.Close()
		r = w.accept()
		if open := r.shake(upstream()); !bytes.Contains(open, []byte{64, 10, 0x00, 30}) {
			t.Errorf("the second OPEN says that we restart: % x", open)
		}
		if f := w.status(); f.Failure != nil && f.Failure.Kind != Closed {
			t.Errorf("status: %+v", f)
		}
		got = rib{}
		r.fill(got, 2)
		if len(got) != 2 {
			t.Errorf("the second time the router has %v", got)
		}
		go w.Stop(t.Context(), "node1 is drained")
		if bye := readNotification(r.expect(typeNotification)); bye.Code != codeCease || bye.Subcode != ceaseShutdown || bye.Words != "node1 is drained" {
			t.Errorf("goodbye: %+v", bye)
		}
	})
}

func TestSessionTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node()
		p.Hold, p.Keepalive = 9*time.Second, 0
		w := start(t, p)
		w.Set("r1", nil)
		r := w.accept()
		r.shake(upstream())
		r.fill(rib{}, 2)
		// Keepalives come before a third of the hold time has passed; we answer none.
		began := time.Now()
		for range 2 {
			before := time.Now()
			r.expect(typeKeepalive)
			if d := time.Since(before); d > 3*time.Second || d < 2250*time.Millisecond {
				t.Errorf("keepalive after %v", d)
			}
		}
		go func() {
			for {
				if _, _, err := r.in.next(); err != nil {
					return
				}
			}
		}()
		<-w.net.dials
		synctest.Wait()
		pass(time.Until(began.Add(8900 * time.Millisecond)))
		synctest.Wait()
		if w.status().State != Established {
			t.Error("the session ends before the hold time")
		}
		pass(200 * time.Millisecond)
		if f := w.failure(HoldExpired); f.Code != codeHold || !f.sends() {
			t.Errorf("failure: %+v", f)
		}
	})
}

func TestSessionWithoutKeepalives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node()
		p.Hold, p.Keepalive = 0, 0
		w := start(t, p)
		w.Set("r1", nil)
		r := w.accept()
		r.shake(upstream())
		r.ignore()
		pass(24 * time.Hour)
		if st := w.status(); st.State != Established || st.Sent.Keepalives != 1 {
			t.Errorf("status: %+v", st)
		}
	})
}

func TestNoKeepalivesWhileTheOwnerStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node()
		p.Hold, p.Keepalive = 9*time.Second, 3*time.Second
		w := start(t, p)
		w.Set("r1", nil)
		r := w.accept()
		r.shake(upstream())
		r.fill(rib{}, 2)
		r.expect(typeKeepalive)
		w.alive.Store(false)
		_ = r.conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		if kind, _, err := r.in.next(); err == nil {
			t.Fatalf("the router got a message of type %d", kind)
		}
		_ = r.conn.SetReadDeadline(time.Time{})
		w.alive.Store(true) // in time: it makes up for it at once
		before := time.Now()
		r.expect(typeKeepalive)
		if d := time.Since(before); d > aliveCheck {
			t.Errorf("keepalive %v after the owner is back", d)
		}
		// And not in time: the router ends it, and nobody begins again before the owner does.
		w.alive.Store(false)
		r.ignore()
		r.send(typeKeepalive)
		pass(8 * time.Second)
		r.send(typeNotification, codeHold, 0)
		_ = r.conn.Close()
		w.failure(Stalled)
		<-w.net.dials
		pass(time.Hour)
		if len(w.net.dials) > 0 {
			t.Error("it connects while the owner stands still")
		}
		w.alive.Store(true)
		w.accept()
	})
}

func TestDialing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, node())
		w.net.accept = func(Peer, netip.Addr) error { return &net.OpError{Err: syscall.ECONNREFUSED} }
		began := time.Now()
		w.Set("r1", nil)
		last := <-w.net.dials
		if last != began {
			t.Errorf("the first attempt comes after %v", last.Sub(began))
		}
		for _, want := range []time.Duration{1, 2, 4, 5, 5} {
			at := <-w.net.dials
			if pause, want := at.Sub(last), want*time.Second; pause < want || pause > want*5/4 {
				t.Errorf("pause of %v, want %v", pause, want)
			}
			last = at
		}
		if f := w.failure(Unreachable); !strings.Contains(f.Text, "192.0.2.1 refuses connections to port 179") {
			t.Error(f)
		}
		w.Retry("r1")
		if at := <-w.net.dials; at != last {
			t.Errorf("after a nudge it takes %v", at.Sub(last))
		}
		// A shorter limit of the peer holds from now on, without another session.
		p := node()
		p.ConnectTime = time.Second
		w.SetPeers(map[string]Peer{"r1": p})
		synctest.Wait()
		<-w.net.dials
		last = <-w.net.dials
		if at := <-w.net.dials; at.Sub(last) != time.Second {
			t.Errorf("pause of %v", at.Sub(last))
		}
	})
}

func TestSourceThatTheNodeDoesNotHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := node()
		p.Source = netip.MustParseAddr("192.0.2.99")
		w := start(t, p)
		w.net.accept = func(_ Peer, source netip.Addr) error {
			if source == p.Source {
				return &net.OpError{Err: syscall.EADDRNOTAVAIL}
			}
			return nil
		}
		w.Set("r1", nil)
		r := w.accept()
		r.shake(upstream())
		r.fill(rib{}, 2)
		synctest.Wait()
		if st := w.status(); st.State != Established || !st.SourceMissing {
			t.Errorf("status: %+v", st)
		}
	})
}

func TestFailedDials(t *testing.T) {
	for _, test := range []struct {
		err  error
		kind Kind
		text string
	}{
		{syscall.EHOSTUNREACH, Unreachable, "no route to 192.0.2.1"},
		{syscall.ENODEV, Unreachable, `no device "red"`},
		{context.DeadlineExceeded, Silent, "wrong password"},
		{errors.New("something else"), Unreachable, "something else"},
	} {
		p := node()
		p.VRF, p.Password = "red", "secret"
		f := unreachable(p, netip.AddrPortFrom(p.Address, 179), &net.OpError{Op: "dial", Err: test.err})
		if f.Kind != test.kind || !strings.Contains(f.Text, test.text) || strings.Contains(f.Text, "secret") {
			t.Errorf("%v: %+v", test.err, f)
		}
	}
}

func TestRetryWithoutOptionalCapabilities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, node())
		w.Set("r1", nil)
		r := w.accept()
		r.expect(typeOpen)
		r.send(typeNotification, codeOpen, openCapability)
		r = w.accept()
		o, f := readOpen(r.expect(typeOpen))
		if f != nil || o.gracefulRestart || !o.fourOctets || len(o.families) != 2 {
			t.Errorf("the second OPEN: %+v, %v", o, f)
		}
	})
}

// TestRoutersThatMisbehave: each has a reason; the next attempt works.
func TestRoutersThatMisbehave(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(r *far)
		kind Kind
		code [2]uint8
		text string
	}{
		{"closes", func(r *far) {}, Closed, [2]uint8{}, "closed the connection"},
		{"refuses instead of an OPEN", func(r *far) { r.send(typeNotification, codeCease, ceaseRejected) }, Conflict, [2]uint8{6, 5}, "Another BGP speaker"},
		{"talks something else", func(r *far) {
			r.ignore()
			_, _ = r.conn.Write([]byte("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"))
		}, Garbage, [2]uint8{1, 1}, "does not speak BGP"},
		{"sends a long message", func(r *far) {
			r.ignore()
			_, _ = r.conn.Write(append(bytes.Clone(marker), 0xff, 0xff, typeUpdate))
		}, Garbage, [2]uint8{1, 2}, "65535 bytes"},
		{"sends an unknown type", func(r *far) { r.ignore(); r.send(99) }, Garbage, [2]uint8{1, 3}, "unknown type 99"},
		{"sends a short OPEN", func(r *far) { r.ignore(); r.send(typeOpen, 4, 0, 1) }, Garbage, [2]uint8{1, 2}, "with 22 bytes"},
		{"sends a malformed OPEN", func(r *far) {
			r.ignore()
			r.send(typeOpen, 4, 0xfd, 0xe9, 0, 90, 1, 2, 3, 4, 4, 2, 9, 1, 1)
		}, Garbage, [2]uint8{2, 0}, "cut off"},
		{"sends a malformed capability", func(r *far) {
			r.ignore()
			r.send(typeOpen, 4, 0xfd, 0xe9, 0, 90, 1, 2, 3, 4, 5, 2, 3, 65, 1, 1)
		}, Garbage, [2]uint8{2, 0}, "malformed capability 65"},
		{"sends an UPDATE first", func(r *far) { r.ignore(); r.send(typeUpdate, 0, 0, 0, 0) }, Garbage, [2]uint8{5, 1}, "state OpenSent"},
		{"has another AS", func(r *far) {
			r.ignore()
			p := upstream()
			p.LocalAS = 65099
			b, _ := hello(p, lb.IPv4, false, false)
			_, _ = r.conn.Write(b)
		}, Rejected, [2]uint8{2, 2}, "says it is AS 65099; configured is AS 65001"},
		{"never answers", func(r *far) { r.ignore(); pass(openWait + time.Second/2) }, HoldExpired, [2]uint8{4, 0}, "does not answer an OPEN"},
		{"never reads", func(r *far) { pass(writeWait + time.Second/2) }, Stuck, [2]uint8{}, "not taken anything"},
		{"opens twice", func(r *far) {
			r.shake(upstream())
			r.ignore()
			b, _ := hello(upstream(), lb.IPv4, false, false)
			_, _ = r.conn.Write(b)
			synctest.Wait()
		}, Garbage, [2]uint8{5, 3}, "state Established"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, node())
				w.Set("r1", table("203.0.113.1/32"))
				r := w.accept()
				if test.name != "never reads" && test.name != "opens twice" {
					r.expect(typeOpen)
				}
				test.do(r)
				_ = r.conn.Close()
				f := w.failure(test.kind)
				if [2]uint8{f.Code, f.Subcode} != test.code || !strings.Contains(f.Text, test.text) {
					t.Errorf("%d/%d: %s", f.Code, f.Subcode, f.Text)
				}
				r = w.accept()
				r.shake(upstream())
				got := rib{}
				r.fill(got, 2)
				synctest.Wait()
				if len(got) != 1 || w.status().Failure != nil {
					t.Errorf("afterwards the router has %v; %+v", got, w.status())
				}
			})
		})
	}
}

// TestFullTable: what a router announces is neither kept nor looked at, not even if malformed.
func TestFullTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, node())
		w.Set("r1", table("203.0.113.1/32"))
		r := w.accept()
		r.shake(upstream())
		r.fill(rib{}, 2)
		var reading sync.WaitGroup
		reading.Go(r.ignoreHere)
		junk := bytes.Repeat([]byte{0xaa}, maxMessage-headerSize)
		allocated := testing.AllocsPerRun(1000, func() { r.send(typeUpdate, junk...) })
		synctest.Wait()
		st := w.status()
		if st.State != Established || st.Received.Updates != 1001 {
			t.Errorf("status: %+v", st)
		}
		if allocated > 5 { // of the router
			t.Errorf("%v allocations for each message", allocated)
		}
		_ = r.conn.Close()
		reading.Wait()
	})
}

func (r *far) ignoreHere() { _, _ = io.Copy(io.Discard, r.conn) }

func TestPeersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, node())
		w.Set("r1", table("203.0.113.1/32"))
		r := w.accept()
		r.shake(upstream())
		r.fill(rib{}, 2)
		// A limit changes nothing of the session, another AS does.
		p := node()
		p.MaxPrefixes = 5
		w.SetPeers(map[string]Peer{"r1": p})
		p.LocalAS = 65011
		go w.SetPeers(map[string]Peer{"r1": p})
		if bye := readNotification(r.expect(typeNotification)); bye.Code != codeCease || bye.Subcode != ceaseChange {
			t.Errorf("goodbye: %+v", bye)
		}
		r = w.accept()
		if o, f := readOpen(r.expect(typeOpen)); f != nil || o.as != 65011 {
			t.Errorf("the new session says %+v, %v", o, f)
		}
		go w.SetPeers(nil)
		if bye := readNotification(r.expect(typeNotification)); bye.Code != codeCease || bye.Subcode != ceaseDeconfigured {
			t.Errorf("goodbye: %+v", bye)
		}
		if _, ok := w.Status("r1"); ok {
			t.Error("the peer is still there")
		}
	})
}

func TestBFDEndsASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, node())
		w.Set("r1", nil)
		r := w.accept()
		r.shake(upstream())
		r.fill(rib{}, 2)
		w.BFDDown("r1")
		if bye := readNotification(r.expect(typeNotification)); bye.Code != codeCease || bye.Subcode != ceaseBFD {
			t.Errorf("goodbye: %+v", bye)
		}
		before := time.Now()
		r = w.accept()
		if time.Since(before) > 0 {
			t.Errorf("it connects %v later", time.Since(before))
		}
		r.shake(upstream())
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }
