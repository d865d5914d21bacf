//go:build linux

package bfd

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Line is what one session sends with.
type Line interface {
	// Send sends one packet. It does not wait.
	Send([]byte) error
	// Drain hears what has arrived, in the calling goroutine.
	Drain()
	Close() error
}

// Wire opens lines. A packet may be heard before Open returns. Of two lines of one peer the
// younger one hears.
type Wire interface {
	Open(ctx context.Context, p Peer, hear func(b []byte, ttl uint8)) (Line, error)
}

// Options of a Speaker.
type Options struct {
	// Wire is the node's sockets, if nil.
	Wire Wire
	// Beats says whether the process works. While it does not, nothing is sent, so that
	// routers lead traffic to other nodes. If nil, it always works.
	Beats func() bool
}

// Speaker runs the sessions of a node.
type Speaker struct {
	wire  Wire
	beats func() bool
	news  chan struct{}

	mu       sync.Mutex
	sessions map[Peer]*runner
	ending   map[Peer]*runner // no longer wanted; they tell their peers
	running  sync.WaitGroup
	ctx      context.Context // of all sessions
	end      context.CancelFunc
}

// New returns a Speaker without sessions. If ctx ends, they end without a word: peers hear
// more if Close ends them.
func New(ctx context.Context, o Options) *Speaker {
	s := &Speaker{wire: o.Wire, beats: o.Beats, news: make(chan struct{}, 1), sessions: map[Peer]*runner{}, ending: map[Peer]*runner{}}
	s.ctx, s.end = context.WithCancel(ctx)
	if s.wire == nil {
		s.wire = newSockets()
	}
	if s.beats == nil {
		s.beats = func() bool { return true }
	}
	return s
}

// News has an entry when the Status of a session has changed.
func (s *Speaker) News() <-chan struct{} { return s.news }

func (s *Speaker) tell() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// Set says which sessions there are from now on. Those that are no longer wanted end as
// administratively down; those whose profile changes stay up. It does not wait.
func (s *Speaker) Set(want map[Peer]Profile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for peer, r := range s.sessions {
		if _, wanted := want[peer]; !wanted {
			delete(s.sessions, peer)
			s.ending[peer] = r
			r.shut()
		}
	}
	for peer, profile := range want {
		if r := s.sessions[peer]; r != nil {
			r.change(profile)
			continue
		}
		if former := s.ending[peer]; former != nil {
			former.halt()
			delete(s.ending, peer)
		}
		r := &runner{peer: peer, profile: profile, session: NewSession(time.Now(), profile, s.discriminator(), rand.Float64)}
		r.prepare(s)
		s.start(r)
	}
}

// start runs a session; s.mu is held.
func (s *Speaker) start(r *runner) {
	s.sessions[r.peer] = r
	s.running.Go(func() {
		r.run()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.ending[r.peer] == r {
			delete(s.ending, r.peer)
		}
	})
}

// discriminator returns one that no session has; s.mu is held.
func (s *Speaker) discriminator() uint32 {
	for {
		d := rand.Uint32()
		if d != 0 && !slices.ContainsFunc(slices.Collect(maps.Values(s.sessions)), func(r *runner) bool { return r.mine() == d }) {
			return d
		}
	}
}

// Statuses of all sessions, by the peer's address.
func (s *Speaker) Statuses() []Status {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	out := make([]Status, 0, len(all))
	for _, r := range all {
		out = append(out, r.status())
	}
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(a.Remote.Compare(b.Remote), a.Local.Compare(b.Local), cmp.Compare(a.Device, b.Device))
	})
	return out
}

// Close ends all sessions as administratively down. Peers are told for one detection time,
// but not after ctx has ended.
func (s *Speaker) Close(ctx context.Context) {
	s.Set(nil)
	stop := context.AfterFunc(ctx, s.end)
	defer stop()
	s.running.Wait()
	s.end()
}
