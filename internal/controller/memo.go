package controller

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"fairlead.io/internal/lb"
)

// memo is what the controller remembers of one Service besides its verdict.
// Nothing in it is needed to decide right: it only saves writes and words.
// It belongs to the reconcile of that Service, of which there is one at a time.
type memo struct {
	uid  types.UID
	seen time.Time // when the Service was seen first

	told lb.Reason   // what the last event said of how the Service stands
	also []lb.Reason // what else was reported
	// reason is the last one of all, also of those that pass; it is counted.
	reason atomic.Pointer[lb.Reason]
	// unannounced: the Service says that nobody answers for one of its addresses.
	unannounced atomic.Bool
	// waits is since when the Service waits, in nanoseconds of Unix time; 0 if it does not.
	waits   atomic.Int64
	working bool // what is under way was begun by us, and reported
	// attempted: a write was tried of which no event tells yet.
	attempted bool
	// warned of what is deprecated.
	warned bool

	// pools that its addresses were from when they were last from any.
	pools []lb.PoolKey

	settled bool // what its status said at first sight was taken into account
	// lacks: it has no address. It is read by others.
	lacks atomic.Bool
	// yielded are the addresses that somebody else turned out to have.
	yielded []netip.Addr

	// written is the resourceVersion our last write made. An older version of
	// the object from the cache knows nothing of that write.
	written   string
	published []netip.Addr // by that write
	content   string       // by that write
	// asked is what the Service asked for when it got what it publishes.
	asked   asked
	foreign foreignWrites
}

// news is what of an outcome, after which the Service stands as reason says, has not
// been told yet. That something is under way is only worth a word if nothing was said
// about why.
func (m *memo) news(out *lb.Outcome, reason lb.Reason) (tell []lb.Reason) {
	for _, r := range out.Tell {
		if !slices.ContainsFunc(m.also, r.Equal) {
			tell = append(tell, r)
		}
	}
	m.also = out.Tell
	m.unannounced.Store(out.Unannounced != nil)
	m.working = out.Done > 0 || m.working && out.Passing
	if !reason.Ready() { // before the reason, which is counted with it
		m.waits.CompareAndSwap(0, time.Now().UnixNano())
	}
	last := m.reason.Swap(&reason)
	if reason.Ready() {
		m.waits.Store(0)
	}
	switch {
	case reason.Code == "" || reason.Equal(m.told):
		return tell
	case out.Passing && (m.working || last != nil && last.Equal(reason)):
		return tell
	}
	if !out.Passing { // after which it stands as before
		m.told = reason
	}
	return append(tell, reason)
}

// memos has one memo per Service.
type memos struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*memo
}

// of returns the memo of s. At first sight of a Service, what
// is written on it (says, where that is not our condition) counts as reported: a
// restart repeats no event.
func (m *memos) of(s *lb.Service, says *lb.Reason, now time.Time) *memo {
	if have := m.find(s); have != nil {
		return have
	}
	fresh := &memo{uid: s.UID, seen: now}
	switch {
	case s.Says != nil:
		fresh.told = s.Says.Reason
	case says != nil:
		fresh.told = *says
	}
	stands := fresh.told // a copy, so that metrics do not wait for events
	fresh.reason.Store(&stands)
	fresh.unannounced.Store(s.Unannounced != nil)
	switch {
	case s.Says != nil && !s.Says.True:
		fresh.waits.Store(s.Says.Since.UnixNano())
	case !stands.Ready():
		fresh.waits.Store(now.UnixNano())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[types.NamespacedName]*memo{}
	}
	m.all[s.Key] = fresh
	return fresh
}

// find returns the memo of s, or nil if there is none yet.
func (m *memos) find(s *lb.Service) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	if have := m.all[s.Key]; have != nil && have.uid == s.UID {
		return have
	}
	return nil
}

// knows says whether there is a memo of a Service of that name.
func (m *memos) knows(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[key] != nil
}

// forget returns the UID of the Service that was known by that name.
func (m *memos) forget(key types.NamespacedName) (uid types.UID, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	have := m.all[key]
	if have == nil {
		return "", false
	}
	delete(m.all, key)
	return have.uid, true
}

// waiting says whether any Service has no address.
func (m *memos) waiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.all {
		if one.lacks.Load() {
			return true
		}
	}
	return false
}

// forgetAll returns the UIDs of all Services that were known.
func (m *memos) forgetAll() (out []types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.all {
		out = append(out, one.uid)
	}
	m.all = nil
	return out
}

// count adds to reasons and states how many Services stand how, and to since, by reason,
// when the first one of those that wait began to.
func (m *memos) count(reasons map[lb.Code]int, states map[string]int, since map[lb.Code]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range m.all {
		r := one.reason.Load()
		if r == nil || r.Code == "" {
			continue // it has not been looked at yet
		}
		reasons[r.Code]++
		switch {
		case !r.Ready():
			states[stateWaiting]++
			if at := one.waits.Load(); at != 0 && (since[r.Code].IsZero() || at < since[r.Code].UnixNano()) {
				since[r.Code] = time.Unix(0, at)
			}
		case one.unannounced.Load():
			states[stateUnannounced]++
		default:
			states[stateReady]++
		}
	}
}

// stale says whether s is older than our own last write: deciding on it would
// undo that write. The newer version is on its way.
func (m *memo) stale(s *lb.Service) bool {
	if m.written == "" {
		return false
	}
	cmp, err := resourceversion.CompareResourceVersion(s.Version, m.written)
	return err == nil && cmp < 0
}

// age of the Service for the histogram. Creation times have whole seconds, so
// for a Service that was created while we watched, first sight tells it better.
func (m *memo) age(s *lb.Service, now time.Time) time.Duration {
	if m.seen.Sub(s.Created) < 2*time.Second {
		return now.Sub(m.seen)
	}
	return now.Sub(s.Created)
}
