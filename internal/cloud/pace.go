package cloud

import (
	"sync"
	"time"
)

// Pace is how long something takes in a cloud, learned from how long it took.
// It says when to look again: when it was done the last time, neither sooner,
// which costs a call, nor much later.
type Pace struct {
	first, longest time.Duration

	mu sync.Mutex
	// It was not done before low, and was done at high; 0: not known yet.
	low, high time.Duration
	streak    int                // how often in a row it was done when we looked
	since     map[string]stretch // what is under way, by its ID
}

// stretch of time in which something is busy.
type stretch struct {
	began time.Time
	busy  time.Duration // until then, at least
	whole bool          // we have seen its beginning
	looks int
}

// NewPace is a pace that looks after first as long as nothing is learned, then
// after twice as long each time, and never waits for more than longest.
func NewPace(first, longest time.Duration) *Pace {
	return &Pace{first: first, longest: longest, since: map[string]stretch{}}
}

// Begin notes that something begins now, and returns when to look.
func (p *Pace) Begin(id string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since[id] = stretch{began: now, whole: true}
	return p.wait(p.since[id], now)
}

// Busy notes that it is still under way, and returns when to look again.
func (p *Pace) Busy(id string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.since[id]
	if !known {
		s = stretch{began: now}
	}
	s.busy, s.looks = now.Sub(s.began), s.looks+1
	p.since[id] = s
	return p.wait(s, now)
}

// Done notes that it is done, and learns from it.
func (p *Pace) Done(id string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, known := p.since[id]
	delete(p.since, id)
	if !known || !s.whole {
		return
	}
	took := now.Sub(s.began)
	switch {
	case s.looks > 0:
		p.low, p.high, p.streak = s.busy, took, 0
	case took < p.high || p.high == 0:
		p.low, p.high = took*9/10, took
	default:
		// As expected. It may have become faster: the longer ago it is that a look
		// was too early, the earlier is the next.
		p.streak++
		p.low -= p.low * time.Duration(min(p.streak, 40)) / 200
		if gap := p.high - p.low; gap > p.high/10 {
			p.high -= gap / 4
		}
	}
	p.low = min(p.low, p.high)
}

// Forget something that will never be done.
func (p *Pace) Forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, id)
}

func (p *Pace) wait(s stretch, now time.Time) time.Duration {
	passed := now.Sub(s.began)
	switch {
	case s.whole && passed < p.high && s.looks == 0:
		return p.high - passed
	case s.whole && s.looks > 0 && p.high > 0:
		return min(max(p.high/8, (passed-p.high)/2, p.first/8), p.longest)
	default:
		return min(p.first<<min(s.looks, 8), p.longest)
	}
}
