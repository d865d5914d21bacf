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
	// resynced more often.
	inventoryPause = time.Minute
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
	return &inventory{from: from, pause: pause, log: log}
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

// Start reads the pools until ctx ends; on an error the last ones stay.
func (i *inventory) Start(ctx context.Context) error {
	for {
		next := i.pause
		if pools, err := i.from.Pools(ctx); err != nil {
			if ctx.Err() == nil {
				i.log.Warn("could not read pools of a backend; keeping the last known ones", "error", err)
			}
			next = inventoryRetry
		} else {
			i.mu.Lock()
			i.pools, i.loaded = pools, true
			i.mu.Unlock()
			i.changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(next):
		}
	}
}
