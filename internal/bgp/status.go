package bgp

import (
	"net/netip"
	"time"

	"fairlead.io/internal/lb"
)

// State of a session, as in RFC 4271.
type State uint8

const (
	Idle State = iota // waits, or has nothing to announce yet
	Connect
	OpenSent
	OpenConfirm
	Established
)

func (s State) String() string {
	return [...]string{"Idle", "Connect", "OpenSent", "OpenConfirm", "Established"}[s]
}

// Status of a session.
type Status struct {
	State State
	// Since is when the session began or, if there is none, when the last one was lost, or when
	// the first attempt began.
	Since time.Time
	// Failure is why the last session or attempt ended, until there is a session again.
	Failure *Failure
	// Next is when the next attempt is due, if State is Idle.
	Next time.Time
	// SourceMissing: the node does not have the peer's source address.
	SourceMissing bool

	// Of the session, if State is Established.

	Local, Remote   netip.Addr
	PeerAS          uint32
	RouterID        netip.Addr
	Hold, Keepalive time.Duration
	Families        [len(lb.Families)]bool
	GracefulRestart bool
	// Prefixes is how many the router has been told of.
	Prefixes int
	// Withheld are those of the table that it has not been told of, in order. Do not change it.
	Withheld []Withheld
	// Synced: the router has been told of the whole table.
	Synced bool

	// Established counts sessions; Sent and Received count messages.
	Established    uint64
	Sent, Received Messages
}

// Messages counts messages by type.
type Messages struct {
	Opens, Updates, Notifications, Keepalives, Refreshes, Bytes uint64
}

// Total of all types.
func (m Messages) Total() uint64 {
	return m.Opens + m.Updates + m.Notifications + m.Keepalives + m.Refreshes
}

func (m *Messages) count(kind byte, size int) {
	m.Bytes += uint64(size)
	switch kind {
	case typeOpen:
		m.Opens++
	case typeUpdate:
		m.Updates++
	case typeNotification:
		m.Notifications++
	case typeKeepalive:
		m.Keepalives++
	case typeRefresh:
		m.Refreshes++
	}
}

// enter notes another state.
func (s *session) enter(state State, change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if change != nil {
		change(&s.status)
	}
	if (s.status.State == Established) != (state == Established) {
		s.status.Since = time.Now()
	}
	s.status.State = state
	s.news()
	if state == Established {
		s.log.Info("BGP session established", "peer", s.name, "address", s.status.Remote, "asn", s.status.PeerAS)
	}
}

// down notes that there is no session, and why.
func (s *session) down(f *Failure, pause time.Duration) {
	s.enter(Idle, func(st *Status) {
		// Attempts that end like the one before are not worth a line each.
		if was := st.State == Established; was || f.Text != s.logged {
			s.logged = f.Text
			s.log.Warn("BGP session down", "peer", s.name, "reason", f.Text)
		}
		*st = Status{
			State: st.State, Since: st.Since, Failure: f, Next: time.Now().Add(pause), SourceMissing: st.SourceMissing,
			Established: st.Established, Sent: st.Sent, Received: st.Received,
		}
	})
}

// snapshot of the status.
func (s *session) snapshot() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}
