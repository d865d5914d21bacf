package cloud

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	// maxAttempts of one call. What does not pass in this time is better waited
	// for by the caller, who has other things to do.
	maxAttempts = 3
	// firstPause before the second attempt, twice as much before the next; half
	// of each is at random. A call never pauses longer than maxPause.
	firstPause = 300 * time.Millisecond
	maxPause   = time.Second
	// maxRetryAfter is believed: whoever asks for a day meant something else.
	maxRetryAfter = 10 * time.Minute
)

// pauseAfter says how long to pause after the nth attempt, and whether there is
// to be another one. A busy object is busy for longer than any pause.
func pauseAfter(err *Error, n int) (time.Duration, bool) {
	passing := err.Status == 0 || err.Status == http.StatusTooManyRequests || err.Status >= 500
	if n == maxAttempts || !passing || err.OutcomeUnknown || errors.Is(err.cause, context.DeadlineExceeded) || err.retryAfter > maxPause {
		return 0, false
	}
	if err.retryAfter > 0 {
		return err.retryAfter, true
	}
	pause := firstPause << (n - 1)
	return pause/2 + rand.N(pause/2), true
}

// wait says whether ctx lasted for so long.
func wait(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// outcomeUnknown says whether a write with this answer may have been done. In
// maintenance (503) it was not; a proxy before the API answers 502 and 504 when
// it lost the answer, and 500 is anything.
func outcomeUnknown(status int) bool {
	return status >= 500 && status != http.StatusServiceUnavailable && status != http.StatusNotImplemented
}

// retryAfter reads the header of this name: seconds, or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if s, err := strconv.Atoi(header); err == nil {
		return min(time.Duration(min(max(s, 0), int(maxRetryAfter/time.Second)))*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}
