package bgp

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// Config of a Speaker.
type Config struct {
	Network Network
	// Alive says whether the owner still makes decisions; if not, no keepalives are sent, and
	// no session begins. nil means always. Every session calls it.
	Alive func() bool
	// Log gets a line when a session begins, ends, or cannot begin for another reason than
	// before.
	Log *slog.Logger
}

func (c *Config) alive() bool { return c.Alive == nil || c.Alive() }

// Speaker has a session with each router. All methods can be called at any time.
type Speaker struct {
	config Config
	ctx    context.Context
	news   chan struct{}

	mu       sync.Mutex
	sessions map[string]*session
	// inherited are sessions of an earlier process that no peer has taken yet.
	inherited map[string]*Frozen
	running   sync.WaitGroup
	ended     bool
}

// Start returns a speaker without peers. When ctx ends, connections break as they do when the
// process dies: routers with graceful restart keep the routes for a while. Use Stop to leave.
func Start(ctx context.Context, c Config) *Speaker {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Speaker{config: c, ctx: ctx, news: make(chan struct{}, 1), sessions: map[string]*session{}, inherited: map[string]*Frozen{}}
}

// News has a value when the status of a session is another.
func (s *Speaker) News() <-chan struct{} { return s.news }

// Continue takes over sessions of an earlier process, by the names of their peers. It comes
// before SetPeers, which ends those that do not fit.
func (s *Speaker) Continue(sessions map[string]*Frozen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, f := range sessions {
		s.inherited[name] = f
	}
}

// SetPeers says which peers there are, by name. Sessions of others end. A session whose peer is
// another begins again, unless only limits changed. Peers must have passed Check. later are names
// of peers of which not everything is known yet: their inherited sessions wait for them, as long
// as routers do.
func (s *Speaker) SetPeers(peers map[string]Peer, later ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	for name, old := range s.sessions {
		p, stays := peers[name]
		switch {
		case !stays:
			old.end(farewell(ceaseDeconfigured, "this node no longer uses the peer", nil))
			delete(s.sessions, name)
		case p.wire() != old.wanted().peer.wire():
			old.end(farewell(ceaseChange, "the configuration of the peer changed", nil))
			s.replace(name, p, old)
		default:
			old.setPeer(p)
		}
	}
	for name, p := range peers {
		if s.sessions[name] == nil {
			s.replace(name, p, nil)
		}
	}
	for name, f := range s.inherited {
		if slices.Contains(later, name) {
			continue
		}
		delete(s.inherited, name)
		s.running.Go(func() { f.end(farewell(ceaseDeconfigured, "", nil)) })
	}
}

// replace starts a session after the one before has ended: a router takes one at a time.
func (s *Speaker) replace(name string, p Peer, old *session) {
	n := newSession(name, &s.config, p, func() { signal(s.news) })
	if old != nil {
		if w := old.wanted(); w.generation > 0 {
			n.setTable(w.table)
		}
	}
	unfit := s.inherited[name]
	delete(s.inherited, name)
	if unfit != nil && unfit.fits(p) {
		n.inherited, unfit = unfit, nil
	}
	ctx, end := context.WithCancelCause(s.ctx)
	n.end = end
	s.sessions[name] = n
	s.running.Go(func() {
		defer end(nil)
		if old != nil {
			<-old.done
		}
		if unfit != nil {
			unfit.end(farewell(ceaseChange, "", nil))
		}
		n.run(ctx)
	})
}

// Set says what is announced to a peer, as a whole. The table must not be changed afterwards.
// A session begins only after the first Set.
func (s *Speaker) Set(peer string, t Table) {
	if n := s.session(peer); n != nil {
		n.setTable(t)
	}
}

// Status of the session with a peer; ok is false if there is no such peer.
func (s *Speaker) Status(peer string) (st Status, ok bool) {
	n := s.session(peer)
	if n == nil {
		return Status{}, false
	}
	return n.snapshot(), true
}

// BFDDown ends the session with a peer, because BFD says that the way to it is broken. The
// next attempt to connect comes at once.
func (s *Speaker) BFDDown(peer string) {
	if n := s.session(peer); n != nil {
		select {
		case n.resets <- farewell(ceaseBFD, "BFD reports that the router cannot be reached", nil):
		default:
		}
	}
}

// Retry connects to a peer now, because something changed that may help, such as a cable.
func (s *Speaker) Retry(peer string) {
	if n := s.session(peer); n != nil {
		signal(n.nudge)
	}
}

func (s *Speaker) session(peer string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[peer]
}

// Stop ends all sessions with an administrative shutdown that says why. Routers drop the routes
// at once. It waits for all goroutines, or until ctx ends.
func (s *Speaker) Stop(ctx context.Context, why string) {
	s.finish(ctx, farewell(ceaseShutdown, why, communicate(why)))
}

// Freeze stops all sessions and returns those that are established, by the names of their
// peers. Their connections stay open, for a successor to Continue with. It waits until all have
// stopped, or until ctx ends.
func (s *Speaker) Freeze(ctx context.Context) map[string]*Frozen {
	out := map[string]*Frozen{}
	s.mu.Lock()
	maps.Copy(out, s.inherited) // as they came
	clear(s.inherited)
	s.mu.Unlock()
	for name, n := range s.finish(ctx, errFreeze) {
		select {
		case <-n.done:
			if n.frozen != nil {
				out[name] = n.frozen
			}
		default: // it is still stuck, and will be closed
		}
	}
	return out
}

// Wait waits for all goroutines after the context of Start has ended.
func (s *Speaker) Wait() { s.running.Wait() }

func (s *Speaker) finish(ctx context.Context, cause error) map[string]*session {
	s.mu.Lock()
	s.ended = true
	sessions := s.sessions
	for _, n := range sessions {
		n.end(cause)
	}
	for name, f := range s.inherited {
		delete(s.inherited, name)
		_ = f.Close()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return sessions
}
