package controller

import (
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	told lb.Reason // what the last event said
	// untold: a write was tried of which no event tells yet
	untold bool
	// warned of annotations that are deprecated
	warned bool

	settled bool // what its status said at first sight was taken into account

	// written is the resourceVersion our last write made. An older version of
	// the object from the cache knows nothing of that write.
	written   string
	published []netip.Addr // by that write
	said      string       // by that write, where kube-vip announces
	// asked is what the Service asked for when it got what it publishes.
	asked   wish
	foreign foreignWrites
}

// memos has one memo per Service.
type memos struct {
	mu  sync.Mutex
	all map[types.NamespacedName]*memo
}

// of returns the memo of s. A Service seen for the first time was told what is
// written on it: a restart repeats no event.
func (m *memos) of(s *corev1.Service, now time.Time) *memo {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
	if have := m.all[key]; have != nil && have.uid == s.UID {
		return have
	}
	fresh := &memo{uid: s.UID, seen: now}
	fresh.told, _ = reasonOn(s)
	if m.all == nil {
		m.all = map[types.NamespacedName]*memo{}
	}
	m.all[key] = fresh
	return fresh
}

func (m *memos) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, key)
}

// stale says whether s is older than our own last write: deciding on it would
// undo that write. The newer version is on its way.
func (m *memo) stale(s *corev1.Service) bool {
	if m.written == "" {
		return false
	}
	cmp, err := resourceversion.CompareResourceVersion(s.ResourceVersion, m.written)
	return err == nil && cmp < 0
}

// age of the Service for the histogram. Creation times have whole seconds, so
// for a Service that was created while we watched, first sight tells it better.
func (m *memo) age(s *corev1.Service, now time.Time) time.Duration {
	if m.seen.Sub(s.CreationTimestamp.Time) < 2*time.Second {
		return now.Sub(m.seen)
	}
	return now.Sub(s.CreationTimestamp.Time)
}

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
	foreignMost      = 5 * time.Minute
	// foreignHarmful is the longest wait if the other writes addresses of our
	// pools: another Service may have them.
	foreignHarmful = time.Second
	// foreignQuiet without a foreign write and all is forgotten.
	foreignQuiet = 2 * foreignMost
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
