package projects

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// departure is for how long at least it is remembered that a Service is gone. Another
// cache, which a look at the Service comes from, may be behind by less.
const departure = time.Minute

// departed are the UIDs of Services that were deleted a moment ago.
type departed struct {
	now, before map[types.UID]struct{}
	since       time.Time // of what is in now
}

func (d *departed) add(uid types.UID, at time.Time) {
	if uid == "" {
		return
	}
	if d.now == nil || at.Sub(d.since) > departure {
		d.before, d.now, d.since = d.now, map[types.UID]struct{}{}, at
	}
	d.now[uid] = struct{}{}
}

func (d *departed) remove(uid types.UID) {
	delete(d.now, uid)
	delete(d.before, uid)
}

func (d *departed) has(uid types.UID) bool {
	_, now := d.now[uid]
	_, before := d.before[uid]
	return now || before
}
