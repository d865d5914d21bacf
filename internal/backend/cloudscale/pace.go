package cloudscale

import "time"

const (
	// firstLook and firstTry are when to look at something of which nobody knows
	// how long it takes; then after twice as long each time. Trying a change is
	// more work for the cloud than answering a look.
	firstLook = 200 * time.Millisecond
	firstTry  = time.Second
	// maxLook and maxTry are the longest times between two. The cloud says that it
	// is busy also of some things that it will never do.
	maxLook = 5 * time.Second
	maxTry  = 30 * time.Second
)
