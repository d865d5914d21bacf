package bfd

import (
	"time"
)

// Cause says why a session is not Up.
type Cause uint8

// Causes that a session itself knows.
const (
	NoCause           Cause = iota
	NoAnswer                // nothing was ever heard of the peer
	Expired                 // nothing was heard for the detection time
	NeighborDown            // the peer reported the session as down
	NeighborAdminDown       // somebody disabled BFD at the peer: the path may be fine
	LocalAdminDown          // we were told to end
)

// Memory is what a session knows. A successor continues the session from it.
type Memory struct {
	State, Remote                State
	Diagnostic, RemoteDiagnostic Diagnostic
	Mine, Yours                  uint32
	Cause                        Cause

	// What the peer said last.
	RemoteTx, RemoteRx time.Duration
	RemoteMultiplier   uint8
	RemoteDemand       bool

	// What we said last, and what counts: a longer interval of ours, and a shorter one of the
	// peer, count only when the peer has confirmed them (RFC 5880 §6.8.3).
	ToldTx, ToldRx, UsedTx, UsedRx time.Duration

	// Polling: the peer has to confirm the intervals. Asked: it was asked to. Again: they
	// changed after it was asked, so that its answer is about the old ones.
	Polling, Asked, Again bool

	// Ups counts how often the session came up, Downs how often it failed: an end that
	// somebody asked for is not a failure.
	Ups, Downs uint64
}

// Session is one end of a BFD session. Its methods take the time and must not be called
// from two goroutines at once.
type Session struct {
	Memory
	profile Profile
	random  func() float64 // from [0, 1)

	sentAt     time.Time // when the last periodic packet was sent
	transmitAt time.Time // when the next one is due; never, if zero
	detectAt   time.Time // when the peer counts as lost; never, if zero
	endAt      time.Time // when a session that was shut has told the peer often enough
}

// NewSession returns a session that is Down and sends its first packet at once.
func NewSession(now time.Time, p Profile, mine uint32, random func() float64) *Session {
	s := &Session{profile: p.withDefaults(), random: random,
		Memory: Memory{State: Down, Remote: Down, Mine: mine, Cause: NoAnswer, RemoteRx: time.Microsecond}}
	s.agree()
	s.schedule(now)
	return s
}

// ContinueSession returns the session of a predecessor. It sends at once, and the detection
// time begins now.
func ContinueSession(now time.Time, p Profile, m Memory, random func() float64) *Session {
	s := &Session{profile: p.withDefaults(), random: random, Memory: m}
	s.UsedTx, s.UsedRx = max(s.UsedTx, MinInterval), max(s.UsedRx, MinInterval)
	s.RemoteMultiplier = max(s.RemoteMultiplier, 1)
	if s.Yours != 0 {
		s.detectAt = now.Add(s.Detection())
	}
	s.agree()
	s.schedule(now)
	return s
}

// Change gives the session other parameters. A session that is up stays up: the peer hears
// of new intervals by a Poll Sequence.
func (s *Session) Change(now time.Time, p Profile) {
	s.profile = p.withDefaults()
	s.agree()
	s.schedule(now)
}

// Shut ends the session: the peer is told that it is not a failure, until Ended.
func (s *Session) Shut(now time.Time) (out Packet, send bool) {
	if s.State == AdminDown {
		return Packet{}, false
	}
	// The peer must hear of it within the detection time that it uses.
	s.endAt = now.Add(time.Duration(s.profile.Multiplier) * s.interval())
	s.State, s.Diagnostic, s.Cause, s.Polling = AdminDown, AdminDownedByUser, LocalAdminDown, false
	if s.Yours == 0 { // nobody to tell
		s.endAt = now
		return Packet{}, false
	}
	return s.packet(), true
}

// Ended says whether a session that was shut need not run any more.
func (s *Session) Ended(now time.Time) bool { return s.State == AdminDown && !now.Before(s.endAt) }

// Next is when Wake must be called; never, if it is zero.
func (s *Session) Next() time.Time {
	next := s.transmitAt
	for _, t := range [...]time.Time{s.detectAt, s.endAt} {
		if next.IsZero() || !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next
}

// Expires says whether the peer counts as lost if nothing was heard until now.
func (s *Session) Expires(now time.Time) bool {
	return !s.detectAt.IsZero() && !now.Before(s.detectAt)
}

// Wake does what is due. It returns a packet if one has to be sent.
func (s *Session) Wake(now time.Time) (out Packet, send bool) {
	if s.Expires(now) {
		send = s.expire()
		s.agree()
		s.schedule(now)
		send = send && s.speaks()
	}
	if !s.transmitAt.IsZero() && !now.Before(s.transmitAt) {
		s.sentAt = now
		out = s.packet()
		if s.Polling {
			out.Poll, s.Asked = true, true
		}
		s.transmitAt = now.Add(s.jittered())
		return out, true
	}
	return s.packet(), send
}

// Receive takes a packet of the peer that Decode has read. It returns a packet if one has
// to be sent.
func (s *Session) Receive(now time.Time, in *Packet) (out Packet, send bool, err error) {
	if in.Yours != 0 && in.Yours != s.Mine {
		return Packet{}, false, ErrOtherSession
	}
	s.Yours, s.Remote, s.RemoteDiagnostic, s.RemoteDemand = in.Mine, in.State, in.Diagnostic, in.Demand
	s.RemoteTx, s.RemoteRx, s.RemoteMultiplier = in.DesiredTx, in.RequiredRx, in.Multiplier
	if in.Final && s.Polling && s.Asked {
		s.confirmed()
	}
	changed := s.State != AdminDown && s.follow(in)
	s.agree()
	s.detectAt = now.Add(s.Detection())
	s.schedule(now)
	out = s.packet()
	out.Final = in.Poll
	return out, s.State != AdminDown && (in.Poll || changed && s.speaks()), nil
}

// follow changes the state as RFC 5880 §6.8.6 says.
func (s *Session) follow(in *Packet) (changed bool) {
	before := s.State
	switch {
	case in.State == AdminDown && s.State != Down:
		s.down(NeighborSaidDown, NeighborAdminDown)
	case in.State == AdminDown:
		s.Cause = NeighborAdminDown
	case s.State == Down && in.State == Down:
		s.State = Init
	case s.State == Down && in.State == Init, s.State == Init && in.State >= Init:
		s.State, s.Diagnostic, s.Cause = Up, NoDiagnostic, NoCause
		s.Ups++
	case s.State == Up && in.State == Down && in.Diagnostic == NeighborSaidDown:
		// It says that we went down first, which we did not: so it answers nobody, but was
		// removed from the router's configuration. FRR says it that way.
		s.down(NeighborSaidDown, NeighborAdminDown)
	case s.State == Up && in.State == Down:
		s.down(NeighborSaidDown, NeighborDown)
	}
	return s.State != before
}

func (s *Session) down(d Diagnostic, c Cause) {
	if s.State == Up && c != NeighborAdminDown {
		s.Downs++
	}
	s.State, s.Diagnostic, s.Cause = Down, d, c
}

// expire forgets a peer that was not heard. It says whether the state changed.
func (s *Session) expire() bool {
	s.detectAt = time.Time{}
	s.Yours, s.Remote, s.RemoteDemand, s.Polling = 0, Down, false, false
	s.RemoteRx = time.Microsecond // initial value: how else would a peer that wanted silence hear of us?
	switch s.State {
	case Init, Up:
		s.down(DetectionExpired, Expired)
		return true
	case Down:
		s.Cause = Expired
	case AdminDown:
	}
	return false
}
