//go:build linux

package bfd

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"fairlead.io/internal/lb"
)

// Status of one session.
type Status struct {
	Peer
	State State
	Since time.Time
	// Reason says why the session is not Up; nil if it is.
	Reason *lb.Reason
	// Ups counts how often the session came up. Downs counts how often it failed: neither
	// the end that somebody asked for here or at the peer, nor the time before it came up.
	Ups, Downs uint64
	// Sent and Received count control packets.
	Sent, Received uint64
	// Interval is the longest time between our packets, Detection how long the peer may be
	// silent.
	Interval, Detection time.Duration
}

func (r *runner) status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.session
	out := Status{Peer: r.peer, State: s.State, Since: r.since, Ups: s.Ups, Downs: s.Downs, Sent: r.sent, Received: r.received, Interval: s.Interval(), Detection: s.Detection()}
	if s.State != Up {
		why := r.why()
		out.Reason = &why
	}
	return out
}

// why the session is not Up; r.mu is held.
func (r *runner) why() lb.Reason {
	remote, port, s := r.peer.Remote.String(), portOf(r.peer.Multihop), r.session
	down := func(format string, args ...any) lb.Reason {
		return Reasons.With(BFDDown, remote, fmt.Sprintf(format, args...))
	}
	switch {
	case errors.Is(r.opening, syscall.EADDRINUSE):
		return Reasons.With(BFDPortTaken, port, r.peer.Local.String(), remote)
	case errors.Is(r.opening, syscall.EADDRNOTAVAIL):
		return down("this node does not have the address %s", r.peer.Local)
	case r.opening != nil:
		return down("the UDP socket cannot be opened: %v", r.opening)
	case s.Cause == NeighborAdminDown:
		return Reasons.With(BFDAdminDown, remote)
	case errors.Is(r.sending, syscall.ECONNREFUSED):
		return down("it does not listen on UDP port %d, so BFD is not enabled there for this node", port)
	case r.sending != nil:
		return down("packets cannot be sent: %v", r.sending)
	case r.discarded != nil:
		return down("its last packet was discarded: %v", r.discarded)
	case s.State == Init:
		return down("its packets arrive here, but it does not hear this node (is UDP port %d filtered on the way?)", port)
	case s.Cause == NeighborDown:
		return down("it reports the session as down (%s)", s.RemoteDiagnostic)
	case s.Cause == Expired:
		return down("nothing was heard from it for %s", s.Detection())
	case r.profile.Passive:
		return down("it has not sent anything yet, and the profile says passiveMode")
	}
	return down("it has not answered yet")
}
