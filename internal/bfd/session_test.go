package bfd

import (
	"errors"
	"testing"
	"time"
)

const fast = 50 * time.Millisecond

var fastProfile = Profile{Transmit: fast, Receive: fast, Multiplier: 3}

func never() float64 { return 0.999999 } // no jitter

// peerPacket is a packet of a peer that knows session 7.
func peerPacket(s State) Packet {
	return Packet{State: s, Multiplier: 3, Mine: 9, Yours: 7, DesiredTx: fast, RequiredRx: fast}
}

// sessionIn returns a session in a state.
func sessionIn(t *testing.T, now time.Time, want State) *Session {
	t.Helper()
	s := NewSession(now, fastProfile, 7, never)
	s.Wake(now)
	steps := map[State][]State{Down: nil, Init: {Down}, Up: {Down, Up}}[want]
	for _, remote := range steps {
		in := peerPacket(remote)
		if _, _, err := s.Receive(now, &in); err != nil {
			t.Fatal(err)
		}
	}
	if want == AdminDown {
		s.Shut(now)
	}
	if s.State != want {
		t.Fatalf("state is %s, want %s", s.State, want)
	}
	return s
}

// The state machine of RFC 5880 §6.2 and §6.8.6, all of it.
func TestStates(t *testing.T) {
	type result struct {
		state State
		cause Cause
		downs uint64
		sends bool
	}
	for _, c := range []struct {
		local, remote State
		want          result
	}{
		{AdminDown, AdminDown, result{AdminDown, LocalAdminDown, 0, false}},
		{AdminDown, Down, result{AdminDown, LocalAdminDown, 0, false}},
		{AdminDown, Init, result{AdminDown, LocalAdminDown, 0, false}},
		{AdminDown, Up, result{AdminDown, LocalAdminDown, 0, false}},
		{Down, AdminDown, result{Down, NeighborAdminDown, 0, false}},
		{Down, Down, result{Init, NoAnswer, 0, true}},
		{Down, Init, result{Up, NoCause, 0, true}},
		{Down, Up, result{Down, NoAnswer, 0, false}},
		{Init, AdminDown, result{Down, NeighborAdminDown, 0, true}},
		{Init, Down, result{Init, NoAnswer, 0, false}},
		{Init, Init, result{Up, NoCause, 0, true}},
		{Init, Up, result{Up, NoCause, 0, true}},
		{Up, AdminDown, result{Down, NeighborAdminDown, 0, true}}, // RFC 5882: not a failure
		{Up, Down, result{Down, NeighborDown, 1, true}},
		{Up, Init, result{Up, NoCause, 0, false}},
		{Up, Up, result{Up, NoCause, 0, false}},
	} {
		t.Run(c.local.String()+" hears "+c.remote.String(), func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := sessionIn(t, now, c.local)
			in := peerPacket(c.remote)
			out, sends, err := s.Receive(now, &in)
			if err != nil {
				t.Fatal(err)
			}
			if got := (result{s.State, s.Cause, s.Downs, sends}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if sends && (out.State != s.State || out.Yours != 9 || out.Mine != 7) {
				t.Errorf("sends %+v", out)
			}
		})
	}
}

// FRR that stops BFD for a neighbor says that the neighbor went down. That is not a failure; a
// detection time that ended is.
func TestRemovedByPeer(t *testing.T) {
	now := time.Unix(1000, 0)
	for diagnostic, downs := range map[Diagnostic]uint64{NeighborSaidDown: 0, DetectionExpired: 1, NoDiagnostic: 1} {
		s := sessionIn(t, now, Up)
		in := peerPacket(Down)
		in.Diagnostic = diagnostic
		if _, _, err := s.Receive(now, &in); err != nil || s.State != Down || s.Downs != downs {
			t.Errorf("diagnostic %d: %s, failed %d times, %v", diagnostic, s.State, s.Downs, err)
		}
	}
}

func TestDetectionTime(t *testing.T) {
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		local State
		cause Cause
		downs uint64
	}{{Init, Expired, 0}, {Up, Expired, 1}} {
		s := sessionIn(t, start, c.local)
		lost := start.Add(3 * fast)
		if s.Expires(lost.Add(-1)) || !s.Expires(lost) {
			t.Errorf("%s: lost at %v", c.local, s.detectAt.Sub(start))
		}
		out, sends := s.Wake(lost)
		if s.State != Down || s.Cause != c.cause || s.Downs != c.downs {
			t.Errorf("%s becomes %s, cause %d, downs %d", c.local, s.State, s.Cause, s.Downs)
		}
		if !sends || out.State != Down || out.Diagnostic != DetectionExpired || out.Yours != 0 {
			t.Errorf("sends %v %+v", sends, out)
		}
		if out.DesiredTx != slow {
			t.Errorf("wants to send every %v while down", out.DesiredTx)
		}
	}
}

// A packet of the peer's earlier session does not count.
func TestOtherSession(t *testing.T) {
	now := time.Unix(1000, 0)
	s := sessionIn(t, now, Up)
	in := peerPacket(Down)
	in.Yours = 8
	if _, _, err := s.Receive(now, &in); !errors.Is(err, ErrOtherSession) || s.State != Up {
		t.Errorf("%v, state %s", err, s.State)
	}
}

// Jitter makes intervals shorter by up to a quarter, and by at least a tenth if no packet
// may be late.
func TestJitter(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		multiplier uint8
		random     float64
		want       time.Duration
	}{{3, 0, 750 * time.Millisecond}, {3, 0.5, 875 * time.Millisecond}, {1, 0, 750 * time.Millisecond}, {1, 0.999999999, 900 * time.Millisecond}} {
		s := NewSession(now, Profile{Multiplier: c.multiplier}, 7, func() float64 { return c.random })
		s.Wake(now)
		if got := s.Next().Sub(now).Round(time.Millisecond); got != c.want {
			t.Errorf("multiplier %d, random %v: %v, want %v", c.multiplier, c.random, got, c.want)
		}
	}
}

// A peer that goes from one second to 50 ms expects the next packet after 50 ms; no other
// packet moves ours.
func TestPeerSpeedsUp(t *testing.T) {
	now := time.Unix(1000, 0)
	s := sessionIn(t, now, Down)
	in := peerPacket(Down)
	in.RequiredRx = time.Second
	if _, _, err := s.Receive(now, &in); err != nil {
		t.Fatal(err)
	}
	in.State = Up
	if _, _, err := s.Receive(now, &in); err != nil {
		t.Fatal(err)
	}
	if got := s.Next().Sub(now); got < 149*time.Millisecond { // detection comes first
		t.Fatalf("next after %v", got)
	}
	now = now.Add(20 * time.Millisecond)
	in.RequiredRx, in.Poll = fast, true
	out, sends, err := s.Receive(now, &in)
	if err != nil || !sends || !out.Final || out.Poll {
		t.Errorf("a poll is answered by %v, %+v, %v", sends, out, err)
	}
	if got := s.Next().Sub(now).Round(time.Millisecond); got != 30*time.Millisecond {
		t.Errorf("next after %v, want 30ms: 50ms after the last packet", got)
	}
	in.Poll = false
	planned := s.Next()
	for range 100 {
		now = now.Add(time.Microsecond)
		if _, _, err := s.Receive(now, &in); err != nil {
			t.Fatal(err)
		}
	}
	if !s.Next().Equal(planned) {
		t.Errorf("packets of the peer move ours by %v", s.Next().Sub(planned))
	}
}

// Longer intervals of ours, and shorter ones of the peer, count when the peer has confirmed
// them (RFC 5880 §6.8.3).
func TestPollSequence(t *testing.T) {
	now := time.Unix(1000, 0)
	s := sessionIn(t, now, Up)
	confirm := func() {
		t.Helper()
		now = s.Next()
		out, sends := s.Wake(now)
		if !sends || !out.Poll || out.Final {
			t.Fatalf("does not poll: %v %+v", sends, out)
		}
		in := peerPacket(Up)
		in.Final = true
		if _, _, err := s.Receive(now, &in); err != nil {
			t.Fatal(err)
		}
	}
	confirm() // from one second to 50 ms, when it came up
	if s.Polling || s.Interval() != fast || s.Detection() != 3*fast {
		t.Fatalf("polling %v, interval %v, detection %v", s.Polling, s.Interval(), s.Detection())
	}
	s.Change(now, Profile{Transmit: 4 * fast, Receive: 4 * fast, Multiplier: 3})
	if s.Interval() != fast || s.Detection() != 12*fast {
		t.Errorf("slower, not confirmed: interval %v, detection %v", s.Interval(), s.Detection())
	}
	confirm()
	if s.Polling || s.Interval() != 4*fast || s.Detection() != 12*fast {
		t.Errorf("slower, confirmed: interval %v, detection %v", s.Interval(), s.Detection())
	}
	s.Change(now, fastProfile)
	if s.Interval() != fast || s.Detection() != 12*fast {
		t.Errorf("faster, not confirmed: interval %v, detection %v", s.Interval(), s.Detection())
	}
	now = s.Next()
	s.Wake(now)
	s.Change(now, Profile{Transmit: 2 * fast, Receive: 2 * fast, Multiplier: 3}) // after the peer was asked
	in := peerPacket(Up)
	in.Final = true
	if _, _, err := s.Receive(now, &in); err != nil {
		t.Fatal(err)
	}
	if !s.Polling || s.Interval() != fast {
		t.Errorf("the answer to an earlier question counts: polling %v, interval %v", s.Polling, s.Interval())
	}
	confirm()
	if s.Polling || s.Interval() != 2*fast || s.Detection() != 6*fast || s.Downs != 0 || s.State != Up {
		t.Errorf("at last: polling %v, interval %v, detection %v, %s", s.Polling, s.Interval(), s.Detection(), s.State)
	}
}

// Peers that want no packets, or none while both are up, get none.
func TestPeerWantsSilence(t *testing.T) {
	now := time.Unix(1000, 0)
	s := sessionIn(t, now, Up)
	in := peerPacket(Up)
	in.Final, in.RequiredRx = true, 0
	if _, _, err := s.Receive(now, &in); err != nil {
		t.Fatal(err)
	}
	if !s.transmitAt.IsZero() {
		t.Error("sends to a peer that cannot receive")
	}
	in.RequiredRx, in.Demand = fast, true
	s.Polling = false
	if _, _, err := s.Receive(now, &in); err != nil {
		t.Fatal(err)
	}
	if !s.transmitAt.IsZero() {
		t.Error("sends to a peer in demand mode")
	}
	lost := s.Next()
	s.Wake(lost)
	if s.State != Down || s.transmitAt.IsZero() {
		t.Errorf("%s, next %v: a lost peer hears of it", s.State, s.transmitAt)
	}
}
