package bgp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"fairlead.io/internal/lb"
)

const (
	// openWait is how long a router may take to answer an OPEN.
	openWait = 30 * time.Second
	// writeWait is how long a router may take to read, if there is no hold time.
	writeWait = 30 * time.Second
	// farewellWait is how long the last NOTIFICATION may take.
	farewellWait = time.Second
	// lateness is by how much a timer is late only if the process has stood still. What the
	// router has said meanwhile is then read first, for as long.
	lateness = 100 * time.Millisecond
)

// conversation is one connection with a router.
type conversation struct {
	s             *session
	peer          Peer
	conn          net.Conn
	local, remote netip.Addr
	state         State
	agreed        agreed
	established   time.Time
	sent          sent
	// complete: the first table has been sent.
	complete bool
	// again are families that the router asked for.
	again [len(lb.Families)]bool
	// held: a keepalive was due and not sent.
	held bool
	// broken: a message was cut off; nothing can follow it.
	broken bool
	// late: the router seemed to be silent for too long when this process had stood still.
	late bool

	in    *reader
	heard chan incoming
	over  chan struct{} // nobody receives from heard
	// readErr is why heard was closed.
	readErr error
	began   time.Time
	// last is when something was heard, in nanoseconds after began.
	last atomic.Int64
	// quiet: keepalives and updates need not be passed on.
	quiet atomic.Bool
}

// incoming is a message that somebody has to look at.
type incoming struct {
	kind byte
	body []byte
}

func newConversation(s *session, p Peer, conn net.Conn) (*conversation, error) {
	c := &conversation{s: s, peer: p, conn: conn, in: &reader{from: conn}, heard: make(chan incoming), over: make(chan struct{}), began: time.Now()}
	var err error
	if c.local, err = addrOf(conn.LocalAddr()); err != nil {
		return nil, err
	}
	c.remote, err = addrOf(conn.RemoteAddr())
	return c, err
}

// begin says hello and speaks until the connection ends.
func (c *conversation) begin(ctx context.Context, plain, restarting bool) (*Failure, time.Duration) {
	open, err := hello(c.peer, lb.FamilyOf(c.local), plain, restarting)
	if err != nil {
		_ = c.conn.Close()
		return &Failure{Kind: Rejected, Text: fmt.Sprintf("make OPEN: %v", err)}, 0
	}
	c.s.enter(OpenSent, func(st *Status) { st.Local, st.Remote = c.local, c.remote })
	c.state = OpenSent
	return c.speak(ctx, plain, open)
}

// speak sends the first messages, then does what the router, the owner and the clock ask for.
func (c *conversation) speak(ctx context.Context, plain bool, first []byte) (f *Failure, lasted time.Duration) {
	select { // a reset was meant for an earlier connection
	case <-c.s.resets:
	default:
	}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		c.read()
	}()
	// A router that does not read must not keep the process from ending.
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		if !errors.Is(context.Cause(ctx), errFreeze) {
			_ = c.conn.SetWriteDeadline(time.Now())
		}
	})
	defer func() {
		if !stop() { // or it may cut off the last words
			<-interrupted
		}
		if f.sends() && !c.broken {
			c.say(farewellWait, notification(f))
		}
		close(c.over)
		_ = c.conn.Close()
		<-reading
		if !c.established.IsZero() {
			lasted = time.Since(c.established)
		}
	}()
	if f := c.write(ctx, first); f != nil {
		return f, 0
	}
	return c.loop(ctx, plain), 0
}

func (c *conversation) loop(ctx context.Context, plain bool) *Failure {
	hold := time.NewTimer(openWait)
	defer hold.Stop()
	alive := time.NewTimer(time.Hour)
	defer alive.Stop()
	alive.Stop()
	if c.state == Established {
		c.arm(hold, alive)
		signal(c.s.wake)
	}
	for {
		var wake <-chan struct{}
		if c.state == Established {
			wake = c.s.wake
		}
		var f *Failure
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errFreeze) && c.state == Established {
				return c.freeze()
			}
			return ended(ctx)
		case f = <-c.s.resets:
		case <-wake:
			f = c.sync(ctx)
		case <-hold.C:
			f = c.expired(hold)
		case <-alive.C:
			f = c.keepalive(ctx, alive)
		case m, ok := <-c.heard:
			if !ok {
				return c.lost()
			}
			before := c.state
			if f = c.handle(ctx, plain, m); f == nil && before != c.state {
				c.arm(hold, alive)
			}
		}
		if f != nil {
			return f
		}
	}
}

// read passes on what has to be looked at. What a router announces is not.
func (c *conversation) read() {
	defer close(c.heard)
	for {
		kind, body, err := c.in.next()
		if err != nil {
			c.readErr = err
			return
		}
		c.last.Store(int64(time.Since(c.began)))
		c.s.received(kind, headerSize+len(body))
		if c.quiet.Load() && (kind == typeUpdate || kind == typeKeepalive) {
			continue
		}
		if kind == typeUpdate {
			body = nil
		}
		select {
		case c.heard <- incoming{kind, bytes.Clone(body)}:
		case <-c.over:
			return
		}
	}
}

// handle is the state machine.
func (c *conversation) handle(ctx context.Context, plain bool, m incoming) *Failure {
	switch {
	case m.kind == typeNotification:
		f := readNotification(m.body)
		if f.Code == codeHold && c.held {
			f.Kind = Stalled
			f.Text = "the router ended the session after the hold time: this process sent no keepalives while its main loop stood still"
		}
		return f
	case m.kind == typeOpen && c.state == OpenSent:
		o, f := readOpen(m.body)
		if f != nil {
			return f
		}
		if c.agreed, f = agree(c.peer, lb.FamilyOf(c.local), plain, o); f != nil {
			return f
		}
		c.state = OpenConfirm
		c.s.enter(OpenConfirm, nil)
		return c.write(ctx, keepalive)
	case m.kind == typeKeepalive && c.state == OpenConfirm:
		c.establish()
		return c.sync(ctx)
	case m.kind == typeRefresh && c.state == Established:
		c.askedAgain(m.body)
		return c.sync(ctx)
	case c.state == Established && m.kind != typeOpen: // before the reader knew that it is quiet
		return nil
	default:
		subcode := map[State]uint8{OpenSent: fsmOpenSent, OpenConfirm: fsmOpenConfirm, Established: fsmEstablished}[c.state]
		return garbage(codeFSM, subcode, []byte{m.kind}, fmt.Sprintf("the router sent a message of type %d in state %v", m.kind, c.state))
	}
}

// askedAgain notes which family the router wants again.
func (c *conversation) askedAgain(body []byte) {
	family, ok := readRefresh(body)
	for f := range families {
		c.again[f] = c.again[f] || ok && families[f] == family
	}
}

// establish notes that there is a session.
func (c *conversation) establish() {
	c.quiet.Store(true)
	c.state, c.established = Established, time.Now()
	select { // a nudge was meant for what is done
	case <-c.s.nudge:
	default:
	}
	setUserTimeout(c.conn, c.agreed.Hold)
	c.s.enter(Established, func(st *Status) {
		st.Failure, st.Next = nil, time.Time{}
		st.Established++
		c.describe(st)
	})
}

func (c *conversation) describe(st *Status) {
	a := c.agreed
	st.Local, st.Remote = c.local, c.remote
	st.PeerAS, st.RouterID, st.Hold, st.Keepalive = a.PeerAS, a.RouterID, a.Hold, a.Keepalive
	st.Families, st.GracefulRestart = a.Families, a.GracefulRestart
}

// arm sets the timers of what was agreed.
func (c *conversation) arm(hold, alive *time.Timer) {
	if c.agreed.Hold == 0 {
		if c.state == Established { // else the router still has to answer
			hold.Stop()
		}
		return
	}
	hold.Reset(c.agreed.Hold)
	alive.Reset(keepalivePause(c.agreed.Keepalive))
}

// keepalivePause is up to a quarter shorter than the interval: RFC 4271, section 10.
func keepalivePause(interval time.Duration) time.Duration {
	return interval - time.Duration(jitter()*float64(interval)/4)
}

// keepalive sends one, if the owner is alive: a router must not be told that all is well by a
// process whose decisions have ended.
func (c *conversation) keepalive(ctx context.Context, alive *time.Timer) *Failure {
	if c.held = !c.s.config.alive(); c.held {
		alive.Reset(min(aliveCheck, c.agreed.Keepalive))
		return nil
	}
	alive.Reset(keepalivePause(c.agreed.Keepalive))
	return c.write(ctx, keepalive)
}

// expired looks whether the router has been silent for too long.
func (c *conversation) expired(hold *time.Timer) *Failure {
	limit, text := c.agreed.Hold, "the router was silent for the hold time"
	if c.state == OpenSent || limit == 0 {
		limit, text = openWait, "the router accepts connections, but does not answer an OPEN"
	}
	silent := time.Since(c.began) - time.Duration(c.last.Load())
	switch {
	case silent < limit:
		c.late = false
		hold.Reset(limit - silent)
		return nil
	case silent >= limit+lateness && !c.late:
		c.late = true
		hold.Reset(lateness)
		return nil
	}
	return &Failure{Kind: HoldExpired, Code: codeHold, Text: fmt.Sprintf("%s (%v)", text, limit)}
}

// sync sends what the router has not been told yet.
func (c *conversation) sync(ctx context.Context) *Failure {
	w := c.s.wanted()
	if w.generation == 0 {
		return nil
	}
	e := newEncoder(c.agreed, nextHops(c.s.config.Network, c.agreed, c.local, w.peer.NextHops))
	change, err := plan(e, c.sent, w.table, w.peer.MaxPrefixes, c.again)
	if err != nil {
		return &Failure{Kind: Closed, Text: fmt.Sprintf("make UPDATE: %v", err)}
	}
	c.again = [len(lb.Families)]bool{}
	if !c.complete {
		for f, spoken := range c.agreed.Families {
			if !spoken {
				continue
			}
			m, err := endOfRIB(lb.Family(f))
			if err != nil {
				return &Failure{Kind: Closed, Text: fmt.Sprintf("make End-of-RIB: %v", err)}
			}
			change.messages = append(change.messages, m)
		}
	}
	if f := c.write(ctx, change.messages...); f != nil {
		return f
	}
	c.sent, c.complete = change.after, true
	c.s.told(w, change)
	return nil
}
