package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// dialWait is how long an attempt to connect may take. The kernel has sent three SYNs by
	// then.
	dialWait = 5 * time.Second
	// aliveCheck is how often an owner that stood still is looked at.
	aliveCheck = 100 * time.Millisecond
)

// session with one router: a goroutine that connects, speaks, and connects again.
type session struct {
	name   string
	config *Config
	log    *slog.Logger
	news   func()
	// wake says that the table or the peer is another; nudge, that an attempt may succeed now;
	// resets, that the session must end.
	wake, nudge chan struct{}
	resets      chan *Failure
	end         context.CancelCauseFunc
	done        chan struct{}
	// inherited is a session of an earlier process.
	inherited *Frozen
	// frozen is what is left of the session if it was ended with errFreeze.
	frozen *Frozen

	mu     sync.Mutex
	want   want
	status Status
	logged string // why there was no session when that was last logged
}

// want is what the owner wants.
type want struct {
	peer  Peer
	table Table
	// generation counts tables; 0 means that there was none yet.
	generation uint64
}

func newSession(name string, c *Config, p Peer, news func()) *session {
	return &session{
		name: name, config: c, log: c.Log, want: want{peer: p}, news: news, done: make(chan struct{}),
		wake: make(chan struct{}, 1), nudge: make(chan struct{}, 1), resets: make(chan *Failure, 1),
		status: Status{Since: time.Now()},
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *session) setTable(t Table) {
	s.mu.Lock()
	s.want.table = t
	s.want.generation++
	s.status.Synced = false
	s.mu.Unlock()
	signal(s.wake)
}

func (s *session) setPeer(p Peer) {
	s.mu.Lock()
	changed := s.want.peer != p
	s.want.peer = p
	s.mu.Unlock()
	if changed {
		signal(s.wake)
	}
}

func (s *session) wanted() want {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.want
}

// told notes what the router has been told.
func (s *session) told(w want, c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Prefixes, s.status.Withheld = len(c.after), c.withheld
	s.status.Synced = s.want.generation == w.generation
	s.news()
}

// run holds a session until ctx ends.
func (s *session) run(ctx context.Context) {
	defer close(s.done)
	var b backoff
	peer := s.wanted().peer
	var routers *routers
	if peer.Interface != "" {
		routers = watchRouters(ctx, s.config.Network, peer.Interface)
		defer routers.wait()
	}
	restarting := true
	for first := true; ; first = false {
		var f *Failure
		var lasted time.Duration
		if first && s.inherited != nil {
			f, lasted = s.resume(ctx, s.inherited)
			restarting = false
		} else {
			if !s.ready(ctx) {
				return
			}
			f, lasted = s.attempt(ctx, routers, b.plain, restarting)
			restarting = restarting && lasted == 0
		}
		if ctx.Err() != nil {
			s.down(f, 0)
			return
		}
		pause := b.after(f, lasted, s.wanted().peer.ConnectTime, jitter())
		s.down(f, pause)
		s.pause(ctx, pause, routers)
	}
}

// ready waits until there is a table, because one that is not complete withdraws what an
// earlier process announced, and until the owner is alive.
func (s *session) ready(ctx context.Context) bool {
	for {
		set := s.wanted().generation > 0
		switch {
		case ctx.Err() != nil:
			return false
		case set && s.config.alive():
			return true
		case set:
			select {
			case <-ctx.Done():
			case <-time.After(aliveCheck):
			}
		default:
			select {
			case <-ctx.Done():
			case <-s.wake:
			}
		}
	}
}

func (s *session) pause(ctx context.Context, d time.Duration, r *routers) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-s.nudge:
	case <-r.changed():
	}
}

// attempt connects and speaks until the connection ends. It returns why, and how long the
// session was established.
func (s *session) attempt(ctx context.Context, r *routers, plain, restarting bool) (*Failure, time.Duration) {
	peer := s.wanted().peer
	to := peer.Address
	if r != nil {
		var f *Failure
		if to, f = r.only(); f != nil {
			return f, 0
		}
	}
	s.enter(Connect, nil)
	conn, f := s.connect(ctx, peer, netip.AddrPortFrom(to, peer.port()))
	if f != nil {
		return f, 0
	}
	c, err := newConversation(s, peer, conn)
	if err != nil {
		_ = conn.Close()
		return &Failure{Kind: Closed, Text: fmt.Sprintf("the connection to the router has no addresses: %v", err)}, 0
	}
	return c.begin(ctx, plain, restarting)
}

// connect dials until there is a connection or a reason. A nudge begins the attempt anew,
// since the kernel sends its SYNs ever more rarely.
func (s *session) connect(ctx context.Context, p Peer, to netip.AddrPort) (net.Conn, *Failure) {
	source := p.Source
	for {
		dialing, cancel := context.WithTimeout(ctx, dialWait)
		nudged := make(chan bool, 1)
		go func() {
			select {
			case <-s.nudge:
				nudged <- true
				cancel()
			case <-dialing.Done():
				nudged <- false
			}
		}()
		conn, err := s.config.Network.Dial(dialing, p, to, source)
		cancel()
		again := <-nudged
		switch {
		case err == nil:
			s.enter(Connect, func(st *Status) { st.SourceMissing = p.Source.IsValid() && !source.IsValid() })
			return conn, nil
		case ctx.Err() != nil:
			return nil, ended(ctx)
		case again:
		case source.IsValid() && errors.Is(err, syscall.EADDRNOTAVAIL):
			source = netip.Addr{}
		default:
			return nil, unreachable(p, to, err)
		}
	}
}

// unreachable says why there is no connection.
func unreachable(p Peer, to netip.AddrPort, err error) *Failure {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return &Failure{Kind: Unreachable, Text: fmt.Sprintf("%v refuses connections to port %d: no BGP daemon listens there for this node", to.Addr(), to.Port())}
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return &Failure{Kind: Unreachable, Text: fmt.Sprintf("there is no route to %v, or nothing answers for it", to.Addr())}
	case errors.Is(err, syscall.ENODEV):
		return &Failure{Kind: Unreachable, Text: fmt.Sprintf("the node has no device %q for the peer's VRF", p.VRF)}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		text := fmt.Sprintf("%v does not answer on port %d. If the router expects a password (TCP-MD5), a missing one looks the same", to.Addr(), to.Port())
		if p.Password != "" {
			text = fmt.Sprintf("%v does not answer on port %d. A wrong password (TCP-MD5) looks the same", to.Addr(), to.Port())
		}
		return &Failure{Kind: Silent, Text: text}
	default:
		return &Failure{Kind: Unreachable, Text: fmt.Sprintf("connect to %v: %v", to, cause(err))}
	}
}

// cause is the innermost error of the kernel, without addresses and names of calls.
func cause(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// ended is why ctx did.
func ended(ctx context.Context) *Failure {
	var f *Failure
	if errors.As(context.Cause(ctx), &f) {
		return f
	}
	return &Failure{Kind: Ended, Text: "this process ends"}
}

func addrOf(a net.Addr) (netip.Addr, error) {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read address %v: %w", a, err)
	}
	return ap.Addr().Unmap(), nil
}
