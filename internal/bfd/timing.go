package bfd

import (
	"time"
)

// Detection is how long the peer may be silent; 0 if it was not heard yet.
func (s *Session) Detection() time.Duration {
	return time.Duration(s.RemoteMultiplier) * max(s.UsedRx, s.RemoteTx)
}

// Interval is the longest time between two of our packets.
func (s *Session) Interval() time.Duration { return s.interval() }

func (s *Session) interval() time.Duration { return max(s.UsedTx, s.RemoteRx) }

// jittered is the interval less up to a quarter, so that sessions do not send in step. With
// a multiplier of 1 it is at least a tenth shorter: no packet may be late (RFC 5880 §6.8.7).
func (s *Session) jittered() time.Duration {
	least, most := 0.75, 1.0
	if s.profile.Multiplier == 1 {
		most = 0.9
	}
	return time.Duration(float64(s.interval()) * (least + (most-least)*s.random()))
}

// agree brings what we say in line with state and profile, and polls if it changed.
func (s *Session) agree() {
	tx, rx := s.profile.Transmit, s.profile.Receive
	if s.State != Up {
		tx = max(tx, slow)
	}
	if s.State == AdminDown {
		tx = s.ToldTx // the few last packets go as before
	}
	if s.ToldTx == tx && s.ToldRx == rx {
		return
	}
	s.ToldTx, s.ToldRx = tx, rx
	if s.State != Up || tx < s.UsedTx {
		s.UsedTx = tx
	}
	if s.State != Up || rx > s.UsedRx {
		s.UsedRx = rx
	}
	switch {
	case s.Yours == 0:
	case s.Polling && s.Asked:
		s.Again = true
	case !s.Polling:
		s.Polling, s.Asked, s.Again = true, false, false
	}
}

// confirmed ends a Poll Sequence.
func (s *Session) confirmed() {
	if s.Again {
		s.Asked, s.Again = false, false
		return
	}
	s.Polling, s.Asked = false, false
	s.UsedTx, s.UsedRx = s.ToldTx, s.ToldRx
}

// speaks says whether the session may send at all.
func (s *Session) speaks() bool { return s.Yours != 0 || !s.profile.Passive && s.State != AdminDown }

// periodic says whether packets are due from time to time.
func (s *Session) periodic() bool {
	asleep := s.RemoteDemand && s.State == Up && s.Remote == Up && !s.Polling
	return s.speaks() && s.RemoteRx > 0 && !asleep
}

// schedule plans the next packet. Shorter intervals count at once: a peer that goes from one
// second to 50 ms expects the next packet after 50 ms. Nothing postpones a packet that is
// due, or a peer that sends often could silence us.
func (s *Session) schedule(now time.Time) {
	if !s.periodic() {
		s.transmitAt = time.Time{}
		return
	}
	next := now
	if !s.sentAt.IsZero() {
		next = s.sentAt.Add(s.interval())
		if !s.transmitAt.IsZero() && !next.Before(s.transmitAt) {
			return
		}
		next = s.sentAt.Add(s.jittered())
		if next.Before(now) {
			next = now
		}
	}
	s.transmitAt = next
}

// packet is what there is to say now.
func (s *Session) packet() Packet {
	return Packet{Diagnostic: s.Diagnostic, State: s.State, Multiplier: s.profile.Multiplier,
		Mine: s.Mine, Yours: s.Yours, DesiredTx: s.ToldTx, RequiredRx: s.ToldRx}
}
