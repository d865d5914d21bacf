//go:build linux

package bfd

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// When a line is tried again that cannot be opened. A port that another daemon has is only
// taken when it was free several times in a row: a daemon that is restarted gets it back.
const (
	retryTaken  = 10 * time.Second
	retryOther  = time.Second
	freeEnough  = 3
	farInFuture = 24 * time.Hour

	retryInherited = 5 * time.Millisecond
)

// runner runs one session. Whoever hears a packet or is woken works on the session itself,
// so that a packet wakes one goroutine only.
type runner struct {
	speaker *Speaker
	peer    Peer
	stop    chan struct{} // closed by halt, when the session must end at once
	halt    func()
	timer   *time.Timer
	// inherits is until when a predecessor may still have the port.
	inherits time.Time

	mu             sync.Mutex
	profile        Profile
	session        *Session
	line           Line
	armed          time.Time // when timer fires
	since          time.Time // when state or cause changed
	opening        error     // why there is no line
	sending        error     // why packets do not go out
	discarded      error     // why the last packet did not count
	sent, received uint64
	frozen         bool // a successor goes on
}

// prepare is called once, before anything is heard.
func (r *runner) prepare(s *Speaker) {
	r.speaker, r.since = s, time.Now()
	r.stop, r.timer = make(chan struct{}), time.NewTimer(farInFuture)
	r.halt = sync.OnceFunc(func() { close(r.stop) })
	r.armed = r.since.Add(farInFuture)
}

func (r *runner) mine() uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.session.Mine
}

func (r *runner) run() {
	defer r.timer.Stop()
	if !r.open() {
		return
	}
	defer r.closeLine()
	for {
		select {
		case <-r.timer.C:
			if ended := r.wake(); ended {
				return
			}
		case <-r.stop:
			return
		case <-r.speaker.ctx.Done():
			return
		}
	}
}

// open opens the line, however long that takes. It returns false if it is no longer needed.
func (r *runner) open() bool {
	if r.line != nil { // of a predecessor
		r.wake()
		return true
	}
	for free := freeEnough; ; {
		line, err := r.speaker.wire.Open(r.speaker.ctx, r.peer, r.hear)
		wait := retryOther
		if err == nil {
			free++
		}
		switch {
		case err == nil && free >= freeEnough:
			r.mu.Lock()
			r.line, r.opening = line, nil
			r.mu.Unlock()
			r.speaker.tell()
			return !r.wake()
		case err == nil:
			_ = line.Close()
			wait = retryTaken
		case errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(r.inherits):
			wait = retryInherited
		case errors.Is(err, syscall.EADDRINUSE):
			free, wait = 0, retryTaken
		}
		if err != nil {
			r.note(&r.opening, err)
		}
		select {
		case <-time.After(wait):
		case <-r.stop:
			return false
		case <-r.speaker.ctx.Done():
			return false
		}
	}
}

func (r *runner) closeLine() {
	r.mu.Lock()
	line := r.line
	r.line = nil
	r.mu.Unlock()
	if line != nil {
		_ = line.Close()
	}
}

// note keeps an error, and reports it if it is another one.
func (r *runner) note(at *error, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text(*at) != text(err) {
		r.speaker.tell()
	}
	*at = err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// wake does what is due. Before a peer is declared lost, packets are heard that arrived
// while this process had no processor.
func (r *runner) wake() (ended bool) {
	r.mu.Lock()
	if line := r.line; line != nil && !r.frozen && r.session.Expires(time.Now()) {
		r.mu.Unlock()
		line.Drain()
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	if r.frozen {
		return false
	}
	now := time.Now()
	r.armed = time.Time{}
	defer r.watch(now, r.session.State, r.session.Cause)
	if out, send := r.session.Wake(now); send {
		r.send(&out)
	}
	return r.session.Ended(now)
}

// hear takes a packet of the peer's address.
func (r *runner) hear(b []byte, ttl uint8) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.frozen {
		return
	}
	now := time.Now()
	in, err := Decode(b)
	if profile := r.profile.withDefaults(); ttl < profile.minTTL(r.peer.Multihop) {
		err = ErrTTL
	}
	defer r.watch(now, r.session.State, r.session.Cause)
	if errors.Is(r.sending, syscall.ECONNREFUSED) {
		r.sending = nil
	}
	var out Packet
	var send bool
	if err == nil {
		out, send, err = r.session.Receive(now, &in)
	}
	if err != nil {
		r.discarded = err
		return
	}
	r.received++
	r.discarded = nil
	if send {
		r.send(&out)
	}
}

// send sends a packet; r.mu is held.
func (r *runner) send(out *Packet) {
	if r.line == nil || !r.speaker.beats() {
		return
	}
	var b [packetLen]byte
	err := r.line.Send(out.Append(b[:0]))
	if err == nil || errors.Is(err, syscall.ECONNREFUSED) {
		r.sent++
	}
	if err == nil && errors.Is(r.sending, syscall.ECONNREFUSED) {
		return // until something is heard
	}
	if text(r.sending) != text(err) {
		r.speaker.tell()
	}
	r.sending = err
}

// watch reports what has changed, and sets the timer if it would be late. It is not put off
// for each packet that is heard: it then fires early now and then, which costs less.
func (r *runner) watch(now time.Time, state State, cause Cause) {
	if r.session.State != state || r.session.Cause != cause {
		r.since = now
		r.speaker.tell()
	}
	next := r.session.Next()
	if next.IsZero() || !r.armed.IsZero() && !next.Before(r.armed) {
		return
	}
	r.armed = next
	r.timer.Reset(max(next.Sub(now), 0))
}

// change gives the session another profile.
func (r *runner) change(p Profile) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p == r.profile {
		return
	}
	now := time.Now()
	r.profile = p
	r.session.Change(now, p)
	r.watch(now, r.session.State, r.session.Cause)
}

// shut ends the session; the peer is told.
func (r *runner) shut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	out, send := r.session.Shut(now)
	if r.session.Ended(now) || r.line == nil {
		r.halt()
		return
	}
	if send {
		r.send(&out)
	}
	r.armed = now
	r.timer.Reset(0)
}
