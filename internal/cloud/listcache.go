package cloud

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// LookAge is how old a list may be for lookups.
	LookAge = 10 * time.Second
	// MissAge is for lookups that miss an object in it: it may have been made since.
	MissAge = time.Second
)

// ListCache has all objects of one kind as they were last read, with the changes
// that we have made since. Callers that ask while it is read wait for the
// same list.
//
// The lists that it returns belong to everybody: they must not be changed.
type ListCache[T any] struct {
	id   func(*T) string
	list func(context.Context) ([]T, error)
	turn chan struct{} // has a token while somebody reads
	last failure       // of whoever read last; belongs to whoever has the turn

	mu    sync.Mutex
	at    time.Time // when it was read; zero if it has to be read again
	items []T       // never changed in place
	// changes are our own while somebody reads: what is read may or may not have
	// them already.
	reading bool
	changes []change[T]
	unsure  bool // Forget was called while somebody reads
}

// change is one object that was put, or dropped.
type change[T any] struct {
	id  string
	now *T // nil: dropped
}

// failure of reading a list.
type failure struct {
	err       error
	ended     time.Time
	abandoned bool // by the one who read it
}

// NewListCache is a cache of what list returns; id is the ID of an object.
func NewListCache[T any](list func(context.Context) ([]T, error), id func(*T) string) *ListCache[T] {
	return &ListCache[T]{id: id, list: list, turn: make(chan struct{}, 1)}
}

// ID of an object.
func (c *ListCache[T]) ID(o *T) string { return c.id(o) }

// Within returns all objects as they were at most age ago.
func (c *ListCache[T]) Within(ctx context.Context, age time.Duration) ([]T, error) {
	return c.Since(ctx, time.Now().Add(-age), time.Time{})
}

// Since returns all objects as they were at oldest or later. If all that matter
// to the caller are known from then on (they were made after it), no reading is
// needed. A failure is shared by those who waited for it, unless it is only that
// the one who read gave up.
func (c *ListCache[T]) Since(ctx context.Context, oldest, known time.Time) ([]T, error) {
	asked := time.Now()
	if items, ok := c.have(oldest, known); ok {
		return items, nil // whoever reads meanwhile wants a newer one
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if items, ok := c.have(oldest, known); ok {
		return items, nil
	}
	c.mu.Lock()
	if f := c.last; f.err != nil && f.ended.After(asked) && !f.abandoned {
		defer c.mu.Unlock()
		return nil, f.err
	}
	c.reading, c.changes, c.unsure = true, nil, false
	c.mu.Unlock()

	began := time.Now()
	items, err := c.list(ctx)
	c.last = failure{err, time.Now(), ctx.Err() != nil}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.reading = false
	if err != nil {
		return nil, err
	}
	c.items, c.at = items, began
	for _, change := range c.changes {
		c.apply(change)
	}
	if c.unsure {
		c.at = time.Time{}
	}
	return c.items, nil
}

// have returns the list if it is new enough.
func (c *ListCache[T]) have(oldest, known time.Time) ([]T, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := latest(c.at, known)
	return c.items, !at.IsZero() && !at.Before(oldest)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ReadAt is when the list was last asked for; zero if it has to be read again.
func (c *ListCache[T]) ReadAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// Peek returns what is there, however old.
func (c *ListCache[T]) Peek() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.items
}

// Put notes an object that we have made, changed or read by itself.
func (c *ListCache[T]) Put(o T) { c.note(change[T]{c.id(&o), &o}) }

// Drop notes that an object is gone.
func (c *ListCache[T]) Drop(id string) { c.note(change[T]{id, nil}) }

// Edit changes an object if it is there. f must not change what the object
// points to.
func (c *ListCache[T]) Edit(id string, f func(*T)) {
	for _, o := range c.Peek() {
		if c.id(&o) == id {
			f(&o)
			c.Put(o)
		}
	}
}

func (c *ListCache[T]) note(change change[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reading {
		c.changes = append(c.changes, change)
	}
	c.apply(change)
}

func (c *ListCache[T]) apply(change change[T]) {
	at := slices.IndexFunc(c.items, func(o T) bool { return c.id(&o) == change.id })
	switch {
	case change.now == nil && at >= 0:
		c.items = slices.Concat(c.items[:at], c.items[at+1:])
	case change.now != nil && at >= 0:
		c.items = slices.Clone(c.items)
		c.items[at] = *change.now
	case change.now != nil:
		c.items = append(slices.Clip(c.items), *change.now)
	}
}

// Empty says that there is nothing, as of now.
func (c *ListCache[T]) Empty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items, c.at = nil, time.Now()
}

// Forget what is known about the list: the next caller reads it.
func (c *ListCache[T]) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.unsure = time.Time{}, true
}
