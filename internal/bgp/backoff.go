package bgp

import (
	"math/rand/v2"
	"time"
)

const (
	firstPause = time.Second
	maxPause   = 5 * time.Second
	// refusedPause is after a refusal that time alone does not change. The router may count
	// such attempts, and log each.
	refusedPause = 30 * time.Second
	// conflictPause is while another speaker on this node has the session. When that one is
	// replaced, the router has no routes from its end to our next attempt.
	conflictPause = 5 * time.Second
	// steady is how long a session must last until the next attempt comes at once again.
	steady = 10 * time.Second
)

// backoff decides when to connect again.
type backoff struct {
	attempts int
	// conflicts since the last session. The first may be with our own that has just ended:
	// routers need a moment to forget it.
	conflicts int
	// plain leaves out optional capabilities, because the router did not take them.
	plain bool
}

// after returns the pause after an attempt that ended with f, and lasted that long in
// Established. random is in [0, 1): nodes that lost a router together come back one by one.
func (b *backoff) after(f *Failure, established, limit time.Duration, random float64) time.Duration {
	var pause time.Duration
	if established > 0 {
		b.conflicts = 0
	}
	if f.Kind == Conflict {
		b.conflicts++
	}
	switch {
	case f.Kind == Ended:
		b.attempts = 0
		return 0
	case !b.plain && f.Kind == Refused && f.Code == codeOpen && (f.Subcode == openParameter || f.Subcode == openCapability):
		b.plain = true
		return 0
	case f.Kind == Conflict && b.conflicts > 1:
		b.attempts = 0
		pause = conflictPause
	case f.Kind == Full, f.Kind == Rejected, f.Kind == Refused && f.Code == codeOpen:
		b.attempts = 0
		pause = refusedPause
	case established >= steady:
		b.attempts = 0
		return 0
	default:
		pause = min(firstPause<<min(b.attempts, 10), maxPause)
		b.attempts++
	}
	pause += time.Duration(random * float64(pause) / 4)
	if limit > 0 {
		pause = min(pause, limit)
	}
	return pause
}

func jitter() float64 { return rand.Float64() }
