package wire

import (
	"container/heap"
	"context"
	"net/netip"
	"sync"
	"time"
)

// rounds are the times after a take-over at which an address is announced, as
// gaps: at 0, 50 ms, 250 ms, 1.1 s, 2.2 s and 4.4 s.
//
//   - 50 and 250 ms: the first frame got lost, or a switch was still learning.
//   - 1.1 s: a former owner whose agent died answers until its fence of 1 s
//     ends. A host that asked in between may have believed it, and is told again
//     as soon as it cannot be told otherwise.
//   - 2.2 and 4.4 s: ports and neighbours that took seconds to come up, as long
//     as MetalLB goes on.
var rounds = []time.Duration{
	50 * time.Millisecond, 200 * time.Millisecond, 850 * time.Millisecond, 1100 * time.Millisecond, 2200 * time.Millisecond,
}

// framesPerSecond is a balance. Switches police ARP to their processors at some
// thousands of frames a second and more, so that 1,000 addresses in one go are
// lost in part; but each address waits for its first frame. 2,000 frames a
// second (1 Mbit/s), a hundredth of that at once, have the first frame of 1,000
// addresses out in half a second, and of up to 20 at once. Where ARP inspection
// is left at 15 frames a second and shuts down the port, no software can move
// more than a few addresses at a time; there the port must be trusted, or the
// rate lowered.
const framesPerSecond = 2000

// defendInterval is RFC 5227's DEFEND_INTERVAL.
const defendInterval = 10 * time.Second

// Pace says how an Announcer announces. The zero Pace is the usual one.
type Pace struct {
	// FramesPerSecond is the most that is sent; 2,000 if 0.
	FramesPerSecond int

	// Refresh is how often each address is announced once more for as long as it
	// is owned, for neighbours that forget; never if 0.
	Refresh time.Duration

	// Allowed is asked before each frame; a frame that is not allowed is left out.
	// It has to say no from the moment the fence may have expired: a process that
	// was stopped goes on exactly here, and packet sockets bypass the fence. It is
	// called with the Announcer locked. Nil allows all.
	Allowed func() bool
}

// Counts says what an Announcer has done.
type Counts struct {
	Sent    uint64 // frames
	Failed  uint64 // frames
	Refused uint64 // frames that were not allowed
	Owned   int    // addresses
	Waiting int    // addresses whose first frame is not out yet
}

// Announcer announces the addresses that are owned on one interface: at once
// when they are taken, a few times more, and then now and again. First frames
// go before all repetitions, so that a take-over never waits for an earlier one,
// and all first frames before any second form.
type Announcer struct {
	send func(netip.Addr, Form) error
	pace Pace
	wake chan struct{}

	mu     sync.Mutex
	turn   pacer
	owned  map[netip.Addr]*announced
	queue  queue
	serial uint64
	counts Counts
}

// NewAnnouncer returns an Announcer that sends by send, usually a Port's Send.
// It does nothing until Run.
func NewAnnouncer(send func(netip.Addr, Form) error, pace Pace) *Announcer {
	if pace.FramesPerSecond <= 0 {
		pace.FramesPerSecond = framesPerSecond
	}
	return &Announcer{
		send: send, pace: pace,
		wake:  make(chan struct{}, 1),
		turn:  pacer{every: time.Second / time.Duration(pace.FramesPerSecond), burst: max(1, pace.FramesPerSecond/100)},
		owned: map[netip.Addr]*announced{},
	}
}

// Own announces addresses that have been taken over. Those that are owned
// already are left alone.
func (a *Announcer) Own(addrs ...netip.Addr) {
	a.change(addrs, func(addr netip.Addr) {
		if a.owned[addr] == nil {
			e := &announced{addr: addr, index: -1}
			a.owned[addr] = e
			a.start(e)
		}
	})
}

// Adopt owns addresses that an earlier process has announced: they are not
// announced as if they were new, but refreshed and defended.
func (a *Announcer) Adopt(addrs ...netip.Addr) {
	a.change(addrs, func(addr netip.Addr) {
		if a.owned[addr] != nil {
			return
		}
		e := &announced{addr: addr, round: len(rounds), index: -1}
		a.owned[addr] = e
		if a.pace.Refresh > 0 {
			e.due = time.Now().Add(a.pace.Refresh)
			a.enqueue(e)
		}
	})
}

// Again announces owned addresses as if they had just been taken over: all of
// them without arguments. After the link was down, or the MAC changed.
func (a *Announcer) Again(addrs ...netip.Addr) {
	a.mu.Lock()
	if len(addrs) == 0 {
		for addr := range a.owned {
			addrs = append(addrs, addr)
		}
	}
	a.mu.Unlock()
	a.change(addrs, func(addr netip.Addr) {
		if e := a.owned[addr]; e != nil {
			a.start(e)
		}
	})
}

// Remind announces all owned addresses once more, without the repetitions of a
// take-over.
func (a *Announcer) Remind() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, e := range a.owned {
		if e.round == len(rounds) { // otherwise the next one is near
			a.unqueue(e)
			e.form, e.due = Plain, now
			a.enqueue(e)
		}
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Defend announces an owned address once more at once against another host that
// uses it, and says whether it did: not if it was defended within the last ten
// seconds, when two that both defend would go on for ever (RFC 5227 §2.4).
func (a *Announcer) Defend(addr netip.Addr) (defended bool) {
	a.change([]netip.Addr{addr}, func(addr netip.Addr) {
		e, now := a.owned[addr], time.Now()
		if e == nil || !e.defended.IsZero() && now.Sub(e.defended) < defendInterval {
			return
		}
		e.defended, defended = now, true
		a.hurry(e) // the next round, or one more after the last
	})
	return defended
}

// Disown ends the announcements of addresses: when it returns, none is sent any
// more.
func (a *Announcer) Disown(addrs ...netip.Addr) {
	a.change(addrs, func(addr netip.Addr) {
		if e := a.owned[addr]; e != nil {
			a.unqueue(e)
			delete(a.owned, addr)
		}
	})
}

// Counts returns what was done so far.
func (a *Announcer) Counts() Counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.counts
	c.Owned = len(a.owned)
	for _, e := range a.queue {
		if e.first {
			c.Waiting++
		}
	}
	return c
}

func (a *Announcer) change(addrs []netip.Addr, f func(netip.Addr)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, addr := range addrs {
		f(addr)
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run announces until ctx ends.
func (a *Announcer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer.C:
		}
		for {
			wait, idle := a.step()
			if wait == 0 && !idle && ctx.Err() == nil {
				continue
			}
			timer.Stop()
			if !idle {
				timer.Reset(wait)
			}
			break
		}
	}
}

// step sends one frame if one is due and may be sent. Otherwise it returns how
// long to wait, or that there is nothing to wait for.
func (a *Announcer) step() (wait time.Duration, idle bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		return 0, true
	}
	now, e := time.Now(), a.queue[0]
	if wait := e.due.Sub(now); wait > 0 {
		return wait, false
	}
	if a.turn.wait(now) > 0 {
		// In bursts rather than one by one: fewer wake-ups, the same rate.
		return a.turn.refill(), false
	}
	switch {
	case a.pace.Allowed != nil && !a.pace.Allowed():
		a.counts.Refused++
	case a.send(e.addr, e.form) != nil:
		a.turn.reserve(now, 1)
		a.counts.Failed++
	default:
		a.turn.reserve(now, 1)
		a.counts.Sent++
	}
	a.advance(e, now)
	return 0, false
}

// start restarts e's announcements.
func (a *Announcer) start(e *announced) {
	e.round = 0
	a.hurry(e)
}

// hurry makes e's next round due before all repetitions.
func (a *Announcer) hurry(e *announced) {
	a.unqueue(e)
	e.form, e.first, e.due = Plain, true, time.Now()
	a.enqueue(e)
}

// advance schedules what follows the frame that was just sent. Gaps count from
// then, so that a long queue delays rounds instead of running them together.
func (a *Announcer) advance(e *announced, now time.Time) {
	a.unqueue(e)
	e.first = false
	if e.form++; e.form < forms(e.addr) {
		a.enqueue(e)
		return
	}
	e.form = Plain
	switch {
	case e.round < len(rounds):
		e.due = now.Add(rounds[e.round])
		e.round++
	case a.pace.Refresh > 0:
		e.due = now.Add(a.pace.Refresh)
	default:
		return
	}
	a.enqueue(e)
}

func (a *Announcer) enqueue(e *announced) {
	a.serial++
	e.serial = a.serial
	heap.Push(&a.queue, e)
}

func (a *Announcer) unqueue(e *announced) {
	if e.index >= 0 {
		heap.Remove(&a.queue, e.index)
	}
}
