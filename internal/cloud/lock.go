package cloud

import (
	"context"
	"sync"
)

// Locks has one lock for each object that is being changed, or waited for. The
// zero value is ready to use.
type Locks struct {
	mu  sync.Mutex
	all map[string]*lock
}

type lock struct {
	held    chan struct{} // has a token while somebody holds it
	waiting int           // the holder is one of them
}

// Lock waits until nobody else in this process holds the lock of this ID.
func (l *Locks) Lock(ctx context.Context, id string) (unlock func(), err error) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*lock{}
	}
	one := l.all[id]
	if one == nil {
		one = &lock{held: make(chan struct{}, 1)}
		l.all[id] = one
	}
	one.waiting++
	l.mu.Unlock()

	select {
	case one.held <- struct{}{}:
		return sync.OnceFunc(func() {
			<-one.held
			l.leave(id, one)
		}), nil
	case <-ctx.Done():
		l.leave(id, one)
		return nil, ctx.Err()
	}
}

func (l *Locks) leave(id string, one *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.waiting--; one.waiting == 0 {
		delete(l.all, id)
	}
}
