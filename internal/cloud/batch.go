package cloud

import (
	"context"
	"sync"
)

// Batches does changes of the same object one after the other, and those that
// wait together. C is a change, R what its caller gets.
type Batches[C, R any] struct {
	work  func(ctx context.Context, id string, changes []C) []Outcome[R]
	locks Locks

	mu      sync.Mutex
	waiting map[string][]*pending[C, R]
}

// Outcome of one change.
type Outcome[R any] struct {
	Value R
	Err   error
}

type pending[C, R any] struct {
	ctx     context.Context
	change  C
	outcome Outcome[R]
	done    bool // belongs to whoever has the lock
}

// NewBatches makes batches that work does: it returns an outcome for each change.
// Its context lasts as long as that of any of their callers.
func NewBatches[C, R any](work func(ctx context.Context, id string, changes []C) []Outcome[R]) *Batches[C, R] {
	return &Batches[C, R]{work: work, waiting: map[string][]*pending[C, R]{}}
}

// Do does a change of the object id. A caller whose context ends while others do
// the change does not learn whether it was done.
func (b *Batches[C, R]) Do(ctx context.Context, id string, change C) (R, error) {
	own := &pending[C, R]{ctx: ctx, change: change}
	b.mu.Lock()
	b.waiting[id] = append(b.waiting[id], own)
	b.mu.Unlock()

	unlock, err := b.locks.Lock(ctx, id)
	if err != nil {
		b.remove(id, own)
		return own.outcome.Value, err
	}
	defer unlock()
	if !own.done {
		b.all(id)
	}
	return own.outcome.Value, own.outcome.Err
}

// all does what waits. The caller has the lock.
func (b *Batches[C, R]) all(id string) {
	b.mu.Lock()
	batch := b.waiting[id]
	delete(b.waiting, id)
	b.mu.Unlock()

	ctx, end := untilAllEnd(batch)
	defer end()
	changes := make([]C, len(batch))
	for i, one := range batch {
		changes[i] = one.change
	}
	for i, outcome := range b.work(ctx, id, changes) {
		batch[i].outcome, batch[i].done = outcome, true
	}
}

func (b *Batches[C, R]) remove(id string, own *pending[C, R]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, one := range b.waiting[id] {
		if one == own {
			b.waiting[id] = append(b.waiting[id][:i:i], b.waiting[id][i+1:]...)
			break
		}
	}
	if len(b.waiting[id]) == 0 {
		delete(b.waiting, id)
	}
}

// untilAllEnd is a context that ends when all of theirs have ended.
func untilAllEnd[C, R any](batch []*pending[C, R]) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(batch[0].ctx))
	var mu sync.Mutex
	left := len(batch)
	stops := make([]func() bool, len(batch))
	for i, one := range batch {
		stops[i] = context.AfterFunc(one.ctx, func() {
			mu.Lock()
			defer mu.Unlock()
			if left--; left == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
