package controller

import "time"

// foreignWrites notices that somebody else keeps overwriting a status.
type foreignWrites struct {
	count   int
	last    time.Time
	version string // resourceVersion of the last one: each is counted once
}

const (
	// foreignTolerated rewrites are done at once: a person or a migration may
	// edit a status a few times.
	foreignTolerated = 3
	foreignFirst     = 5 * time.Second
	maxForeignWait   = 5 * time.Minute
	// foreignHarmful is the longest wait if the other writes addresses of our
	// pools: another Service may have them.
	foreignHarmful = time.Second
	// foreignQuiet without a foreign write and all is forgotten.
	foreignQuiet = 2 * maxForeignWait
)

// note counts the overwritten status of the given resourceVersion.
func (f *foreignWrites) note(version string, now time.Time) {
	if f.version == version {
		return
	}
	f.count++
	f.last, f.version = now, version
}

// persistent says whether the other writer does not give up.
func (f *foreignWrites) persistent(now time.Time) bool {
	if now.Sub(f.last) >= foreignQuiet {
		f.count = 0
	}
	return f.count > foreignTolerated
}

// wait is how long to leave the status alone yet, at most most.
func (f *foreignWrites) wait(now time.Time, most time.Duration) time.Duration {
	pause := most
	if doublings := f.count - foreignTolerated - 1; doublings < 6 {
		pause = min(most, foreignFirst<<doublings)
	}
	return pause - now.Sub(f.last)
}
