package cloud

import (
	"context"
	"sync"
	"time"
)

// Batches does changes of the same object one after the other, and those that
// wait together. C is a change, R what its caller gets.
type Batches[C, R any] struct {
	work  func(ctx context.Context, id string, b *Batch[C]) []Outcome[R]
	locks Locks

	mu      sync.Mutex
	waiting map[string][]*pending[C, R]
	open    map[string]*lifetime // of batches that still take changes
}

// Outcome of one change.
type Outcome[R any] struct {
	Value R
	Err   error
}

// Batch is changes that are done together. Until they are taken, others join.
type Batch[C any] struct{ peek, take func() []C }

// Waiting are the changes that wait now.
func (b *Batch[C]) Waiting() []C { return b.peek() }

// The least and the most time that a batch waits for others if nothing had to be read.
const (
	gatherStep = 5 * time.Millisecond
	gatherMost = 50 * time.Millisecond
)

// Gather waits as long as changes keep coming, at most as long as reading took: a burst
// is done by one batch, instead of a small one that all others wait for. One change that
// is alone does not wait.
func (b *Batch[C]) Gather(ctx context.Context, took time.Duration) {
	step, most := max(gatherStep, took/10), max(gatherMost, took)
	for before, began := 1, time.Now(); time.Since(began) < most; {
		now := len(b.peek())
		if now <= before {
			return
		}
		before = now
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return
		}
	}
}

// Take ends the waiting and returns all changes.
func (b *Batch[C]) Take() []C { return b.take() }

type pending[C, R any] struct {
	ctx     context.Context
	change  C
	outcome Outcome[R]
	done    bool // belongs to whoever has the lock
}

// NewBatches makes batches that work does. It takes the changes once, when it knows
// what there is, so that those who come while it reads need no reading of their own;
// and returns an outcome for each. Its context lasts as long as that of any of their
// callers.
func NewBatches[C, R any](work func(ctx context.Context, id string, b *Batch[C]) []Outcome[R]) *Batches[C, R] {
	return &Batches[C, R]{work: work, waiting: map[string][]*pending[C, R]{}, open: map[string]*lifetime{}}
}

// Do does a change of the object id. A caller whose context ends while others do
// the change does not learn whether it was done.
func (b *Batches[C, R]) Do(ctx context.Context, id string, change C) (R, error) {
	own := &pending[C, R]{ctx: ctx, change: change}
	b.mu.Lock()
	b.waiting[id] = append(b.waiting[id], own)
	if l := b.open[id]; l != nil {
		l.add(ctx)
	}
	b.mu.Unlock()

	unlock, err := b.locks.Lock(ctx, id)
	if err != nil {
		b.remove(id, own)
		return own.outcome.Value, err
	}
	defer unlock()
	if !own.done {
		b.all(ctx, id)
	}
	return own.outcome.Value, own.outcome.Err
}

// all does what waits. The caller has the lock.
func (b *Batches[C, R]) all(ctx context.Context, id string) {
	life := newLifetime(ctx)
	defer life.end()
	b.mu.Lock()
	for _, one := range b.waiting[id] {
		life.add(one.ctx)
	}
	b.open[id] = life
	b.mu.Unlock()

	var taken []*pending[C, R]
	changes := func(of []*pending[C, R]) []C {
		out := make([]C, len(of))
		for i, one := range of {
			out[i] = one.change
		}
		return out
	}
	outcomes := b.work(life.ctx, id, &Batch[C]{
		peek: func() []C {
			b.mu.Lock()
			defer b.mu.Unlock()
			return changes(b.waiting[id])
		},
		take: func() []C {
			b.mu.Lock()
			defer b.mu.Unlock()
			taken = b.takeAll(id, life)
			return changes(taken)
		},
	})
	for i, outcome := range outcomes {
		taken[i].outcome, taken[i].done = outcome, true
	}
}

// takeAll returns what waits. Who came after everybody else had given up is left for
// the next batch.
func (b *Batches[C, R]) takeAll(id string, life *lifetime) (taken []*pending[C, R]) {
	delete(b.open, id)
	all := b.waiting[id]
	delete(b.waiting, id)
	for _, one := range all {
		if life.ctx.Err() != nil && one.ctx.Err() == nil {
			b.waiting[id] = append(b.waiting[id], one)
		} else {
			taken = append(taken, one)
		}
	}
	return taken
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

// lifetime is a context that ends when all that were added have ended.
type lifetime struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	left  int
	stops []func() bool
}

func newLifetime(values context.Context) *lifetime {
	l := &lifetime{}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(values))
	return l
}

func (l *lifetime) add(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left++
	l.stops = append(l.stops, context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.left--; l.left == 0 {
			l.cancel()
		}
	}))
}

func (l *lifetime) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, stop := range l.stops {
		stop()
	}
	l.cancel()
}
