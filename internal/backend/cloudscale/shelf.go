package cloudscale

import (
	"context"
	"slices"
	"sync"
	"time"

	"fairlead.io/internal/cloudscale"
)

// shelf has all objects of one kind as they were last read, with the changes
// that we have made since.
type shelf[T any] struct {
	id   func(*T) string
	list func(context.Context, cloudscale.Tags) ([]T, error)
	turn chan struct{} // has a token while somebody reads

	mu    sync.Mutex
	at    time.Time // when it was read; zero if it has to be read again
	items []T
	// since are our changes while somebody reads: what is read may or may not
	// have them already.
	reading bool
	changes []change[T]
	unsure  bool // forget was called while somebody reads
}

// change is one object that was put, or dropped.
type change[T any] struct {
	id  string
	now *T // nil: dropped
}

func newShelf[T any](list func(context.Context, cloudscale.Tags) ([]T, error), id func(*T) string) *shelf[T] {
	return &shelf[T]{id: id, list: list, turn: make(chan struct{}, 1)}
}

// since returns all objects as they were at oldest or later. If all that matter
// to the caller are known from then on (they were made after it), no reading is
// needed.
func (s *shelf[T]) since(ctx context.Context, oldest, known time.Time) ([]T, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	if at := latest(s.at, known); !at.IsZero() && !at.Before(oldest) {
		defer s.mu.Unlock()
		return slices.Clone(s.items), nil
	}
	s.reading, s.changes, s.unsure = true, nil, false
	s.mu.Unlock()

	began := time.Now()
	items, err := s.list(ctx, nil)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = false
	if err != nil {
		return nil, err
	}
	s.items, s.at = items, began
	for _, c := range s.changes {
		s.apply(c)
	}
	if s.unsure {
		s.at = time.Time{}
	}
	return slices.Clone(s.items), nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// peek returns what is there, however old.
func (s *shelf[T]) peek() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.items)
}

func (s *shelf[T]) put(o T) { s.note(change[T]{s.id(&o), &o}) }

func (s *shelf[T]) drop(id string) { s.note(change[T]{id, nil}) }

// edit changes an object if it is there.
func (s *shelf[T]) edit(id string, f func(*T)) {
	for _, o := range s.peek() {
		if s.id(&o) == id {
			f(&o)
			s.put(o)
		}
	}
}

func (s *shelf[T]) note(c change[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading {
		s.changes = append(s.changes, c)
	}
	s.apply(c)
}

func (s *shelf[T]) apply(c change[T]) {
	at := slices.IndexFunc(s.items, func(o T) bool { return s.id(&o) == c.id })
	switch {
	case c.now == nil && at >= 0:
		s.items = slices.Delete(s.items, at, at+1)
	case c.now != nil && at >= 0:
		s.items[at] = *c.now
	case c.now != nil:
		s.items = append(s.items, *c.now)
	}
}

// empty says that there is nothing, as of now.
func (s *shelf[T]) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items, s.at = nil, time.Now()
}

func (s *shelf[T]) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.unsure = time.Time{}, true
}
