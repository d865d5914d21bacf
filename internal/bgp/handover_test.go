package bgp

import (
	"context"
	"encoding/json"
	"net"
	"net/netip"
	"testing"
	"time"

	"fairlead.io/internal/lb"
	"fairlead.io/test/kit/netns"
)

// listen is a router on this machine's loopback interface.
func listen(t *testing.T) (*net.TCPListener, Peer) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := node()
	p.Address, p.Port, p.DualStack = netip.MustParseAddr("127.0.0.1"), uint16(l.Addr().(*net.TCPAddr).Port), false
	return l, p
}

func acceptFrom(t *testing.T, l *net.TCPListener) *far {
	t.Helper()
	_ = l.SetDeadline(time.Now().Add(time.Minute))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return &far{t, conn, &reader{from: conn}}
}

// process is a speaker that ends with the test, as a process does.
func process(t *testing.T, inherited map[string]*Frozen, peers map[string]Peer, later ...string) *Speaker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := Start(ctx, Config{Network: Kernel{}})
	t.Cleanup(func() {
		cancel()
		s.Wait()
	})
	s.Continue(inherited)
	s.SetPeers(peers, later...)
	return s
}

// posted sends frozen sessions through JSON, as between two processes.
func posted(t *testing.T, sessions map[string]*Frozen) map[string]*Frozen {
	t.Helper()
	out := map[string]*Frozen{}
	for name, f := range sessions {
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		got := &Frozen{FD: f.FD}
		if err := json.Unmarshal(b, got); err != nil {
			t.Fatal(err)
		}
		out[name] = got
	}
	return out
}

func TestSuccessorContinues(t *testing.T) {
	l, p := listen(t)
	before := process(t, nil, map[string]Peer{"r1": p})
	before.Set("r1", many(lb.IPv4, 1000))
	r := acceptFrom(t, l)
	r.shake(upstream())
	got := rib{}
	r.fill(got, 1)
	// Half a message is on its way.
	if _, err := r.conn.Write(keepalive[:7]); err != nil {
		t.Fatal(err)
	}
	frozen := before.Freeze(t.Context())
	if len(frozen) != 1 || frozen["r1"] == nil {
		t.Fatalf("frozen: %v", frozen)
	}
	after := process(t, posted(t, frozen), map[string]Peer{"r1": p})
	r.expect(typeKeepalive)
	if _, err := r.conn.Write(keepalive[7:]); err != nil {
		t.Fatal(err)
	}
	// The same table costs nothing, the next change one message.
	after.Set("r1", many(lb.IPv4, 1000))
	netns.Eventually(t, time.Minute, "the session is in sync", func() bool {
		st, _ := after.Status("r1")
		return st.State == Established && st.Synced && st.Prefixes == 1000
	})
	want := many(lb.IPv4, 999)
	after.Set("r1", want)
	got.apply(t, r.next())
	if len(got) != 999 {
		t.Errorf("the router has %d prefixes", len(got))
	}
	netns.Eventually(t, time.Minute, "one UPDATE was enough", func() bool {
		st, _ := after.Status("r1")
		return st.Synced && st.Sent.Updates == 1 && st.Sent.Opens == 0 && st.Received.Keepalives == 1
	})
	// A refresh shows that the successor knows what was agreed.
	r.send(typeRefresh, 0, 1, 0, 1)
	again := rib{}
	again.apply(t, r.next(), r.next())
	if len(again) != 999 {
		t.Errorf("after a refresh the router has %d prefixes", len(again))
	}
	go after.Stop(t.Context(), "over")
	if bye := readNotification(r.expect(typeNotification)); bye.Words != "over" {
		t.Errorf("goodbye: %+v", bye)
	}
}

// TestSuccessorWithAnotherConfiguration: a session that is no longer wanted as it is ends.
func TestSuccessorWithAnotherConfiguration(t *testing.T) {
	for name, change := range map[string]func(map[string]Peer){
		"another AS": func(peers map[string]Peer) {
			p := peers["r1"]
			p.LocalAS++
			peers["r1"] = p
		},
		"another password": func(peers map[string]Peer) {
			p := peers["r1"]
			p.Password = "new"
			peers["r1"] = p
		},
		"no such peer": func(peers map[string]Peer) { delete(peers, "r1") },
	} {
		t.Run(name, func(t *testing.T) {
			l, p := listen(t)
			peers := map[string]Peer{"r1": p}
			before := process(t, nil, peers)
			before.Set("r1", nil)
			r := acceptFrom(t, l)
			r.shake(upstream())
			r.fill(rib{}, 1)
			frozen := posted(t, before.Freeze(t.Context()))
			change(peers)
			process(t, frozen, peers)
			if bye := readNotification(r.expect(typeNotification)); bye.Code != codeCease {
				t.Errorf("goodbye: %+v", bye)
			}
		})
	}
}

// TestSuccessorWaitsForAPeer: a session whose peer is not known entirely, such as one whose
// password was not read yet, is kept until it is, and can be handed over meanwhile.
func TestSuccessorWaitsForAPeer(t *testing.T) {
	l, p := listen(t)
	before := process(t, nil, map[string]Peer{"r1": p})
	before.Set("r1", many(lb.IPv4, 10))
	r := acceptFrom(t, l)
	r.shake(upstream())
	r.fill(rib{}, 1)
	waits := process(t, posted(t, before.Freeze(t.Context())), nil, "r1")
	waits.SetPeers(nil, "r1")
	if _, has := waits.Status("r1"); has {
		t.Error("there is a session, although its peer is not known")
	}
	after := process(t, posted(t, waits.Freeze(t.Context())), nil, "r1")
	after.SetPeers(map[string]Peer{"r1": p})
	r.expect(typeKeepalive)
	after.Set("r1", many(lb.IPv4, 9))
	got := rib{}
	got.apply(t, r.next())
	netns.Eventually(t, time.Minute, "the session goes on", func() bool {
		st, _ := after.Status("r1")
		return st.State == Established && st.Synced && st.Prefixes == 9 && st.Sent.Opens == 0
	})
	// Without the peer it ends.
	last := process(t, posted(t, after.Freeze(t.Context())), nil, "r1")
	last.SetPeers(nil)
	if bye := readNotification(r.expect(typeNotification)); bye.Code != codeCease {
		t.Errorf("goodbye: %+v", bye)
	}
}

// TestFreezeOfWhatIsNotEstablished: there is nothing to hand over, and nothing is left.
func TestFreezeOfWhatIsNotEstablished(t *testing.T) {
	l, p := listen(t)
	s := process(t, nil, map[string]Peer{"r1": p})
	s.Set("r1", nil)
	r := acceptFrom(t, l)
	r.expect(typeOpen)
	if frozen := s.Freeze(t.Context()); len(frozen) > 0 {
		t.Errorf("frozen: %v", frozen)
	}
	if kind, _, err := r.in.next(); err == nil {
		t.Errorf("the router got a message of type %d", kind)
	}
}

// TestEndOfTheProcess: without Stop there is no NOTIFICATION, so routers keep the routes for
// the restart time.
func TestEndOfTheProcess(t *testing.T) {
	l, p := listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := Start(ctx, Config{Network: Kernel{}})
	s.SetPeers(map[string]Peer{"r1": p})
	s.Set("r1", nil)
	r := acceptFrom(t, l)
	r.shake(upstream())
	r.fill(rib{}, 1)
	cancel()
	s.Wait()
	if kind, _, err := r.in.next(); err == nil {
		t.Errorf("the router got a message of type %d", kind)
	}
}
