package cloudscale

import (
	"sync"
	"time"
)

const (
	// firstLook and firstTry are when to look at something of which nobody knows
	// how long it takes; then after twice as long each time. Trying a change is
	// more work for the cloud than answering a look.
	firstLook = 200 * time.Millisecond
	firstTry  = time.Second
	// lookAgainMost and tryAgainMost are the longest times between two. The cloud
	// says that it is busy also of some things that it will never do.
	lookAgainMost = 5 * time.Second
	tryAgainMost  = 30 * time.Second
)

// pace is how long something takes in the cloud, learned from how long it took.
// Who waits looks when it was done the last time: neither sooner, which costs a
// call, nor much later.
type pace struct {
	first, most time.Duration

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

func newPace(first, most time.Duration) *pace {
	return &pace{first: first, most: most, since: map[string]stretch{}}
}

// begin notes that something begins now, and returns when to look.
func (p *pace) begin(id string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since[id] = stretch{began: now, whole: true}
	return p.wait(p.since[id], now)
}

// busy notes that it is still under way, and returns when to look again.
func (p *pace) busy(id string, now time.Time) time.Duration {
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

// done notes that it is done, and learns from it.
func (p *pace) done(id string, now time.Time) {
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

// forget something that will never be done.
func (p *pace) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.since, id)
}

func (p *pace) wait(s stretch, now time.Time) time.Duration {
	passed := now.Sub(s.began)
	switch {
	case s.whole && passed < p.high && s.looks == 0:
		return p.high - passed
	case s.whole && s.looks > 0 && p.high > 0:
		return min(max(p.high/8, (passed-p.high)/2, p.first/8), p.most)
	default:
		return min(p.first<<min(s.looks, 8), p.most)
	}
}
