package wire

import "time"

// pacer lets through burst frames at once and then one each interval. It is
// not safe for concurrent use.
type pacer struct {
	every time.Duration
	burst int
	next  time.Time // when the next would be through if none had been saved up
}

// reserve takes the turns of n frames and returns when the first of them is.
func (p *pacer) reserve(now time.Time, n int) (wait time.Duration) {
	wait = p.wait(now)
	p.next = p.next.Add(time.Duration(n) * p.every)
	return wait
}

// wait returns how long it is until a frame may be sent.
func (p *pacer) wait(now time.Time) time.Duration {
	if saved := now.Add(-time.Duration(p.burst-1) * p.every); p.next.Before(saved) {
		p.next = saved
	}
	return max(0, p.next.Sub(now))
}

// refill is how long it takes to save up a burst.
func (p *pacer) refill() time.Duration { return time.Duration(p.burst) * p.every }
