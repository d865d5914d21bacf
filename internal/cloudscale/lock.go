package cloudscale

import (
	"context"
	"sync"
)

// locks has one lock for each load balancer that is being changed, or waited for.
type locks struct {
	mu  sync.Mutex
	all map[string]*lock
}

type lock struct {
	held    chan struct{} // has a token while somebody holds it
	waiting int           // who holds it is one of them
}

// Lock waits until nobody else of this process changes the load balancer.
func (c *Client) Lock(ctx context.Context, loadBalancer string) (unlock func(), err error) {
	return c.locks.lock(ctx, loadBalancer)
}

func (l *locks) lock(ctx context.Context, key string) (func(), error) {
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*lock{}
	}
	one := l.all[key]
	if one == nil {
		one = &lock{held: make(chan struct{}, 1)}
		l.all[key] = one
	}
	one.waiting++
	l.mu.Unlock()

	select {
	case one.held <- struct{}{}:
		return sync.OnceFunc(func() {
			<-one.held
			l.leave(key, one)
		}), nil
	case <-ctx.Done():
		l.leave(key, one)
		return nil, ctx.Err()
	}
}

func (l *locks) leave(key string, one *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.waiting--; one.waiting == 0 {
		delete(l.all, key)
	}
}
