package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fairlead.io/internal/backend"
	"fairlead.io/internal/lb"
)

const (
	// inventoryPause is how often a backend is asked for its pools, unless it is
	// resynced more often, or a Service waits for an address: inventoryHurry.
	inventoryPause = time.Minute
	inventoryHurry = 10 * time.Second
	inventoryRetry = 2 * time.Second
)

// inventory has the pools of a backend, as they were read last.
type inventory struct {
	from  backend.Inventory
	pause time.Duration
	log   *slog.Logger
	// changed is told after pools were read, and known when the ledger gets them for
	// the first time; that one must only queue.
	changed, known func()
	// services are those of the backend's classes, and waiting says whether one of
	// them waits for an address.
	services func(context.Context) ([]lb.Service, error)
	waiting  func() bool
	// now has one value when the pools are to be read at once.
	now chan struct{}

	mu     sync.Mutex
	pools  []lb.Pool
	loaded bool
	taken  bool // the ledger has them, or gets them before it answers anybody
}

// newInventory returns nil if the backend has none.
func newInventory(b *Backend, log *slog.Logger) *inventory {
	from, ok := b.Backend.(backend.Inventory)
	if !ok {
		return nil
	}
	pause := inventoryPause
	if b.Resync > 0 {
		pause = min(pause, b.Resync)
	}
	return &inventory{
		from: from, pause: pause, log: log, now: make(chan struct{}, 1),
		services: func(context.Context) ([]lb.Service, error) { return nil, nil },
		waiting:  func() bool { return false },
	}
}

// pending says whether the pools are not known yet: the class waits, others go on.
func (i *inventory) pending() bool {
	if i == nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return !i.taken
}

// take returns the pools as they were read last, for the ledger, which is locked.
func (i *inventory) take() []lb.Pool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.loaded && !i.taken {
		i.taken = true
		i.known()
	}
	return i.pools
}

// again has the pools read at once; it never blocks.
func (i *inventory) again() {
	if i == nil {
		return
	}
	select {
	case i.now <- struct{}{}:
	default: // they will be read anyway
	}
}

// Start reads the pools until ctx ends; on an error the last ones stay.
func (i *inventory) Start(ctx context.Context) error {
	for {
		err := i.read(ctx)
		if err != nil && ctx.Err() == nil {
			i.log.Warn("could not read pools of a backend; keeping the last known ones", "error", err)
		}
		if !i.rest(ctx, err != nil) {
			return nil
		}
	}
}

func (i *inventory) read(ctx context.Context) error {
	services, err := i.services(ctx)
	if err != nil {
		return err
	}
	pools, err := i.from.Pools(ctx, services)
	if err != nil {
		return err
	}
	i.mu.Lock()
	i.pools, i.loaded = pools, true
	i.mu.Unlock()
	i.changed()
	return nil
}

// rest waits until the pools are to be read again. It returns false if ctx ends
// before.
func (i *inventory) rest(ctx context.Context, failed bool) bool {
	began, tick := time.Now(), min(i.pause, inventoryHurry)
	if failed {
		tick = inventoryRetry
	}
	for {
		select {
		case <-ctx.Done():
			return false
		case <-i.now:
			return true
		case <-time.After(tick):
			if failed || i.waiting() || time.Since(began) >= i.pause {
				return true
			}
		}
	}
}
